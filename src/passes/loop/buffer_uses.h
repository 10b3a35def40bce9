// Who reads and writes each buffer of a list of operations.
#pragma once
#include <cstddef>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace coil::ir {

/// The uses of buffers in a list of operations as it is when this is made; passes that change it keep it up to date.
struct BufferUses {
  BufferUses(const Graph&, std::span<const Operation>);

  std::unordered_map<BufferId, std::vector<std::size_t>> readers, writers;  ///< places in the list, ascending
  std::set<BufferId> returned;                                              ///< seen by outputs of the graph
};

}  // namespace coil::ir
