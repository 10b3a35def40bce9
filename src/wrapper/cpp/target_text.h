// The compiler flags of kernels as pragmas in the text, so that a plain call of the compiler builds the same kernels.
#pragma once
#include <string>
#include <vector>

namespace coil::wrapper {

/// The flags that change what kernels compute, or how fast, as one line for a command.
std::string target_flags(const std::vector<std::string>& flags);
/// These flags as pragmas for GCC, which hold for all functions that follow.
std::string target_pragmas(const std::vector<std::string>& flags);

}  // namespace coil::wrapper
