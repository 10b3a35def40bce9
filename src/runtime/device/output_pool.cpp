#include "runtime/device/output_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "support/out_of_memory.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096, kHugePage = std::size_t{2} << 20;

/// Capacities come in four steps for each power of two, so that slightly different sizes share blocks.
std::size_t capacity_for(std::size_t bytes) {
  if (bytes <= 4 * kLine) return (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  const std::size_t step = std::max(kLine, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// Lies at the end of its own memory.
struct OutputPool::Block : PooledBlock {
  Block(std::byte* data, std::size_t capacity) : data(data), capacity(capacity) {}
  std::byte* data;
  std::size_t capacity, used = 0;
};

std::shared_ptr<OutputPool> OutputPool::make(std::size_t keep_bytes) {
  return std::shared_ptr<OutputPool>(new OutputPool(keep_bytes));
}

OutputPool::~OutputPool() { trim(); }

void OutputPool::trim() {
  std::lock_guard lock(mutex_);
  for (auto& [capacity, blocks] : free_) {
    for (Block* block : blocks) std::free(block->data);
    blocks.clear();
  }
  free_bytes_ = 0;
}

OutputPool::Block* OutputPool::take(std::size_t capacity) {
  std::vector<Block*>& blocks = free_.find(capacity)->second;
  Block* block = blocks.back();
  blocks.pop_back();
  free_bytes_ -= capacity;
  return block;
}

Storage OutputPool::allocate(std::size_t bytes) {
  const std::size_t capacity = capacity_for(bytes);
  if (capacity < bytes) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
  Block* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (auto found = free_.find(capacity); found != free_.end() && !found->second.empty()) block = take(capacity);
  }
  return hand_out(block, bytes, capacity);
}

Storage OutputPool::lend(std::size_t bytes) {
  const std::size_t capacity = capacity_for(bytes);
  if (capacity < bytes) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
  Block *block = nullptr, *too_small = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto there = [](const auto& blocks) { return !blocks.second.empty(); };
    const auto large = std::find_if(free_.lower_bound(capacity), free_.end(), there);
    const auto largest = std::find_if(free_.rbegin(), free_.rend(), there);
    if (large != free_.end())
      block = take(large->first);
    else if (largest != free_.rend())
      too_small = take(largest->first);
  }
  if (too_small) std::free(too_small->data);
  return hand_out(block, bytes, capacity);
}

/// The block, or a new one.
Storage OutputPool::hand_out(Block* block, std::size_t bytes, std::size_t capacity) {
  if (!block) {
    const std::size_t alignment = capacity >= 2 * kHugePage ? kHugePage : capacity >= (1u << 20) ? kPage : kLine;
    const std::size_t whole = (capacity + sizeof(Block) + alignment - 1) / alignment * alignment;
    auto* data = whole < capacity ? nullptr : static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
    if (!data) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
    // Huge pages make the first touch of a block up to ten times cheaper; a kernel that has none ignores the advice.
    if (alignment == kHugePage) madvise(data, capacity / kHugePage * kHugePage, MADV_HUGEPAGE);
    block = new (data + capacity) Block(data, capacity);
    std::lock_guard lock(mutex_);
    free_[capacity].reserve(free_[capacity].size() + 16);  // so that giving back does not allocate
  }
  {
    std::lock_guard lock(mutex_);
    block->used = bytes;
    used_bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, used_bytes_);
  }
  return {share_block(shared_from_this(), block, block->data), bytes};
}

void OutputPool::give_back(Block* block) noexcept {
  {
    std::lock_guard lock(mutex_);
    used_bytes_ -= block->used;
    if (free_bytes_ + block->capacity <= keep_bytes_) {
      free_[block->capacity].push_back(block);
      free_bytes_ += block->capacity;
      return;
    }
  }
  std::free(block->data);
}

void OutputPool::begin_use(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_ += bytes;
  most_bytes_ = std::max(most_bytes_, used_bytes_);
}

void OutputPool::end_use(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  used_bytes_ -= bytes;
}

std::size_t OutputPool::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_bytes_;
}

void OutputPool::begin_measuring() {
  std::lock_guard lock(mutex_);
  used_before_ = most_bytes_ = used_bytes_;
}

std::size_t OutputPool::measured_bytes() const {
  std::lock_guard lock(mutex_);
  return most_bytes_ - std::min(most_bytes_, used_before_);
}

}  // namespace coil::runtime
