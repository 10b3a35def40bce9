// Operations fused behind a GEMM or a convolution, on its f32 accumulator.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/post_op_kind.h"

namespace coil::runtime {

struct PostOp {
  using Kind = PostOpKind;
  Kind kind = Kind::Relu;
  double a = 0, b = 0;
  bool takes_operand() const { return kind == Kind::Add || kind == Kind::Mul; }
};

/// The attribute `post` (library.h lists the spellings); throws Error naming an unknown one.
std::vector<PostOp> parse_post_ops(const Attributes&);
/// A product or a convolution (its `post`, and the `operands` of those that take one) with the first `count` of its
/// post-operations.
template <class Problem>
Problem with_post(Problem p, std::size_t count) {
  p.post.resize(count);
  p.operands.resize(static_cast<std::size_t>(std::ranges::count_if(p.post, &PostOp::takes_operand)));
  return p;
}
/// The value of an operation without operand at x.
double apply_post_op(const PostOp&, double x);

}  // namespace coil::runtime
