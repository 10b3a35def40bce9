// The memory that communication buffers lie in: one pool for each process group, as large as the buffers that live at
// once, made once for an instance of a program.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "wrapper/program.h"

namespace coil::wrapper {

struct CommPool {
  ir::CommBufferLayout layout;
  std::int64_t bytes = 0;
  std::int64_t apart = 0;  ///< what they would need if each buffer had memory to itself
  std::string plan;        ///< what lies where and which calls use it, in words that ranks compare
};

/// Where buffers in a pool begin: at multiples of it.
inline constexpr std::int64_t kCommAlignment = 128;

/// Tables by which kernels reach other ranks (begin_peer_sum): they lie behind the pools, at a place of their own.
std::set<BufferId> peer_tables(const Program&);

/// Bytes of a communication buffer's place: those of the largest size that it may have.
std::int64_t comm_bytes(const Program&, BufferId);
/// The pools that the lines which allocate need, in the order in which their groups come.
std::vector<CommPool> comm_pools(const Program&);
/// The pool that a buffer lies in.
std::size_t comm_pool_of(const std::vector<CommPool>&, const Buffer&);

}  // namespace coil::wrapper
