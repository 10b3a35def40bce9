// Sums over the ranks of a group by reading their memory: every rank adds in the order of the ranks, 16-bit floats in
// f32, so that all ranks get the same bits.
#pragma once
#include <cstddef>

#include "runtime/groups/process_group.h"
#include "runtime/groups/symmetric.h"

namespace coil::runtime::groups {

/// Whether there are sums of this type.
bool has_symmetric_sum(DType);

/// Each rank reads the operands of all, which lie at `offset`, and writes all sums to `out`, memory of its own. Returns
/// when no rank reads the operands any more.
void one_shot_sum(SymmetricMemory&, std::size_t offset, void* out, Elements, const Doing&);
/// Each rank adds up its share, writes the sums over its own operand there, and reads the other shares' sums from their
/// ranks: 2 (n - 1) / n times the operand's bytes are read, instead of n - 1 times.
void two_shot_sum(SymmetricMemory&, std::size_t offset, void* out, Elements, const Doing&);

}  // namespace coil::runtime::groups
