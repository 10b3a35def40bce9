// Page-locked memory of the host, which the device copies to while the host goes on.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/driver/device.h"
#include "tensor/tensor.h"

namespace coil::runtime::cuda {

/// Locking pages takes longer than most copies: blocks that come back are kept for the next ones. Blocks in use keep
/// the pool and the device alive.
class HostMemory : public std::enable_shared_from_this<HostMemory> {
 public:
  explicit HostMemory(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  /// At least `bytes` bytes, aligned to a page, contents undefined. Throws Error when there is none. The device's
  /// context is current.
  Storage allocate(std::size_t bytes);

 private:
  static constexpr std::size_t kKept = std::size_t{256} << 20;
  void give_back(void* block, std::size_t capacity) noexcept;
  void release(void* block) const noexcept;

  const std::shared_ptr<const CudaDevice> device_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  ///< by capacity
  std::size_t free_bytes_ = 0;
};

}  // namespace coil::runtime::cuda
