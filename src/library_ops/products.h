// Products of matrices: their attributes, and views over calls of them.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "library_ops/call.h"

namespace coil::library_ops {

// Attributes of all calls that take post-operations: linear, matmul, convolution.
inline constexpr Flag kHasBias{.name = "has_bias", .sentence = "A bias follows the first two operands."};
inline constexpr Text kNan{.name = "nan",
                           .sentence =
                               "What becomes of NaN in a post-operation that loses it: `keep` computes it so that NaN "
                               "stays; `flag` does where "
                               "the last operand, a result of all_bounded, is 0. Not given where no NaN can come.",
                           .presence = Presence::Optional};
inline constexpr std::string_view kKeepNan = "keep", kFlagNan = "flag";
inline constexpr Flag kTf32{.name = "tf32", .sentence = "On a GPU, f32 operands may be rounded to TF32."};
inline constexpr Flag kBatchInvariant{
    .name = "batch_invariant",
    .sentence =
        "Each row (of a convolution, each image) is computed as if it were alone: its bits do not depend on "
        "how many others there are."};
inline constexpr Text kPackedDesc{.name = "packed_desc",
                                  .sentence = "How the packed weight lies, in the words of the library that packed it.",
                                  .presence = Presence::Optional};

namespace product {
inline constexpr Integer kAlgorithm{
    .name = "algorithm",
    .sentence = "On a GPU, which of the algorithms that the library lists for the call, by measurement."};
inline constexpr Text kAlgorithmFor{.name = "algorithm_for",
                                    .sentence =
                                        "The device and the version of the library that `algorithm` counts on; "
                                        "elsewhere it is not obeyed.",
                                    .presence = Presence::Optional};
}  // namespace product

namespace linear {
inline constexpr std::string_view kName = "linear";
inline constexpr Flag kWeightTransposed{.name = "weight_transposed", .sentence = "The weight is [K, N]."};
inline constexpr Integer kN{
    .name = "n", .sentence = "N, where it is known when the program is compiled.", .presence = Presence::Optional};
inline constexpr Integer kK{
    .name = "k", .sentence = "K, where it is known when the program is compiled.", .presence = Presence::Optional};
inline bool is_linear(std::string_view op) { return op == kName; }
}  // namespace linear

namespace matmul {
inline constexpr std::string_view kName = "matmul", kBlocked = "blocked_matmul";
}
namespace grouped_matmul {
inline constexpr std::string_view kName = "grouped_matmul", kBlocked = "blocked_grouped_matmul";
}

namespace winograd_products {
inline constexpr std::string_view kName = "winograd_products";
inline constexpr Integers kPadding{
    .name = "padding", .sentence = "Of the convolution, before each of two dimensions.", .each = 0};
inline constexpr Integers kPaddingEnd{.name = "padding_end",
                                      .sentence = "And after them; as before where it is not given."};
inline constexpr Numbers kRecover{.name = "recover",
                                  .sentence = "The matrix [3, n], row by row, that gives a window of its transform.",
                                  .presence = Presence::Required};
}  // namespace winograd_products

/// A call that takes post-operations: y = post(first · second + bias).
template <class Call>
class EpilogueCall : public CallView<Call> {
 public:
  explicit EpilogueCall(Call& call) : CallView<Call>(call) {}
  static constexpr std::size_t kSecond = 1, kAfterSecond = 2;

  auto& first() const { return this->input(0); }
  auto& second() const { return this->input(kSecond); }
  auto& result() const { return this->output(0); }
  bool has_bias() const { return this->value(kHasBias); }
  /// Where the bias is; call it only where there is one.
  auto& bias() const { return this->input(kAfterSecond); }
  /// The place of the first operand of post-operations; the others follow.
  std::size_t first_post_operand() const { return has_bias() ? kAfterSecond + 1 : kAfterSecond; }
  std::vector<PostOp> post() const { return parse_post_ops(this->value(kPost)); }
  const std::string& nan() const { return this->value(kNan); }
  void set_nan(std::string_view form) const {
    this->call_->attributes.insert_or_assign(std::string(kNan.name), std::string(form));
  }
  void set_post(std::span<const PostOp> post) const {
    std::vector<std::string> texts;
    for (const PostOp& op : post) texts.push_back(to_string(op));
    this->call_->attributes.insert_or_assign(std::string(kPost.name), std::move(texts));
  }
  bool tf32() const { return this->value(kTf32); }
  bool batch_invariant() const { return this->value(kBatchInvariant); }
  const std::string& packed_desc() const { return this->value(kPackedDesc); }
};

/// y[B.., M, N] = post(pre(a[B.., M, K], …) b[B.., K, N]), by a kernel of Coil's own.
template <class Call>
class BlockedCall : public EpilogueCall<Call> {
 public:
  explicit BlockedCall(Call& call) : EpilogueCall<Call>(call) {}

  bool has_pre() const { return !pre().empty(); }
  const std::string& pre() const { return this->value(kPre); }
  std::size_t pre_operands() const { return static_cast<std::size_t>(this->value(kPreOperands)); }
  /// The place of the first operand that `pre` reads beside a; the others follow.
  std::size_t first_pre_operand() const { return this->call_->inputs.size() - pre_operands(); }
  void set_pre(std::string text, std::size_t operands) const {
    this->call_->attributes.insert_or_assign(std::string(kPre.name), std::move(text));
    this->call_->attributes.insert_or_assign(std::string(kPreOperands.name), static_cast<std::int64_t>(operands));
  }
};

/// y[.., N] = post(x[.., K] weight + bias).
template <class Call>
class LinearCall : public EpilogueCall<Call> {
 public:
  explicit LinearCall(Call& call) : EpilogueCall<Call>(call) {}

  auto& x() const { return this->first(); }
  auto& weight() const { return this->second(); }
  bool weight_transposed() const { return this->value(linear::kWeightTransposed); }
  std::optional<std::int64_t> n() const { return find(this->call_->attributes, linear::kN); }
  std::optional<std::int64_t> k() const { return find(this->call_->attributes, linear::kK); }
  /// The dimension of the weight that counts the results.
  std::size_t results_dimension() const { return weight_transposed() ? 1 : 0; }
};

/// y[B.., M, N] = post(a[B.., M, K] b[B.., K, N] + bias).
template <class Call>
class MatmulCall : public EpilogueCall<Call> {
 public:
  explicit MatmulCall(Call& call) : EpilogueCall<Call>(call) {}

  auto& a() const { return this->first(); }
  auto& b() const { return this->second(); }
};

}  // namespace coil::library_ops
