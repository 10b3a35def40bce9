// The text that every program written as Python has in front of its own: kernels compiled and called, library calls, weights, inputs checked.
#pragma once
#include <set>
#include <string>

namespace coil::wrapper {

/// Imports and helpers. `library_ops`: those that the program calls, whose equals in torch are written out.
std::string python_support(const std::set<std::string>& library_ops);
/// The torch operators through which an FX graph calls kernels and library operations, after python_support.
std::string python_fx_support();
/// Names that the text defines: programs must not use them for their own.
std::set<std::string> python_support_names();

}  // namespace coil::wrapper
