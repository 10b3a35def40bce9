// Special functions, written once for CPUs and GPUs: of f64, from elementary functions that both preludes have;
// narrower types go through f64.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace coil::codegen {

struct SpecialFunction {
  std::string_view name;            ///< `c_i0`
  int operands = 1;                 ///< 0: only for other functions of the table
  std::string_view text;            ///< `$fn`: what a function begins with (its result is f64); `$inf`, `$nan`
  std::string_view c_library = {};  ///< functions of the C library that it calls, declared; CUDA has them built in
};

/// Each stands behind those that it calls.
std::span<const SpecialFunction> special_functions();
/// What the text calls of them, as device functions for all types.
std::string special_functions_on_cuda(std::string_view text);

}  // namespace coil::codegen
