#include "passes/graph/known_masks.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

namespace coil {
namespace {

using fx::Node;
using fx::Opcode;

constexpr std::string_view kAttention = "aten.scaled_dot_product_attention.default";
constexpr std::int64_t kLargest = std::int64_t{1} << 26;  // elements of a mask that is computed to be looked at

/// What a mask does to the scores of `rows` queries and `columns` keys.
enum class Kind : std::uint8_t { Other, None, Causal };

/// Whether the mask lets a key through; nothing for additive masks that do something between.
std::optional<bool> allows(const Tensor& mask, std::int64_t at) {
  if (mask.dtype == DType::Bool) return mask.data<bool>()[at];
  const float x = mask.data<float>()[at];
  if (x == 0) return true;
  return x <= std::numeric_limits<float>::lowest() ? std::optional(false) : std::nullopt;
}

Kind kind_of(const Tensor& mask, std::int64_t rows, std::int64_t columns) {
  const std::size_t r = mask.sizes.size();
  if ((mask.dtype != DType::Bool && mask.dtype != DType::F32) || r < 2) return Kind::Other;
  bool none = true, causal = mask.sizes[r - 2] == rows && mask.sizes[r - 1] == columns;
  std::vector<std::int64_t> index(r, 0);
  for (std::int64_t left = mask.numel(); left > 0 && (none || causal); --left) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < r; ++d) at += index[d] * mask.strides[d];
    const auto allowed = allows(mask, at);
    none = none && allowed == true;
    causal = causal && allowed == (index[r - 1] <= index[r - 2]);
    for (std::size_t d = r; d-- > 0 && ++index[d] == mask.sizes[d];) index[d] = 0;
  }
  return none ? Kind::None : causal ? Kind::Causal : Kind::Other;
}

std::optional<std::int64_t> rows(const Node& x) { return x.tensor().sizes[x.tensor().rank() - 2].constant(); }

Node* before_repeats(Node* mask) {
  while (mask->is_call("aten.expand.default")) mask = mask->args[0].as_node();
  return mask;
}

class KnownMasks {
 public:
  KnownMasks(const fx::GraphModule& module, const IsLowered& is_lowered) : module_(module), is_lowered_(is_lowered) {}

  std::vector<Node*> run() {
    std::vector<Node*> masks;
    for (Node* n = module_.graph.first(); n; n = n->next())
      if (n->op && n->target == kAttention)
        if (Node* mask = mask_of(*n); mask && std::find(masks.begin(), masks.end(), mask) == masks.end())
          masks.push_back(mask);
    return masks;
  }

 private:
  /// The mask of an attention call before it was repeated over a batch, when it can be known.
  Node* mask_of(const Node& call) {
    auto* given = call.arg("attn_mask").get_if<Node*>();
    if (!given || !(*given)->is_tensor() || call.arg("is_causal").as_bool()) return nullptr;
    auto *query = call.args[0].get_if<Node*>(), *key = call.args[1].get_if<Node*>();
    if (!query || !key || !rows(**query) || !rows(**key)) return nullptr;
    Node* mask = *given;
    mask = before_repeats(mask);
    const auto count = mask->tensor().numel().constant();
    return count && *count <= kLargest && mask->opcode == Opcode::CallFunction && is_known(mask) ? mask : nullptr;
  }

  bool is_known(const Node* n) {
    if (auto it = known_.find(n); it != known_.end()) return it->second;
    bool known = false;
    if (n->opcode == Opcode::GetAttr) {
      known = module_.is_constant(n->target);
    } else if (n->opcode == Opcode::CallFunction && n->op && n->is_tensor() && n->tensor().numel().is_constant()) {
      known = is_lowered_(n->target) && !n->op->random && !n->op->side_effect && !n->op->schema.is_mutating();
      for (const ops::Value& arg : n->args)
        ops::for_each_node(arg, [&](const Node* x) { known = known && is_known(x); });
    }
    return known_[n] = known;
  }

  const fx::GraphModule& module_;
  const IsLowered& is_lowered_;
  std::unordered_map<const Node*, bool> known_;
};

void rewrite(Node& call, const Tensor& mask) {
  const Kind kind = kind_of(mask, *rows(*call.args[0].as_node()), *rows(*call.args[1].as_node()));
  if (kind == Kind::Other) return;
  ops::Values args = call.args;  // one for each parameter: query, key, value, attn_mask, dropout_p, is_causal, …
  args.at(3) = ops::None{};
  args.at(5) = kind == Kind::Causal;
  call.set_args(std::move(args));
}

}  // namespace

std::vector<Node*> known_masks(const fx::GraphModule& module, const IsLowered& is_lowered) {
  return KnownMasks(module, is_lowered).run();
}

void simplify_known_masks(fx::GraphModule& module, std::span<Node* const> masks, std::span<const Tensor> values) {
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (!n->op || n->target != kAttention) continue;
    auto* given = n->arg("attn_mask").get_if<Node*>();
    if (!given || n->arg("is_causal").as_bool()) continue;
    const auto found = std::find(masks.begin(), masks.end(), before_repeats(*given));
    if (found != masks.end()) rewrite(*n, values[static_cast<std::size_t>(found - masks.begin())]);
  }
}

}  // namespace coil
