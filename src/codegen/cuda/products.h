// Products of matrices in 16 bits as kernels of Coil's own, with what follows them element by element.
#pragma once
#include <string_view>

#include "codegen/kernel.h"
#include "target/target.h"

namespace coil::codegen {

/// Whether `cuda_product` makes kernels of operations of this name: `blocked_matmul`, a [B.., M, K], b [B.., K, N] ->
/// y [B.., M, N], whose sizes and strides passes/loop/own_products.h has looked at.
bool is_cuda_product(std::string_view op);
Kernel cuda_product(ir::Graph&, const ir::Extern& call, const target::Target&);
/// Whether the texts hold a kernel that multiplies by warpgroups, where the target has them: it is for the members of
/// one family of GPUs.
bool has_product_kernel(std::string_view kernels);
/// Whether the texts hold a kernel that runs on members of that family alone.
bool needs_family(std::string_view kernels);

}  // namespace coil::codegen
