// Products and convolutions of f32 that may round their operands to TF32 (ten bits of mantissa), for the matrix units
// of a GPU.
#pragma once
#include <string_view>

#include "ir/ir.h"

namespace coil {

/// `none`, `products`, `convolutions` or `all`: the values of the setting `cuda.tf32`, in which torch's two switches
/// are one.
bool is_tf32_choice(std::string_view);

/// Sets the attribute `tf32` of the calls chosen, those of f32 alone that do not have it yet. For CUDA; runs before
/// products are timed.
void allow_tf32(ir::Graph&, std::string_view choice);

}  // namespace coil
