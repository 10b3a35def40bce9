// `sort` and `topk` of rows that fit a block, as kernels in Triton: a program orders a row at once.
#pragma once
#include <string>
#include <variant>

#include "codegen/kernel.h"

namespace coil::codegen {

/// Stable; NaN is greater than every number. Or why Triton has no such kernel.
std::variant<Kernel, std::string> triton_sort(ir::Graph&, const ir::Extern& call);

}  // namespace coil::codegen
