// Convolutions as loops over windows: those of each channel by itself with the gradients of their weights, and those
// whose steps sizes tell.
#pragma once
#include "lowering/common.h"
#include "lowering/convolutions/choice.h"

namespace coil::lowering {

struct WindowedConvolution {
  Exprs stride, padding, dilation;  ///< padding: in front of each dimension
  bool transposed = false;
};

/// The node's result, of x [N, C, ...] and a weight [O, 1, ...] with O a multiple of C (transposed: [C, O / C, ...]
/// with O = C).
TensorBox windowed_convolution(Context&, const WindowedConvolution&, const TensorBox& x, const TensorBox& weight,
                               const std::optional<TensorBox>& bias);
/// The node's result, of x [N, C, ...] or [C, ...] and a weight [O, C / groups, ...] (transposed: [C, O / groups,
/// ...]): without a library, whose calls have steps that are known.
TensorBox convolution_by_loops(Context&, const WindowedConvolution&, Expr groups, const TensorBox& x,
                               const TensorBox& weight, const std::optional<TensorBox>& bias);
/// The gradient of the weight, which `meta` describes, of a convolution of x that is not transposed.
TensorBox windowed_weight_gradient(Context&, const WindowedConvolution&, const TensorBox& x, const TensorBox& dy,
                                   const sym::TensorMeta& meta);

}  // namespace coil::lowering
