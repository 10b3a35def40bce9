// NVIDIA's libraries, in the loader's path and in CUDA's usual folder.
#pragma once
#include "runtime/device/shared_library.h"

namespace coil::runtime::cuda {

class SharedLibrary : public runtime::SharedLibrary {
 public:
  /// Throws Error naming the library (`what`: `cuBLASLt`) and how to make it found.
  SharedLibrary(std::string_view what, std::span<const char* const> names);
};

}  // namespace coil::runtime::cuda
