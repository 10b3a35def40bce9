// Loops stand beside what reads them, behind the library calls that it waits for.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A pointwise loop moves down to the first operation that reads it, where that is a loop which also waits for a
/// library call behind the first one's place: a kernel that does both stands behind the call. A backward graph begins
/// with what it computes again of saved values and multiplies it with gradients that products make in between. Only
/// what reads values that nothing writes again moves, and within its block.
void delay_loops(Graph&);

}  // namespace coil::ir
