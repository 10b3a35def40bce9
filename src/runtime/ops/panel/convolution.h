// Convolutions of signals in groups of few channels, in f32, as products by panels (runtime/ops/panel/gemm.h).
//
// Where the channels of a group are neighbours, the window of a result is a row of places times channels, and the next
// result's row begins `stride` places further: the rows overlap, and the convolution of a group is one product of them
// with its weight, without a copy for each place. oneDNN 2.6 has no kernel for groups of few channels and many places:
// 128 places of 16 channels run at 15 GFLOP/s there (docs/performance_cpu.md).
#pragma once
#include "runtime/ops/convolution.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_convolution(const ConvolutionProblem&);

/// The weight, group after group in panels, for machines with `isa` (support/cpu.h); nothing for convolutions that
/// would not gain.
std::optional<Packed> pack_convolution(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

}  // namespace coil::runtime::panels
