// Operations fused behind a GEMM or a convolution, on its f32 accumulator.
#pragma once
#include <algorithm>
#include <vector>

#include "library_ops/post_ops.h"
#include "runtime/plan/plan.h"

namespace coil::runtime {

using library_ops::PostOp;

/// A product or a convolution (its `post`, and the `operands` of those that take one) with the first `count` of its
/// post-operations.
template <class Problem>
Problem with_post(Problem p, std::size_t count) {
  p.post.resize(count);
  p.operands.resize(library_ops::operands_of(p.post));
  return p;
}
/// The value of an operation without operand at x.
double apply_post_op(const PostOp&, double x);

}  // namespace coil::runtime
