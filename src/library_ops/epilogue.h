// What the descriptors of operations with post-operations have in common.
#pragma once
#include <string>
#include <vector>

#include "library_ops/descriptor.h"

namespace coil::library_ops {

std::vector<PostOpKind> all_post_ops();
/// All but what takes the values that the result's memory held.
std::vector<PostOpKind> post_ops_of_kernels();
/// The two operands, then the bias, the operands of post-operations and the flag of all_bounded.
std::vector<Operand> with_epilogue(Operand first, Operand second, std::string bias_sizes);
/// The attributes that every operation with post-operations has, and its own.
std::vector<AttributeInfo> with_epilogue_attributes(std::vector<AttributeInfo> own);

}  // namespace coil::library_ops
