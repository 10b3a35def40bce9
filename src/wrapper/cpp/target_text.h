// The compiler flags of kernels as pragmas in the text, so that a plain call of the compiler builds the same kernels.
#pragma once
#include <string>
#include <vector>

namespace coil::wrapper {

/// Those of the flags that change what kernels compute, or how fast, as one line for a command.
std::string target_flags(const std::vector<std::string>& flags);
/// The same for GCC: holds for all functions that follow.
std::string target_pragmas(const std::vector<std::string>& flags);

}  // namespace coil::wrapper
