// A value that an operation computes of its operands at one point, as text: what an attribute of a call can hold of a
// loop's body.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "ir/ir.h"

namespace coil::ir {

/// The body in the words of ir/scalar_text.h, in which `load(buf0, [])` stands for the first of `operands` (loads, all
/// that the body has), buf1 for the second, and so on.
std::string point_function_text(ScalarPool&, Scalar body, std::span<const Scalar> operands);
/// The value that the text says, of operands that are stored as `types`. Throws Error where it is no such text.
Scalar read_point_function(ScalarPool&, std::string_view text, std::span<const DType> types);

}  // namespace coil::ir
