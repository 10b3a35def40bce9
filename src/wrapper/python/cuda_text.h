// Python in front of programs for CUDA: kernels compiled by NVRTC and launched by the driver, both opened through
// ctypes.
#pragma once
#include <string>

namespace coil::wrapper {

/// Statuses of kernels that may fail; FX graphs of every device know them, as operators are a process's.
std::string python_failures();
/// `compile_kernels`, `load_kernels` and `Kernel`. `DEVICE` is defined before it.
std::string python_cuda_kernels();
/// A `LibraryCall` whose operations are torch's.
std::string python_torch_library();

}  // namespace coil::wrapper
