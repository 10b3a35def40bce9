#include "runtime/metal/gpu.h"

#include <algorithm>
#include <bit>

#include "support/error.h"

namespace coil::runtime::metal {
namespace {

constexpr std::size_t kKept = std::size_t{1} << 30;  // bytes that a pool keeps for later, at most

/// Sizes that are nearly alike are one, so that free sizes of programs find each other's blocks.
std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kSmallest = 256, kSteps = 8;
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::max(kSmallest, std::bit_floor(bytes) / kSteps);
  return (bytes + step - 1) / step * step;
}

}  // namespace

Device metal_device(int index) { return {DeviceType::register_kind("metal"), index}; }

std::shared_ptr<Gpu> Gpu::open(int index) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Gpu>> all;
  std::lock_guard lock(mutex);
  std::shared_ptr<Gpu> gpu = all[index].lock();
  if (!gpu) all[index] = gpu = std::make_shared<Gpu>(index);
  return gpu;
}

Gpu::Gpu(int number) : index(number), handle_(f.open(number)) {
  if (!handle_) fail("{}: {}", to_string(metal_device(index)), f.error());
}

std::byte* Gpu::allocate(std::size_t bytes) {
  void* contents = nullptr;
  void* const buffer = f.allocate(handle_, bytes, &contents);
  if (!buffer) return nullptr;
  std::lock_guard lock(mutex_);
  buffers_[static_cast<std::byte*>(contents)] = buffer;
  return static_cast<std::byte*>(contents);
}

void Gpu::release(std::byte* contents) {
  void* buffer = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = buffers_.find(contents);
    buffer = found->second;
    buffers_.erase(found);
  }
  f.release(buffer);
}

std::pair<void*, std::size_t> Gpu::place(const void* address) {
  const auto at = static_cast<const std::byte*>(address);
  std::lock_guard lock(mutex_);
  const auto after = buffers_.upper_bound(const_cast<std::byte*>(at));
  if (after == buffers_.begin())
    fail("a kernel on {} is given memory of another device", to_string(metal_device(index)));
  const auto& [begin, buffer] = *std::prev(after);
  return {buffer, static_cast<std::size_t>(at - begin)};
}

std::shared_ptr<std::byte> Pool::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  std::byte* contents = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (auto& blocks = free_[size]; !blocks.empty()) {
      contents = blocks.back();
      blocks.pop_back();
      free_bytes_ -= size;
    }
  }
  if (!contents) contents = gpu_->allocate(size);
  if (!contents) return nullptr;
  return {contents, [pool = shared_from_this(), size](std::byte* p) { pool->give_back(size, p); }};
}

void Pool::give_back(std::size_t size, std::byte* contents) {
  {
    std::lock_guard lock(mutex_);
    if (free_bytes_ + size <= kKept) {
      free_[size].push_back(contents);
      free_bytes_ += size;
      return;
    }
  }
  gpu_->release(contents);
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  for (const auto& [size, blocks] : free_)
    for (std::byte* contents : blocks) gpu_->release(contents);
  free_.clear();
  free_bytes_ = 0;
}

}  // namespace coil::runtime::metal
