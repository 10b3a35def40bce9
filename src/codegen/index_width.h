// How wide the integers of a kernel's indices must be.
#pragma once
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// Whether 32 bits hold every index of the nest and what it is computed of, and the number of its points with some to
/// spare: blocks round it up by less than 2^22.
bool indices_fit_32(ir::Graph&, const LoopNest&);

}  // namespace coil::codegen
