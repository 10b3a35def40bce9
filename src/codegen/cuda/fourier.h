// `fourier` and `fourier_to_real` as kernels of Coil's own: a block transforms a few sequences in its shared memory.
#pragma once
#include "codegen/kernel.h"
#include "library_ops/fourier.h"

namespace coil::codegen {

/// Whether `cuda_fourier` makes kernels of operations of this name.
inline bool is_cuda_fourier(std::string_view op) {
  return op == library_ops::fourier::kName || op == library_ops::fourier::kToRealName;
}
/// Lengths are those that library_ops::fourier::has_kernel; operands and results have any strides. Throws Error else.
Kernel cuda_fourier(ir::Graph&, const ir::Extern& call);

}  // namespace coil::codegen
