// Post-operations: what a product or a convolution does to each element of its f32 accumulator before it is stored. One
// table says how each is spelled, what it takes and how libraries treat it; the formatter, the parser and
// docs/library_ops.md come from it, and POST_OPS of device/python/torch_products.py is held to it.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "library_ops/post_op_kind.h"

namespace coil::library_ops {

struct PostOpInfo {
  PostOpKind kind;
  std::string_view name;
  std::string_view formula;                      ///< of x, in the words of docs/library_ops.md
  std::array<std::string_view, 2> numbers{};     ///< names of its parameters, in order; empty where it has fewer
  bool reads_operand = false;                    ///< takes the call's next operand, broadcast against the result
  bool reads_result = false;                     ///< takes what the result's memory held before the call
  bool loses_nan = false;                        ///< oneDNN gives a number where x is NaN, and eager gives NaN
  std::array<std::string_view, 2> algorithms{};  ///< oneDNN's algorithms that take numbers for it

  std::size_t count() const { return numbers[0].empty() ? 0 : numbers[1].empty() ? 1 : 2; }
};

/// All of them, in the order of PostOpKind.
std::span<const PostOpInfo> post_op_table();
const PostOpInfo& info(PostOpKind);

struct PostOp {
  using Kind = PostOpKind;
  Kind kind = Kind::Relu;
  double a = 0, b = 0;  ///< the parameters; 0 where it has fewer
  bool takes_operand() const { return kind == Kind::Add || kind == Kind::Mul; }
  bool operator==(const PostOp&) const = default;
};

/// `relu`, `clip:0:6`: the name and the numbers, from which parse_post_op makes an equal post-operation.
std::string to_string(const PostOp&);
/// Throws Error naming a post-operation that is unknown or has other numbers than it takes.
PostOp parse_post_op(std::string_view text);
std::vector<PostOp> parse_post_ops(std::span<const std::string> texts);

/// Whether one call may have all of these. oneDNN 2.6 keeps one set of numbers for each of its algorithms: of two clips
/// with other bounds both would take the same.
bool may_stand_together(std::span<const PostOp>);

/// How many operands they read.
std::size_t operands_of(std::span<const PostOp>);

}  // namespace coil::library_ops
