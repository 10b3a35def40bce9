// Kernels for GPUs as Triton text, where Triton has what they need; the others are another backend's, in one program.
#pragma once
#include "codegen/backend.h"

namespace coil::codegen {

/// `others`: the backend of the same target that writes what Triton cannot. `launch_config`: as of CudaOptions.
std::unique_ptr<Backend> make_triton_backend(std::shared_ptr<const Backend> others, int launch_config = 0);

}  // namespace coil::codegen
