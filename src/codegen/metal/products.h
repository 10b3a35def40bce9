// Products of matrices and convolutions as Metal kernels of Coil's own (device/metal/products.h).
#pragma once
#include <string_view>

#include "codegen/kernel.h"
#include "ir/ir.h"

namespace coil::codegen {

/// Whether the operation is one of them: linear, matmul, products of runs of rows, convolution, the gradient of a
/// convolution's weight.
bool is_metal_product(std::string_view op);
/// Operands may lie in any strides. Throws Error on post-operations, on dtypes that are no floats of Metal's, and on
/// more than three spatial dimensions.
Kernel metal_product(ir::Graph&, const ir::Extern& call);

}  // namespace coil::codegen
