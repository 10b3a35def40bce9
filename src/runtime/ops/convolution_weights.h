// The gradient of a convolution's weight, dw[o, c, k] = sum over images n and places p of dy[n, o, p] * x[n, c, p *
// stride - padding + k * dilation], as both the plain loops and oneDNN take it.
#pragma once
#include "runtime/device/cached_op.h"
#include "runtime/ops/staging.h"

namespace coil::runtime {

struct WeightGradientProblem {
  BoundView x, dy, dw;  ///< [N, C, ..], [N, O, ..], [O, C/groups, ..]
  Sizes stride, padding, dilation;
  std::int64_t groups = 1;
  bool tf32 = false;          ///< on CUDA: may round f32 operands to TF32
  bool fixed_engine = false;  ///< on CUDA: the library's first choice, whatever time it takes

  std::size_t spatial() const { return x.sizes.size() - 2; }
};

/// Throws Error where sizes do not fit each other.
WeightGradientProblem weight_gradient_problem(const Attributes&, std::span<const BoundView> inputs,
                                              std::span<const BoundView> outputs);
std::unique_ptr<PreparedCall> make_plain_weight_gradient(const WeightGradientProblem&);

}  // namespace coil::runtime
