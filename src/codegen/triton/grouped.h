// Products of runs of rows with a matrix for each run, in 16 bits, as kernels in Triton.
#pragma once
#include <string>
#include <variant>

#include "codegen/kernel.h"

namespace coil::codegen {

/// The kernel of a `blocked_grouped_matmul`, or why Triton has none.
std::variant<Kernel, std::string> triton_grouped_product(ir::Graph&, const ir::Extern& call);

}  // namespace coil::codegen
