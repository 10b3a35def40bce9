// Attention that the fused kernel does not take (f64, symbolic head sizes): written out as products and a softmax.
#include <cmath>
#include <limits>

#include "passes/decompositions/rewriter.h"

namespace coil::passes {

namespace {

bool kernel_takes(Rewriter& r) {
  const DType d = r.dtype(r["query"]);
  const bool narrow = d == DType::F32 || d == DType::BF16 || d == DType::F16;
  return narrow && r.meta(r["query"]).sizes.back().is_constant() && r.meta(r["value"]).sizes.back().is_constant();
}

/// Key or value heads repeated for the query heads that share them.
Value repeat_heads(Rewriter& r, const Value& x, Expr heads) {
  Exprs sizes = r.meta(x).sizes;
  const std::size_t h = sizes.size() - 3;
  if (sizes[h] == heads) return x;
  Exprs wide = sizes;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(h) + 1, r.module.env->simplify(sym::floor_div(heads, sizes[h])));
  sizes[h] = heads;
  return r.reshape(r.expand(r.unsqueeze(x, static_cast<std::int64_t>(h) + 1), wide), sizes);
}

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa); a query with every key masked gives 0.
Value attention(Rewriter& r) {
  if (kernel_takes(r)) return None{};
  if (r.real("dropout_p") != 0) r.refuse("dropout in attention draws random numbers");
  const Value& query = r["query"];
  const std::size_t rank = r.rank(query);
  const Exprs& q = r.meta(query).sizes;
  Value key = r["key"], value = r["value"];
  if (r.flag("enable_gqa")) key = repeat_heads(r, key, q[rank - 3]), value = repeat_heads(r, value, q[rank - 3]);
  double scale = 0;
  if (r.has("scale")) scale = r.real("scale");
  else if (auto depth = q.back().constant()) scale = 1 / std::sqrt(static_cast<double>(*depth));
  else r.refuse("has a head size that is symbolic");

  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < rank; ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[rank - 1], order[rank - 2]);
  const double low = -std::numeric_limits<double>::infinity();
  Value scores = r.mul(r.call("aten.matmul.default", {query, r.permute(key, order)}), scale);
  const Exprs sizes = r.meta(scores).sizes;
  if (r.has("attn_mask")) {
    const Value& mask = r["attn_mask"];
    scores = r.dtype(mask) == DType::Bool ? r.call("aten.where.ScalarOther", {mask, scores, low}) : Value(r.add(scores, mask));
  }
  if (r.flag("is_causal")) {
    const Value rows = r.unsqueeze(r.iota(sizes[rank - 2]), 1), columns = r.iota(sizes[rank - 1]);
    scores = r.call("aten.where.ScalarOther", {r.call("aten.ge.Tensor", {rows, columns}), scores, low});
  }
  const Value masked = r.call("aten.eq.Scalar", {r.call("aten.amax.default", {scores, dims_value({-1}), true}), low});
  const Value weights = r.call("aten.where.ScalarSelf", {masked, 0.0, r.call("aten._softmax.default", {scores, -1, false})});
  return r.call("aten.matmul.default", {weights, value});
}

}  // namespace

void decompose_attention(DecompositionTable& table) { table["aten.scaled_dot_product_attention.default"] = attention; }

}  // namespace coil::passes
