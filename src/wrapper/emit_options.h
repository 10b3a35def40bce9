// What the emitters of source need to know beside the wrapper lines.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace coil::wrapper {

struct EmitOptions {
  int lanes = 16;             ///< that the kernels were printed for
  std::string isa;            ///< instruction set or architecture that the kernels need, as the backend states it
  std::string host_isa = {};  ///< the same for kernels of the CPU beside another device
  std::vector<std::string>
      flags;  ///< of the compiler for kernels: those that change what kernels compute go into the file
  bool dependent_launches = false;  ///< on CUDA: kernels wait themselves for the one before them
  /// The kernels, loadable, where the language asked for them (Emitter::needs_binaries).
  std::vector<std::vector<std::byte>> binaries = {};
  std::string source_name = "program.cpp";                   ///< for the head of the file
  std::string weights_name = "program.weights.safetensors";  ///< file that write_weights wrote, beside the source
};

}  // namespace coil::wrapper
