// Kernels for GPUs as Triton text, where Triton has what they need; the others are another backend's, in one program.
#pragma once
#include "codegen/backend.h"
#include "target/settings.h"

namespace coil::codegen {

/// `others`: the backend of the same target that writes what Triton cannot. `launch_config`: as of CudaOptions.
/// `measured`: it writes all, but for groups whose launch config is one of those in Triton, which stand behind its own
/// among the candidates.
std::unique_ptr<Backend> make_triton_backend(std::shared_ptr<const Backend> others, int launch_config = 0,
                                             bool measured = false);
/// The device's own backend, or around it one that writes Triton, as the setting cuda.kernels says. Throws Error where
/// it says neither.
std::unique_ptr<Backend> with_triton(std::unique_ptr<Backend> native, const Settings&);

}  // namespace coil::codegen
