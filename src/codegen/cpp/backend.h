// Kernels for the CPU: C++ text, compiled by the host's compiler into shared objects.
#pragma once
#include "codegen/backend.h"
#include "codegen/cpp/toolchain.h"

namespace coil::codegen {

std::unique_ptr<Backend> make_cpp_backend(Toolchain,
                                          std::unique_ptr<scheduler::Choices> = std::make_unique<scheduler::Choices>());

}  // namespace coil::codegen
