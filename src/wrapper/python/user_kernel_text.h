// A kernel that the user wrote, as a program in Python has it: its source text, constants and options.
#pragma once
#include <string>

#include "ops/user_kernel.h"

namespace coil::wrapper {

/// The definition of the kernel by its symbol, `NAME = UserKernel(…)`. Throws Error on a kernel without source text.
std::string python_user_kernel(const ops::UserKernel&);

}  // namespace coil::wrapper
