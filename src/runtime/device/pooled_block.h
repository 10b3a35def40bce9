// Blocks of a memory pool as shared_ptrs that allocate nothing: the control block lies in the pool's own record of the
// block, and its end gives the block back.
#pragma once
#include <cstddef>
#include <memory>

#include "support/error.h"

namespace coil::runtime {

/// Base of a pool's record of one block.
struct PooledBlock {
  alignas(std::max_align_t) std::byte control[96];
};

/// Puts a shared_ptr's control block into PooledBlock::control. `Pool` has `give_back(Block*) noexcept`, called when
/// the last reference, weak ones too, has gone.
template <class T, class Pool, class Block>
struct ControlAllocator {
  using value_type = T;
  template <class U>
  struct rebind {
    using other = ControlAllocator<U, Pool, Block>;
  };
  std::shared_ptr<Pool> pool;
  Block* block;

  ControlAllocator(std::shared_ptr<Pool> p, Block* b) : pool(std::move(p)), block(b) {}
  template <class U>
  ControlAllocator(const ControlAllocator<U, Pool, Block>& other) : pool(other.pool), block(other.block) {}
  T* allocate(std::size_t n) {
    static_assert(sizeof(T) <= sizeof(PooledBlock::control) && alignof(T) <= alignof(std::max_align_t));
    COIL_CHECK(n == 1);
    return reinterpret_cast<T*>(block->control);
  }
  void deallocate(T*, std::size_t) noexcept { pool->give_back(block); }
  template <class U>
  bool operator==(const ControlAllocator<U, Pool, Block>& other) const {
    return block == other.block;
  }
};

/// Memory of a block, which goes back to its pool with the last reference; until then the pool lives.
template <class Pool, class Block>
std::shared_ptr<std::byte> share_block(std::shared_ptr<Pool> pool, Block* block, std::byte* memory) {
  return {memory, [](std::byte*) {}, ControlAllocator<std::byte, Pool, Block>(std::move(pool), block)};
}

}  // namespace coil::runtime
