// Attention: its attributes, and a view over calls of it.
#pragma once
#include <cstddef>

#include "library_ops/call.h"

namespace coil::library_ops {

namespace attention {
inline constexpr std::string_view kName = "attention", kBackward = "attention_backward", kBlocked = "blocked_attention",
                                  kBlockedQueries = "blocked_attention_queries",
                                  kBlockedKeys = "blocked_attention_keys";
inline constexpr Flag kCausal{.name = "causal", .sentence = "A query sees the keys up to its own place."};
inline constexpr Number kScale{.name = "scale", .sentence = "Scores are multiplied by it.", .fallback = 1.0};
inline constexpr Flag kHasMask{.name = "has_mask", .sentence = "A mask follows the other operands."};
}  // namespace attention

/// Any of them: the mask is the last operand.
template <class Call>
class AttentionCall : public CallView<Call> {
 public:
  explicit AttentionCall(Call& call) : CallView<Call>(call) {}

  bool causal() const { return this->value(attention::kCausal); }
  double scale() const { return this->value(attention::kScale); }
  bool has_mask() const { return this->value(attention::kHasMask); }
  /// Call it only where there is one.
  auto& mask() const { return this->input(this->call_->inputs.size() - 1); }
};

}  // namespace coil::library_ops
