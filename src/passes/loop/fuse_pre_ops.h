// Loops in front of Coil's own products: what makes operand `a` element by element is computed while tiles of it are
// fetched, so that its values are never in memory.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/ir.h"

namespace coil {

/// The operand of each `blocked_matmul` that a loop makes and nothing but such products reads, as their first operand,
/// is made by their kernels, if it is `wanted`. Where several products read it, all of them make it.
void fuse_pre_ops(ir::Graph&, const std::function<bool(ir::BufferId)>& wanted);

/// A loop that makes the first operand of a kernel's product and stayed in front of it.
struct PreOpRefusal {
  ir::OperationId producer, consumer;
  std::string reason;
};
std::vector<PreOpRefusal> refused_pre_ops(ir::Graph&);

}  // namespace coil
