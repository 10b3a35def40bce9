// Results of products that are parts of concatenations are computed where they will lie.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A product whose result is read by nothing but a loop that copies it to its part of a larger buffer writes there
/// itself, where that part is rows of neighbouring elements at one distance from each other, so that the library takes
/// it as it lies. The larger buffer is then there from the product on: not where more would be live at once by that,
/// nor where other parts could no longer be stored by the kernels that make them. On the CPU.
void write_results_in_parts(Graph&);

}  // namespace coil::ir
