// Parts of concatenations are stored behind the loops that make them, so that one kernel does both.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A loop that stores a part of a buffer moves up behind the last loop that makes what it reads, when nothing between
/// them touches the same part of that buffer. Not over library calls: those would run beside more memory. States that a
/// recurrence written out stacks in the end are then stored by the kernel that makes them all, and need no memory of
/// their own.
void store_parts_early(Graph&);

}  // namespace coil::ir
