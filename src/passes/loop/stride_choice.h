// Temporaries that eager lays out as their first operand lies, row-major instead where more of what moves with them is.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Eager gives the sum of a transposed and a row-major tensor the transposed one's strides, and a chain of residuals
/// keeps them to its end. Of each pointwise temporary whose layout is open and not row-major, the bytes of its
/// operands, and of what its readers read and write beside it, are counted along its own contiguous dimension and along
/// its last one; where the last has more, the temporary becomes row-major. Results of convolutions count as
/// channels-last, which they become later (passes/loop/layout_choice.h).
void choose_strides(Graph&);

}  // namespace coil::ir
