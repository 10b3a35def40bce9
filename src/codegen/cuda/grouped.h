// Products of runs of rows with a matrix for each run, in 16 bits, as kernels of Coil's own.
#pragma once
#include <string>
#include <string_view>

#include "codegen/kernel.h"
#include "target/target.h"

namespace coil::codegen {

/// Whether `cuda_grouped_product` makes kernels of operations of this name: `blocked_grouped_matmul`, x [S, K],
/// matrices [G, K, N], offsets [G] -> y [S, N]. Rows of x and y are dense and begin on 16 bytes; of the matrices either
/// dimension is dense and the other one's steps are whole 16 bytes.
bool is_cuda_grouped(std::string_view op);
Kernel cuda_grouped_product(ir::Graph&, const ir::Extern& call, const target::Target&);

}  // namespace coil::codegen
