// Convolutions in f32 with few results, as the last layers of networks that make pictures and sounds have them: lines
// of x are turned so that places are neighbours, and the weight's rows multiply vectors of places.
//
// By panels of results (runtime/ops/panel/windows.h), and in oneDNN, a vector of sixteen results has three that are
// wanted: 64 channels to 3 run at a fifth of what they could (docs/performance_cpu.md).
#pragma once
#include "runtime/ops/convolution.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_few_results(const ConvolutionProblem&);

/// The weight as [results, taps, channels], for machines with `isa` (support/cpu.h); nothing for convolutions that
/// would not gain.
std::optional<Packed> pack_few_results(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

}  // namespace coil::runtime::panels
