// Sums over the ranks of a group that kernels carry out as they read, and go on with what they get: a residual's
// addition, a norm.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Calls of `one_shot_all_reduce` whose sums loops read become `begin_peer_sum` and a loop that reads its operand,
/// which is scheduled as every other loop is. Left alone are sums that no loop reads, that may be larger than
/// library_ops::collectives::kPeerSumBytes, of other types than floats up to 32 bits, whose operand something else uses
/// too, or that lie in a branch or a loop.
void fuse_sums(Graph&);

}  // namespace coil::ir
