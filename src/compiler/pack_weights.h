// Constant operands of library calls, rearranged once into the form the library likes best.
#pragma once
#include "ir/ir.h"

namespace coil {

/// Replaces the weights of `linear` and `convolution` calls by packed constants where the library gains by it.
void pack_weights(ir::Graph&);
/// Constant weights of convolutions become channels-last: what cuDNN reads without a copy before each call.
void relayout_weights(ir::Graph&);

}  // namespace coil
