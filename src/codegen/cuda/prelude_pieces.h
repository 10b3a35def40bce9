// The parts that the CUDA prelude is put together from, one a file.
#pragma once
#include <string_view>

namespace coil::codegen {

/// Conversions, arithmetic, comparison, bits.
std::string_view cuda_prelude_values();
/// Elementary and special functions.
std::string_view cuda_prelude_math();
/// Elements in memory, reductions across threads, atomics, checked indices.
std::string_view cuda_prelude_memory();

}  // namespace coil::codegen
