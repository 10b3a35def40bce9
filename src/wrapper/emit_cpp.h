// The wrapper IR as one C++ file that compiles alone against the runtime's C header.
#pragma once
#include <string>
#include <vector>

#include "wrapper/program.h"

namespace coil::wrapper {

struct EmitCppOptions {
  int lanes = 16;                  ///< that the kernels were printed for
  std::string isa;                 ///< instruction set that the kernels need, as `codegen::Toolchain` states it
  std::vector<std::string> flags;  ///< of the compiler for kernels: those that change what kernels compute go into the file
  std::string source_name = "program.cpp";                     ///< for the head of the file
  std::string weights_name = "program.weights.safetensors";    ///< file that write_weights wrote, beside the source
};

/// Defines the entry of coil/runtime.h (`coil_program_…`) and, under COIL_MAIN, a main function that takes IN.safetensors and OUT.safetensors. Gives the plan's answers bit for bit.
/// Throws Error on a tensor of more dimensions than the C interface has.
std::string emit_cpp(const Program&, const EmitCppOptions&);

}  // namespace coil::wrapper
