#include "wrapper/python/cuda_text.h"

#include "device/pieces.h"

namespace coil::wrapper {

std::string python_failures() { return "\n\n" + device::piece("python/failures.py", "failures"); }

std::string python_cuda_kernels() {
  return "\n\n" + device::whole("python/cuda_kernels.py") + python_failures() + "\n\n" +
         device::piece("python/failures.py", "failures_of_a_call");
}

std::string python_torch_library() { return "\n\n" + device::whole("python/torch_library.py"); }

}  // namespace coil::wrapper
