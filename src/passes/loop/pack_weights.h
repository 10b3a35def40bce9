// Constant operands of library calls, rearranged once into the form the library likes best.
#pragma once
#include "ir/ir.h"

namespace coil {

/// The operand as its view sees it, if all of it is constant and never written.
std::optional<Tensor> constant_operand(const ir::Graph&, const ir::BufferView&);
/// Replaces the weights of `linear` and `convolution` calls by packed constants, for machines with `isa`
/// (support/cpu.h), where the library gains by it.
void pack_weights(ir::Graph&, std::string_view isa);
/// Copies of constants in another order are made now, not by the program.
void copy_constants(ir::Graph&);
/// Constant weights of convolutions become channels-last: what cuDNN reads without a copy before each call.
void relayout_weights(ir::Graph&);

}  // namespace coil
