// Strides for buffers whose layout is still a proposal: channels-last through convolutional nets, eager's elsewhere.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Settles every layout.
void choose_layouts(Graph&);

}  // namespace coil::ir
