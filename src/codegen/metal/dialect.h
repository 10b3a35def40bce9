// Metal Shading Language as a dialect of the language that CUDA's emitters write (codegen/cuda/dialect.h).
#pragma once
#include "codegen/cuda/dialect.h"

namespace coil::codegen {

/// Kernels are given their buffers by index, numbers behind them (all in one where they would be too many), last the
/// word that tells of failures and the number of the call in it (runtime/metal). What Metal has not (f64, updates of 64
/// bits, functions that are computed in f64) is refused.
const Dialect& metal_dialect();

/// Arguments that a kernel may have.
inline constexpr std::size_t kMetalArguments = 31;
/// Whether a kernel's numbers are one argument, an array.
bool metal_packs_numbers(std::size_t pointers, std::size_t scalars);

}  // namespace coil::codegen
