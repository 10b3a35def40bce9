// How a call's size symbols follow from its inputs.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Prepends the definitions of all symbols that the inputs' sizes, strides and numbers name, and the checks of ranges
/// and guards (that each size equals its expression is checked where inputs are bound). Sizes are solved in any order
/// of inputs, also where only compound ones are given
/// (`2*s0 + 1`, `s0*s1` with s1 known from elsewhere, `s0 + s1` beside `s0 - s1`). Throws Error naming a symbol that
/// cannot be solved.
void define_symbols(Program&);

}  // namespace coil::wrapper
