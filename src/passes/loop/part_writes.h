// Values that differ from a buffer in a part of it, written as that part alone: what writes in place come to once an
// input or a state takes them over (passes/wrapper/coalesce_copies.h).
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// The buffer whose elements an operation moves, unchanged, each to the same place of its result: a copy that need not
/// be made where the two can share memory. Nothing for other operations.
std::optional<BufferId> copied_buffer(Graph&, const Operation&);

/// Of the values that inputs and states receive: `where(i is in a region, value, what was there)` becomes a copy of
/// what was there and a store to the region alone; and what is stored at places that data decide is computed before,
/// where it reads what is written to. Only where the region is much smaller than the whole.
void split_part_writes(Graph&);

/// Whether two loops store to different places of a buffer, whatever points they are at.
bool stores_apart(Graph&, const Operation&, const Operation&);

}  // namespace coil::ir
