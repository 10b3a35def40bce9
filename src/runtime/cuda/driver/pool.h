// Device memory kept between calls: blocks go back when the last reference goes and are handed out again on the same
// stream, so that no call of the driver and no wait is needed. Of equal blocks the one with the lowest address goes
// first, in whatever order they came back: calls that ask for the same sizes get the same memory, and what was recorded
// of one can be launched for the next.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/driver/device.h"
#include "runtime/device/pooled_block.h"
#include "tensor/tensor.h"

namespace coil::runtime::cuda {

/// One stream's memory: a block that comes back while work on it is queued is only ever used by later work of that
/// stream. Giving back is safe from any thread; blocks in use keep the pool alive.
class MemoryPool : public std::enable_shared_from_this<MemoryPool> {
 public:
  static std::shared_ptr<MemoryPool> make(std::shared_ptr<const CudaDevice>);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Contents undefined. When the device is out of memory, free blocks go back to it and it is asked once more; then
  /// throws Error. The device's context is current.
  Storage allocate(std::size_t bytes, std::uint64_t planned_bytes);
  /// Gives all free blocks back to the device.
  void trim();
  std::size_t free_bytes() const;
  /// The most bytes that were asked for and in use at once since `begin_measuring`, less what was in use then.
  std::size_t measured_bytes() const;
  void begin_measuring();

 private:
  struct Block;
  template <class, class, class>
  friend struct runtime::ControlAllocator;
  explicit MemoryPool(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  Block* take(std::size_t capacity);
  Block* make_block(std::size_t capacity, std::size_t bytes, std::uint64_t planned_bytes);
  void give_back(Block*) noexcept;

  std::shared_ptr<const CudaDevice> device_;
  mutable std::mutex mutex_;
  static bool lies_higher(const Block* a, const Block* b);
  std::map<std::size_t, std::vector<Block*>> free_;  ///< by capacity; heaps whose front has the lowest address
  std::map<std::size_t, std::size_t> made_;          ///< blocks of each capacity, free or not
  std::size_t free_bytes_ = 0, used_bytes_ = 0, most_bytes_ = 0, used_before_ = 0;
};

}  // namespace coil::runtime::cuda
