// Attention that no fused kernel takes (f64, symbolic head sizes, dropout): written out as products and a softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

using target::Feature;

bool is_narrow(DType d) { return d == DType::BF16 || d == DType::F16; }

/// cuDNN's: 16-bit types, heads of whole 16-byte pieces and not too large, masks that are added.
bool cudnn_takes(Rewriter& r) {
  const DType d = r.dtype(r["query"]);
  auto fits = [&](const char* name) {
    const auto depth = r.meta(r[name]).sizes.back().constant();
    return depth && r.target.takes_attention_head(*depth);
  };
  if (!is_narrow(d) || !fits("query") || !fits("value") || r.rank(r["query"]) != 4 || r.real("dropout_p") != 0)
    return false;
  return !r.has("attn_mask") ||
         (!r.flag("is_causal") && (r.dtype(r["attn_mask"]) == d || r.dtype(r["attn_mask"]) == DType::F32 ||
                                   r.dtype(r["attn_mask"]) == DType::Bool));
}

/// A mask of bool for cuDNN: numbers that are added, so low that they leave nothing, and 0 where a query has no key at
/// all.
Value with_added_mask(Rewriter& r) {
  const Value& mask = r["attn_mask"];
  const DType d = r.dtype(r["query"]);
  const double low = d == DType::F16 ? -65504.0 : -1e30;
  const Value added = r.where(mask, r.full({}, 0.0, d, r.device()), r.full({}, low, d, r.device()));
  Values args{r["query"], r["key"], r["value"], added, 0.0, false};
  std::vector<std::pair<std::string, Value>> named{{"enable_gqa", r.flag("enable_gqa")}};
  if (r.has("scale")) named.emplace_back("scale", r.real("scale"));
  const Value y = r.call("aten.scaled_dot_product_attention.default", std::move(args), std::move(named));
  return r.where(r.call("aten.any.dim", {mask, -1, true}), y, r.full({}, 0.0, d, r.device()));
}

/// cuDNN's where more than the output is asked for (the logarithms of the sums, gradients): a mask that is added, and
/// something to attend to.
bool cudnn_takes_training(Rewriter& r) {
  const Exprs &q = r.meta(r["query"]).sizes, &k = r.meta(r["key"]).sizes;
  auto is = [](const Expr& size, std::int64_t n) { return size.is_constant(n); };
  const bool some = std::ranges::none_of(q, [&](const Expr& s) { return is(s, 0); }) && !is(k[2], 0);
  return r.has_on_device(r["query"], Feature::Attention) && cudnn_takes(r) &&
         !(r.has("attn_mask") && r.dtype(r["attn_mask"]) == DType::Bool) && some && !(is(q[2], 1) && is(k[2], 1));
}

/// Coil's own kernels for a GPU: f32, which its library has no attention for. For few queries products fill the machine
/// better, and their scores are small.
bool blocks_take(Rewriter& r, bool gradient) {
  constexpr std::int64_t kFewQueries = 16;
  const auto queries = r.meta(r["query"]).sizes[r.rank(r["query"]) - 2].constant();
  auto fits = [&](const char* name) {
    const auto depth = r.meta(r[name]).sizes.back().constant();
    return depth && *depth > 0 && *depth <= (gradient ? 128 : 256);
  };
  return r.dtype(r["query"]) == DType::F32 && r.has_on_device(r["query"], Feature::AttentionKernels) && fits("query") &&
         fits("value") && !(queries && *queries <= kFewQueries) && r.real("dropout_p") == 0;
}

/// Kernels have a key and a value for each batch of queries, and heads that are the query's or that its heads share;
/// products broadcast all else.
bool has_kernel_sizes(Rewriter& r) {
  const Exprs &q = r.meta(r["query"]).sizes, &k = r.meta(r["key"]).sizes, &v = r.meta(r["value"]).sizes;
  if (q.size() != k.size() || q.size() != v.size()) return false;
  const auto is = [&](const Expr& a, const Expr& b) { return r.module.env->statically_known_equal(a, b); };
  for (std::size_t d = 0; d + 2 < q.size(); ++d) {
    const bool shared =
        d == 1 && q.size() == 4 && (r.flag("enable_gqa") || !r.node->is_tensor() || k[d].is_constant(1));
    if (!is(k[d], v[d]) || !(shared || is(q[d], k[d]))) return false;
  }
  return true;
}

bool kernel_takes(Rewriter& r) {
  if (r.real("dropout_p") != 0 || !has_kernel_sizes(r)) return false;
  if (r.has_on_device(r["query"], Feature::Attention))
    return blocks_take(r, false) || (r.node->is_tensor() ? cudnn_takes(r) : cudnn_takes_training(r));
  const DType d = r.dtype(r["query"]);
  const bool narrow = d == DType::F32 || d == DType::BF16 || d == DType::F16;
  const auto has_width = [&](std::string_view name) {
    const auto width = r.meta(r[name]).sizes.back().constant();
    return width && *width > 0;
  };
  return narrow && r.target.has(Feature::WholeAttention) && has_width("query") && has_width("value");
}

/// Attention in 16 bits that eager writes out in f32 from end to end, or that no fused kernel takes.
bool computed_in_f32(Rewriter& r) {
  if (!is_narrow(r.dtype(r["query"])) || !r.node->is_tensor()) return false;
  const bool same_width = r.meta(r["query"]).sizes.back() == r.meta(r["value"]).sizes.back();
  const bool fused_in_eager = same_width || r.has_on_device(r["query"], Feature::Attention);
  return r.rank(r["query"]) != 4 || !fused_in_eager || !kernel_takes(r);
}

Value attention_in_f32(Rewriter& r) {
  auto wide = [&](const Value& x) { return r.to(x, DType::F32); };
  Value mask = r.has("attn_mask") ? r["attn_mask"] : Value(None{});
  if (r.has("attn_mask") && r.dtype(mask) != DType::Bool) mask = wide(mask);
  std::vector<std::pair<std::string, Value>> named{{"enable_gqa", r.flag("enable_gqa")}};
  if (r.has("scale")) named.emplace_back("scale", r["scale"]);
  Values args{wide(r["query"]), wide(r["key"]), wide(r["value"]), mask, r.real("dropout_p"), r.flag("is_causal")};
  const Value y = r.call("aten.scaled_dot_product_attention.default", std::move(args), std::move(named));
  return r.to(y, r.result().dtype);
}

/// Key or value heads repeated for the query heads that share them.
Value repeat_heads(Rewriter& r, const Value& x, Expr heads) {
  Exprs sizes = r.meta(x).sizes;
  const std::size_t h = sizes.size() - 3;
  if (sizes[h] == heads) return x;
  Exprs wide = sizes;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(h) + 1,
              r.module.env->simplify(sym::floor_div(heads, sizes[h])));
  sizes[h] = heads;
  return r.reshape(r.expand(r.unsqueeze(x, static_cast<std::int64_t>(h) + 1), wide), sizes);
}

/// a @ b where heads of a share heads of b: the rows of those that share one are rows of one matrix, and nothing of b
/// is repeated.
Value shared_product(Rewriter& r, const Value& a, const Value& b) {
  const Exprs rows = r.meta(a).sizes, columns = r.meta(b).sizes;
  const std::size_t h = rows.size() - 3;
  const Expr heads = columns[columns.size() - 3];
  if (rows[h] == heads) return r.call("aten.matmul.default", {a, b});
  Exprs joined = rows;
  joined[h] = heads;
  joined[h + 1] = r.module.env->simplify(sym::floor_div(rows[h], heads) * rows[h + 1]);
  const Value product = r.call("aten.matmul.default", {r.reshape(a, joined), b});
  Exprs sizes = r.meta(product).sizes;
  std::copy(rows.begin() + static_cast<std::ptrdiff_t>(h), rows.end() - 1, sizes.end() - 3);
  return r.reshape(product, sizes);
}

double scale_of(Rewriter& r) {
  if (r.has("scale")) return r.real("scale");
  if (auto depth = r.meta(r["query"]).sizes.back().constant()) return 1 / std::sqrt(static_cast<double>(*depth));
  r.refuse_free("has a head size that is symbolic", r.meta(r["query"]).sizes.back());
}

Value transposed(Rewriter& r, const Value& x) {
  std::vector<std::int64_t> order;
  for (std::size_t d = 0; d < r.rank(x); ++d) order.push_back(static_cast<std::int64_t>(d));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return r.permute(x, order);
}

constexpr double kLow = -std::numeric_limits<double>::infinity();

/// Scaled scores with what a mask and causality take away at -inf.
Value masked_scores(Rewriter& r, Value scores) {
  const std::size_t rank = r.rank(scores);
  const Exprs sizes = r.meta(scores).sizes;
  if (r.has("attn_mask")) {
    const Value& mask = r["attn_mask"];
    scores = r.dtype(mask) == DType::Bool ? r.call("aten.where.ScalarOther", {mask, scores, kLow})
                                          : Value(r.add(scores, mask));
  }
  if (r.flag("is_causal")) {
    const Value rows = r.unsqueeze(r.iota(sizes[rank - 2]), 1), columns = r.iota(sizes[rank - 1]);
    scores = r.call("aten.where.ScalarOther", {r.call("aten.ge.Tensor", {rows, columns}), scores, kLow});
  }
  return scores;
}

/// scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa), and the CPU
/// kernel's form that also gives the logarithms of the queries' sums; a query with every key masked gives 0.
Value attention(Rewriter& r) {
  if (computed_in_f32(r)) return attention_in_f32(r);
  if (kernel_takes(r)) {
    const bool added = r.has_on_device(r["query"], Feature::Attention) && !blocks_take(r, false) &&
                       r.has("attn_mask") && r.dtype(r["attn_mask"]) == DType::Bool;
    return added ? with_added_mask(r) : Value(None{});
  }
  const bool flash = !r.node->is_tensor();
  if (flash && r.real("dropout_p") != 0) r.refuse("has no dropout in eager either");
  const Value& query = r["query"];
  auto product = [&](const Value& a, const Value& b) {
    return flash || r.flag("enable_gqa") ? shared_product(r, a, b) : Value(r.call("aten.matmul.default", {a, b}));
  };
  const Value scores = masked_scores(r, r.mul(product(query, transposed(r, r["key"])), scale_of(r)));
  Value weights = r.call("aten._softmax.default", {scores, -1, false});
  if (!r.meta(scores).sizes.back().is_constant(0)) {
    const Value most = r.call("aten.amax.default", {scores, dims_value({-1}), true});
    weights = r.call("aten.where.ScalarSelf", {r.call("aten.eq.Scalar", {most, kLow}), 0.0, weights});
  }
  if (r.real("dropout_p") != 0) weights = r.call("aten.dropout.default", {weights, r.real("dropout_p"), true});
  const Value made = product(weights, r["value"]);
  if (!flash) return made;
  return Values{made, r.to(r.call("aten.logsumexp.default", {scores, dims_value({-1})}), r.result(1).dtype)};
}

/// The CPU's kernel: a unit of its work is a head of keys, so that few heads would leave threads without work, and what
/// it packs of a head lies on the stack.
bool gradient_kernel_takes(Rewriter& r) {
  constexpr std::int64_t kFewHeads = 4, kWidest = 1024;
  if (!r.has_on_device(r["query"], Feature::AttentionGradient) || !kernel_takes(r)) return false;
  const Exprs& k = r.meta(r["key"]).sizes;
  const auto heads = r.module.env->simplify(k[0] * k[1]).constant();
  const auto fits = [&](const char* name) { return *r.meta(r[name]).sizes.back().constant() <= kWidest; };
  return !(heads && *heads < kFewHeads) && fits("query") && fits("value");
}

/// The probabilities are computed again from the scores and the logarithms of their sums. With P = exp(S - logs) and dP
/// = dO V', dS = P * (dP - sum(dO * O)) * scale; dQ = dS K, dK = dS' Q, dV = P' dO. Products accumulate in f32 and P
/// and dS are rounded to the type of the operands before the last three, as in eager's kernel.
Value attention_backward(Rewriter& r) {
  if (cudnn_takes_training(r) || blocks_take(r, true) || gradient_kernel_takes(r)) return None{};
  if (r.real("dropout_p") != 0) r.refuse("has no dropout in eager either");
  const Exprs q = r.meta(r["query"]).sizes, k = r.meta(r["key"]).sizes;
  const DType type = r.dtype(r["query"]), wide = compute_dtype(type);
  const double scale = scale_of(r);
  const Expr batches = r.module.env->simplify(q[0] * q[1]);
  auto rows = [&](const Value& x) { return r.reshape(x, {batches, r.meta(x).sizes[2], r.meta(x).sizes[3]}); };
  auto product = [&](const Value& a, const Value& b, DType out) {
    return out == type ? r.call("aten.bmm.default", {a, b}) : r.call("aten.bmm.dtype", {a, b, out});
  };
  auto by_head = [&](const Value& x) { return r.reshape(x, {q[0], q[1], r.meta(x).sizes[1], r.meta(x).sizes[2]}); };
  const Value query = rows(r["query"]), key = rows(repeat_heads(r, r["key"], q[1])),
              value = rows(repeat_heads(r, r["value"], q[1])), grad = rows(r["grad_out"]);
  const Value scores = masked_scores(r, r.mul(by_head(product(query, transposed(r, key), wide)), scale));
  const Value logs = r.unsqueeze(r.to(r["logsumexp"], wide), -1);
  // A query that sees no key has no probabilities. They lie as the scores do, which products read without a copy.
  const Value weights = r.call("aten.masked_fill.Scalar", {r.call("aten.exp.default", {r.sub(scores, logs)}),
                                                           r.call("aten.eq.Scalar", {logs, kLow}), 0});
  const Value along = r.sum(r.mul(r.to(r["grad_out"], wide), r["out"]), {-1}, true);
  const Value slopes = r.mul(r.mul(weights, r.sub(by_head(product(grad, transposed(r, value), wide)), along)), scale);
  const Value p = rows(r.to(weights, type)), ds = rows(r.to(slopes, type));
  // Heads that share a key add up.
  auto summed = [&](const Value& x, const Exprs& sizes) {
    Value made = by_head(x);
    if (!(sizes[1] == q[1])) {
      const Expr shared = r.module.env->simplify(sym::floor_div(q[1], sizes[1]));
      made = r.to(r.sum(r.to(r.reshape(made, {q[0], sizes[1], shared, sizes[2], sizes[3]}), wide), {2}), type);
    }
    return made;
  };
  return Values{by_head(product(ds, key, type)), summed(product(transposed(r, ds), query, type), k),
                summed(product(transposed(r, p), grad, type), r.meta(r["value"]).sizes)};
}

}  // namespace

void decompose_attention(DecompositionTable& table) {
  table["aten.scaled_dot_product_attention.default"] =
      table["aten._scaled_dot_product_flash_attention_for_cpu.default"] = attention;
  table["aten._scaled_dot_product_flash_attention_for_cpu_backward.default"] = attention_backward;
}

}  // namespace coil::passes
