#include "runtime/cuda/driver/host_memory.h"

#include <algorithm>
#include <bit>

namespace coil::runtime::cuda {

HostMemory::~HostMemory() {
  for (const auto& [capacity, blocks] : free_)
    for (void* block : blocks) release(block);
}

Storage HostMemory::allocate(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t capacity = std::bit_ceil(std::max(bytes, kPage));
  void* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = free_.find(capacity); found != free_.end() && !found->second.empty()) {
      block = found->second.back();
      found->second.pop_back();
      free_bytes_ -= capacity;
    }
  }
  if (!block)
    device_->driver().check(device_->driver().host_allocate(&block, capacity, kHostAllocPortable),
                            "allocate page-locked memory of the host");
  std::shared_ptr<std::byte> data(static_cast<std::byte*>(block), [pool = shared_from_this(), capacity](std::byte* p) {
    pool->give_back(p, capacity);
  });
  return {std::move(data), bytes};
}

void HostMemory::give_back(void* block, std::size_t capacity) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (free_bytes_ + capacity <= kKept) try {
        free_[capacity].push_back(block);
        free_bytes_ += capacity;
        return;
      } catch (const std::bad_alloc&) {  // then it is not kept
      }
  }
  release(block);
}

void HostMemory::release(void* block) const noexcept {
  try {
    const CurrentContext current(*device_);
    device_->driver().host_release(block);
  } catch (...) {  // the device is gone, and its memory with it
  }
}

}  // namespace coil::runtime::cuda
