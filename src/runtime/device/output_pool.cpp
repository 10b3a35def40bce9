#include "runtime/device/output_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "support/out_of_memory.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kLarge = std::size_t{128} << 10;  // from here on blocks are the heap's

/// Capacities come in four steps for each power of two, so that slightly different sizes share blocks.
std::size_t capacity_for(std::size_t bytes) {
  if (bytes <= 4 * kLine) return (std::max<std::size_t>(bytes, 1) + kLine - 1) / kLine * kLine;
  const std::size_t step = std::max(kLine, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// A small one's lies at the end of its own memory.
struct OutputPool::Block : PooledBlock {
  std::byte* data = nullptr;
  std::size_t capacity = 0, used = 0;  ///< of a large block both are what was asked for
  bool large = false;
};

std::shared_ptr<OutputPool> OutputPool::make(std::shared_ptr<PageHeap> heap) {
  return std::shared_ptr<OutputPool>(new OutputPool(std::move(heap)));
}

OutputPool::~OutputPool() {
  for (const auto& [capacity, blocks] : free_)
    for (Block* block : blocks) std::free(block->data);
  for (Block* record : records_) delete record;
}

Storage OutputPool::allocate(std::size_t bytes) {
  Block* block = bytes >= kLarge ? large_block(bytes) : small_block(capacity_for(bytes));
  if (!block) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
  {
    std::lock_guard lock(mutex_);
    block->used = bytes;
    used_bytes_ += bytes;
    most_bytes_ = std::max(most_bytes_, used_bytes_);
  }
  return {share_block(shared_from_this(), block, block->data), bytes};
}

/// The last of them, if there is one. The pool is locked.
OutputPool::Block* OutputPool::take(std::vector<Block*>& blocks) {
  if (blocks.empty()) return nullptr;
  Block* block = blocks.back();
  blocks.pop_back();
  return block;
}

/// A free one, or a new one; null when memory is out.
OutputPool::Block* OutputPool::small_block(std::size_t capacity) {
  {
    std::lock_guard lock(mutex_);
    if (Block* block = take(free_[capacity])) return block;
  }
  const std::size_t whole = (capacity + sizeof(Block) + kLine - 1) / kLine * kLine;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kLine, whole));
  if (!data) return nullptr;
  auto* block = new (data + capacity) Block;
  block->data = data;
  block->capacity = capacity;
  std::lock_guard lock(mutex_);
  std::vector<Block*>& blocks = free_[capacity];
  if (++made_[capacity] > blocks.capacity()) blocks.reserve(2 * made_[capacity]);  // giving back does not allocate
  return block;
}

/// A block from the heap; null when memory is out.
OutputPool::Block* OutputPool::large_block(std::size_t bytes) {
  Block* record = nullptr;
  {
    std::lock_guard lock(mutex_);
    record = take(records_);
    if (!record && ++record_count_ > records_.capacity()) records_.reserve(2 * record_count_);  // as above
  }
  if (!record) record = new Block;
  record->data = heap_->allocate(bytes);
  record->capacity = bytes;
  record->large = true;
  if (record->data) return record;
  std::lock_guard lock(mutex_);
  records_.push_back(record);
  return nullptr;
}

void OutputPool::give_back(Block* block) noexcept {
  if (block->large) heap_->give_back(block->data, block->capacity);
  std::lock_guard lock(mutex_);
  used_bytes_ -= block->used;
  (block->large ? records_ : free_.find(block->capacity)->second).push_back(block);
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
