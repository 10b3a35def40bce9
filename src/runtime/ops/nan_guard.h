// Post-operations in which oneDNN loses NaN (relu, clip): its form where it is known that no NaN reaches them, else
// loops of our own.
//
// A call's attribute `nan` says what is known. Absent: no NaN can come, or nobody asked. `flag`: the call's last input
// is what `all_bounded` gave; where that is 0 the exact form runs. `keep`: always the exact form.
#pragma once
#include <functional>
#include <span>

#include "runtime/device/cached_op.h"
#include "runtime/ops/post_ops.h"

namespace coil::runtime {

/// An operand of a post-operation: its place among the call's inputs, and its view broadcast to y.
struct EpilogueOperand {
  std::size_t input = 0;
  BoundView view;
};

/// y made by `head`, then post-operations over it; `operands` are those of them that take one, in order.
std::unique_ptr<PreparedCall> make_finished(std::unique_ptr<PreparedCall> head, std::vector<PostOp> rest,
                                            const BoundView& y, std::span<const EpilogueOperand> operands);

/// A product or convolution in the form that attribute `nan` asks for. `make(n)` makes the call with the first `n` of
/// the post-operations only; `operands` are those of all of them, in order. Throws Error where the attribute says
/// something else.
std::unique_ptr<PreparedCall> make_with_nan_kept(const Attributes&, const std::vector<PostOp>& post, const BoundView& y,
                                                 std::vector<EpilogueOperand> operands, std::size_t inputs,
                                                 std::function<std::unique_ptr<PreparedCall>(std::size_t)> make);

}  // namespace coil::runtime
