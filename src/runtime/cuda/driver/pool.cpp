#include "runtime/cuda/driver/pool.h"

#include <algorithm>
#include <bit>

#include "support/out_of_memory.h"

namespace coil::runtime::cuda {
namespace {

constexpr std::size_t kSmallest = 512, kLarge = std::size_t{1} << 20, kLargeStep = std::size_t{2} << 20;

/// Four steps for each power of two, and 2 MiB from 1 MiB on (what the device maps at once), so that slightly different
/// sizes share blocks.
std::size_t capacity_for(std::size_t bytes) {
  if (bytes > kLarge) return (bytes + kLargeStep - 1) / kLargeStep * kLargeStep;
  bytes = std::max(bytes, kSmallest);
  const std::size_t step = std::max(kSmallest, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

std::string in_units(std::uint64_t bytes) {
  return bytes < (1u << 20) ? fmt::format("{} bytes", bytes)
                            : fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

}  // namespace

struct MemoryPool::Block : PooledBlock {
  Address address = 0;
  std::size_t capacity = 0, used = 0;
};

std::shared_ptr<MemoryPool> MemoryPool::make(std::shared_ptr<const CudaDevice> device) {
  return std::shared_ptr<MemoryPool>(new MemoryPool(std::move(device)));
}

MemoryPool::~MemoryPool() { trim(); }

bool MemoryPool::lies_higher(const Block* a, const Block* b) { return a->address > b->address; }

void MemoryPool::trim() {
  const CurrentContext current(*device_);
  std::lock_guard lock(mutex_);
  for (auto& [capacity, blocks] : free_) {
    for (Block* block : blocks) {
      device_->driver().release(block->address);  // waits for what still uses it
      delete block;
    }
    made_[capacity] -= blocks.size();
    blocks.clear();
  }
  free_bytes_ = 0;
}

MemoryPool::Block* MemoryPool::take(std::size_t capacity) {
  std::lock_guard lock(mutex_);
  auto found = free_.find(capacity);
  if (found == free_.end() || found->second.empty()) return nullptr;
  std::ranges::pop_heap(found->second, lies_higher);
  Block* block = found->second.back();
  found->second.pop_back();
  free_bytes_ -= capacity;
  return block;
}

MemoryPool::Block* MemoryPool::make_block(std::size_t capacity, std::size_t bytes, std::uint64_t planned_bytes) {
  const Driver& d = device_->driver();
  auto block = std::make_unique<Block>();
  block->capacity = capacity;
  Result result = d.allocate(&block->address, capacity);
  if (result == kOutOfMemory) {
    trim();
    result = d.allocate(&block->address, capacity);
  }
  if (result == kOutOfMemory) {
    std::size_t free = 0, total = 0;
    d.memory_info(&free, &total);
    fail_out_of_memory("out of memory on {}: {} were asked for, {} of {} are free; the program's planned peak is {}",
                       device_->describe(), in_units(bytes), in_units(free), in_units(total), in_units(planned_bytes));
  }
  d.check(result, "allocate memory");
  std::lock_guard lock(mutex_);
  std::vector<Block*>& blocks = free_[capacity];
  if (++made_[capacity] > blocks.capacity()) blocks.reserve(2 * made_[capacity]);  // giving back does not allocate
  return block.release();
}

Storage MemoryPool::allocate(std::size_t bytes, std::uint64_t planned_bytes) {
  const std::size_t capacity = capacity_for(bytes);
  if (capacity < bytes) fail_out_of_memory("out of memory on {}: {} bytes were asked for", device_->describe(), bytes);
  Block* block = take(capacity);
  if (!block) block = make_block(capacity, bytes, planned_bytes);
  {
    std::lock_guard lock(mutex_);
    block->used = bytes;
    used_bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, used_bytes_);
  }
  return {share_block(shared_from_this(), block, reinterpret_cast<std::byte*>(block->address)), bytes,
          device_->device()};
}

void MemoryPool::give_back(Block* block) noexcept {
  std::lock_guard lock(mutex_);
  used_bytes_ -= block->used;
  std::vector<Block*>& blocks = free_[block->capacity];
  blocks.push_back(block);
  std::ranges::push_heap(blocks, lies_higher);
  free_bytes_ += block->capacity;
}

std::size_t MemoryPool::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_bytes_;
}

void MemoryPool::begin_measuring() {
  std::lock_guard lock(mutex_);
  used_before_ = most_bytes_ = used_bytes_;
}

std::size_t MemoryPool::measured_bytes() const {
  std::lock_guard lock(mutex_);
  return most_bytes_ - std::min(most_bytes_, used_before_);
}

}  // namespace coil::runtime::cuda
