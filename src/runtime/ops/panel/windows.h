// Convolutions in f32 as products by panels (runtime/ops/panel/gemm.h) of windows that are gathered row by row: with
// strides, dilations, groups, and transposed.
//
// A block of results has its windows copied to rows of taps times channels, which stay in the second-level cache while
// each panel of the weight multiplies them: a copy of a sixteenth of a vector for each multiplication by a panel of
// one. Windows that are runs of one line of the input, as those of sequences are, are multiplied where they lie. A
// transposed convolution is one convolution for each remainder of the result's place by the stride, by those taps of
// the kernel that reach it, and writes every stride-th place.
#pragma once
#include "runtime/ops/panel/argument_weight.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_windows(const ConvolutionProblem&);

/// The weight in panels, for machines with `isa` (support/cpu.h); nothing for convolutions that would not gain.
std::optional<Packed> pack_windows(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

std::optional<WeightForm> windows_form(const ConvolutionProblem&, std::string_view isa);

/// The weight in panels as pack_windows makes it, for every convolution in f32, whether it gains or not.
std::optional<Packed> pack_any_windows(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

}  // namespace coil::runtime::panels
