// Depthwise convolutions in f32, each channel by itself: vectors of channels, some places side by side.
//
// oneDNN 2.6 has kernels for them, but not for every padding and dilation: where it has none, it takes groups of one
// channel for groups of sixteen, or reference loops (docs/performance_cpu.md).
#pragma once
#include "runtime/ops/convolution.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_depthwise(const ConvolutionProblem&);

/// The weight as [taps, channels], for machines with `isa` (support/cpu.h); nothing for convolutions that would not
/// gain.
std::optional<Packed> pack_depthwise(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

/// The weight as pack_depthwise makes it, for every depthwise convolution in f32, whether it gains or not.
std::optional<Packed> pack_any_depthwise(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

}  // namespace coil::runtime::panels
