// Memory for outputs and temporaries that keeps its pages between calls: on a CPU the page faults of a fresh 32 MiB
// block cost more than filling it.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/device/pooled_block.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Hands out blocks and takes them back when the last Storage that refers to them goes, from any thread. Blocks in use
/// keep the pool alive; free ones go with it.
class OutputPool : public std::enable_shared_from_this<OutputPool> {
 public:
  /// At most `keep_bytes` of free blocks are kept.
  static std::shared_ptr<OutputPool> make(std::size_t keep_bytes = std::size_t{1} << 30);
  ~OutputPool();
  OutputPool(const OutputPool&) = delete;
  OutputPool& operator=(const OutputPool&) = delete;

  /// At least `bytes` bytes, 64-byte aligned (page-aligned from 1 MiB on), contents undefined. Throws Error when memory
  /// is out.
  Storage allocate(std::size_t bytes);
  /// The same from the smallest free block that is large enough, however large it is; where none is, a new block takes
  /// the place of the largest free one. So those who borrow in turns share one block, as large as the largest needs it.
  Storage lend(std::size_t bytes);
  /// Free blocks go.
  void trim();
  std::size_t free_bytes() const;
  /// Bytes from elsewhere are in use, or no longer.
  void begin_use(std::size_t bytes);
  void end_use(std::size_t bytes);
  /// The most bytes that were asked for and in use at once since `begin_measuring`, less what was in use then.
  std::size_t measured_bytes() const;
  void begin_measuring();

 private:
  struct Block;
  template <class, class, class>
  friend struct ControlAllocator;

  explicit OutputPool(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  void give_back(Block*) noexcept;
  Block* take(std::size_t capacity);
  Storage hand_out(Block*, std::size_t bytes, std::size_t capacity);

  const std::size_t keep_bytes_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<Block*>> free_;  ///< by capacity
  std::size_t free_bytes_ = 0, used_bytes_ = 0, most_bytes_ = 0, used_before_ = 0;
};

}  // namespace coil::runtime
