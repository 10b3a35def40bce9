// One convolution, y = post(conv(x, weight) + bias), as both the plain loops and oneDNN take it.
#pragma once
#include "runtime/device/cached_op.h"
#include "runtime/ops/post_ops.h"
#include "runtime/ops/staging.h"

namespace coil::runtime {

struct ConvolutionProblem {
  BoundView x, y;    ///< [N, C, ..], [N, O, ..]
  BoundView weight;  ///< [O, C/groups, ..], transposed [C, O/groups, ..]; when packed, its sizes with no meaning in its
                     ///< strides
  std::string packed_desc;  ///< of the weight; empty: a plain view
  std::size_t packed_bytes = 0;
  std::optional<BoundView> bias;    ///< [O]
  std::vector<BoundView> operands;  ///< of the post-operations, broadcast to y; they follow the bias in the call
  std::size_t first_operand = 2;    ///< place of operands[0] in the call's inputs
  std::vector<PostOp> post;
  Sizes stride, padding, padding_end, dilation;
  std::int64_t groups = 1;
  std::int64_t images = 1;  ///< where each is computed by itself (batch_invariant): how many; x and y then have one
  bool transposed = false;
  bool tf32 = false;                          ///< on CUDA: may round f32 operands to TF32
  bool fixed_engine = false;                  ///< on CUDA: the library's first choice, whatever time it takes
  std::optional<std::int64_t> winograd_tile;  ///< that the weight is to be packed for (runtime/ops/panel/winograd.h)

  std::size_t spatial() const { return x.sizes.size() - 2; }
  std::int64_t kernel(std::size_t d) const { return weight.sizes[d + 2]; }
};

/// Throws Error where sizes do not fit each other.
ConvolutionProblem convolution_problem(const Attributes&, std::span<const BoundView> inputs,
                                       std::span<const BoundView> outputs);
std::unique_ptr<PreparedCall> make_plain_convolution(const ConvolutionProblem&);
std::unique_ptr<LibraryOp> make_convolution(const Attributes&);

}  // namespace coil::runtime
