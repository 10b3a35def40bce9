// What the text of a program written as C++ has in one form for the CPU and in another for a GPU, under the same names.
#pragma once
#include <string>

#include "tensor/device.h"

namespace coil::wrapper {

/// Memory, copies, library calls: what the helpers of cpp_support are made of.
std::string cpp_primitives(Device);
/// What stands behind those helpers: weights where kernels find them; on a GPU where kernels tell that they failed.
std::string cpp_memory(Device);
/// Before and after a run, and the entries that programs for a GPU differ in; after `struct coil_program`.
std::string cpp_runs(Device);

}  // namespace coil::wrapper
