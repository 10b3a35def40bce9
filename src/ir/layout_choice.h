// Strides for buffers whose layout is still a proposal: channels-last through convolutional nets, eager's elsewhere.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Gives a computed buffer other strides, in its layout and in the library calls that take it whole. Does nothing and
/// returns false when its layout is settled or a call sees a part of it by stride.
bool relayout(Graph&, BufferId, const Exprs& strides);
/// Strides with dimension 1 innermost: [N, H, W, C] in memory.
Exprs channels_last(const Exprs& sizes);
/// Settles every layout.
void choose_layouts(Graph&);

}  // namespace coil::ir
