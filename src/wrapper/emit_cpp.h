// The wrapper IR as one C++ file that compiles alone against the runtime's C header.
#pragma once
#include <string>

#include "wrapper/emitter.h"

namespace coil::wrapper {

/// Defines the entry of coil/runtime.h (`coil_program_…`) and, under COIL_MAIN, a main function that takes
/// IN.safetensors and OUT.safetensors. Gives the plan's answers bit for bit. A program for a GPU works on a
/// `coil_queue`; its kernels are in the file as binaries. Throws Error on a tensor of more dimensions than the C
/// interface has, and on operators that such a program leaves to its host.
class CppEmitter : public Emitter {
 public:
  bool writes_several_devices() const override { return true; }
  bool needs_binaries(const Program&) const override;
  std::string emit(const Program&, const EmitOptions&) override;
};

/// A CMake file that builds the source beside it against an installed Coil.
std::string cpp_cmake(const std::string& source_name);

}  // namespace coil::wrapper
