// What the texts of attention and of its gradient on the CPU have in common.
#pragma once
#include <string>
#include <string_view>

#include "codegen/cpp/attention.h"
#include "device/pieces.h"

namespace coil::codegen {

/// What stands for the placeholders of device/cpp/attention_parts.h, and for those of the dtype, the dims, the scale
/// and the mask. `pairs`: elements are two bf16 side by side.
device::Values attention_values(const Toolchain&, const AttentionSpec&, std::string_view symbol, bool pairs);

/// Dims up to the end of the last of the vectors that hold them.
int whole_vectors(int dims, const Toolchain&);

/// The names of AttentionScalar, in a kernel's functions.
std::string attention_scalar_names();

/// The parts, and behind them what a file of src/device has, filled in.
std::string attention_text(std::string_view file, const device::Values&);

}  // namespace coil::codegen
