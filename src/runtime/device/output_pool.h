// Memory for outputs and temporaries on the CPU that keeps its pages between calls: the page faults of a fresh 32 MiB
// block cost more than filling it.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/page_heap.h"
#include "runtime/device/pooled_block.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Hands out blocks and takes them back when the last Storage that refers to them goes, from any thread. Small blocks
/// are the pool's own, by size; large ones come from the heap, which all pools of the process share. Blocks in use keep
/// the pool alive; free ones go with it.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  static std::shared_ptr<OutputPool> make(std::shared_ptr<PageHeap> heap = PageHeap::shared());
  ~OutputPool();
  OutputPool(const OutputPool&) = delete;
  OutputPool& operator=(const OutputPool&) = delete;

  /// At least `bytes` bytes, 64-byte aligned (large blocks: page-aligned), contents undefined. Throws Error when memory
  /// is out.
  Storage allocate(std::size_t bytes);
  /// The most bytes that were asked for and in use at once since `begin_measuring`, less what was in use then.
  std::size_t measured_bytes() const;
  void begin_measuring();

 private:
  struct Block;
  template <class, class, class>
  friend struct ControlAllocator;

  explicit OutputPool(std::shared_ptr<PageHeap> heap) : heap_(std::move(heap)) {}
  void give_back(Block*) noexcept;
  static Block* take(std::vector<Block*>&);
  Block* small_block(std::size_t capacity);
  Block* large_block(std::size_t bytes);

  const std::shared_ptr<PageHeap> heap_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<Block*>> free_;  ///< small ones, by capacity
  std::map<std::size_t, std::size_t> made_;          ///< blocks of each capacity, free or not
  std::vector<Block*> records_;                      ///< of large blocks, which have none now
  std::size_t record_count_ = 0;                     ///< those and the ones in use
  std::size_t used_bytes_ = 0, most_bytes_ = 0, used_before_ = 0;
};

}  // namespace coil::runtime
