// Arithmetic behind a matrix product or a convolution, given to the library call itself: activations, residual
// additions, scales.
//
// Saves a pass over memory for each; the library applies them to its f32 accumulator before it stores
// (library_ops/post_ops.h lists them).
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Runs after lowering and before choose_layouts.
void fuse_post_ops(Graph&);

}  // namespace coil::ir
