// 3x3 convolutions in f32 by Winograd's minimal filtering (library_ops/winograd_transforms.h) in slices: each thread
// takes some tiles at a time to their terms, multiplies these by panels of the transformed weight
// (runtime/ops/panel/gemm.h), and takes the products back to results, which go through the post-operations.
//
// The terms of a slice stay in the thread's second-level cache and its scratch memory. Taken apart into loops around
// one call for all products (passes/loop/winograd.h), a convolution holds those of all tiles, in both forms, at once:
// 4.5 times its input and its result with tiles of 4x4. Each slice reads the whole weight again, so that this gains
// where tiles are many and the weight is small.
//
// A tile whose square holds NaN, an infinity or a number so large that the others would keep no digit, or whose sums
// overflow, is computed window by window.
#pragma once
#include "runtime/ops/panel/argument_weight.h"

namespace coil::runtime::panels {

/// Null where the weight is not packed so. Throws Error where it is and this machine cannot use it.
std::unique_ptr<PreparedCall> make_winograd(const ConvolutionProblem&);

/// For machines with `isa` (support/cpu.h); nothing where the compiler has not asked for it. Not for weights that are
/// not finite.
std::optional<WeightForm> winograd_form(const ConvolutionProblem&, std::string_view isa);

/// The weight, transformed, term after term in panels, for machines with `isa` (support/cpu.h); nothing where the
/// compiler has not asked for it.
std::optional<Packed> pack_winograd(const ConvolutionProblem&, const Tensor& weight, std::string_view isa);

}  // namespace coil::runtime::panels
