// Rows in order, digit by digit: short ones in a block's memory, long ones by many blocks.
#pragma once
#include "codegen/kernel.h"

namespace coil::codegen {

inline constexpr int kRadixThreads = 256;  // one for each value of a digit

/// `radix_count` counts the values of all digits of a row, `radix_pass` puts the row in order of one digit (attribute `digit`, from the lowest).
inline bool is_cuda_radix(std::string_view op) { return op == "radix_count" || op == "radix_pass"; }
Kernel cuda_radix(ir::Graph&, const ir::Extern& call);

/// Device functions that the kernels call, part of the prelude.
std::string_view cuda_prelude_radix();

}  // namespace coil::codegen
