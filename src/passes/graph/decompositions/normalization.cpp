// Normalisations in terms of native_layer_norm, native_group_norm, _softmax and _log_softmax, which lowering has whole,
// and of var_mean and element-wise operators. Statistics and products are in f32 for narrower types, as in eager's
// kernels.
#include <limits>
#include <numeric>

#include "ops/shapes/strides.h"
#include "passes/graph/decompositions/rewriter.h"
#include "support/error.h"

namespace coil::passes {

namespace {

Value layer_norm(Rewriter& r) {
  return r.item(r.call("aten.native_layer_norm.default",
                       {r["input"], r["normalized_shape"], r.optional("weight"), r.optional("bias"), r["eps"]}),
                0);
}

Value group_norm(Rewriter& r) {
  const TensorMeta& input = r.meta(r["input"]);
  Expr rest = 1;
  for (std::size_t d = 2; d < input.rank(); ++d) rest *= input.sizes[d];
  auto format = ops::shapes::suggest_format(*r.module.env, input);
  Value dense = r["input"];
  if (!ops::shapes::is_contiguous(*r.module.env, input, format))
    dense = r.call("aten.clone.default", {dense}, {{"memory_format", format}});
  return r.item(
      r.call("aten.native_group_norm.default", {dense, r.optional("weight"), r.optional("bias"), input.sizes[0],
                                                input.sizes[1], rest, r["num_groups"], r["eps"]}),
      0);
}

Decomposition softmax_as(std::string_view target) {
  return
      [target](Rewriter& r) -> Value { return r.call(target, {r.to(r["self"], r.result().dtype), r["dim"], false}); };
}

/// Rows of nothing but -inf give 0, not NaN.
Value safe_softmax(Rewriter& r) {
  if (!is_floating(r.result().dtype)) r.refuse("gives floating types alone");
  Value x = r.to(r["self"], r.result().dtype);
  Value masked = r.call("aten.eq.Scalar", {x, -std::numeric_limits<double>::infinity()});
  Value row = r.call("aten.all.dim", {masked, r["dim"], true});
  return r.where(row, 0, r.call("aten._softmax.default", {x, r["dim"], false}));
}

/// A tensor of one element each channel, reshaped so that it broadcasts against dimension 1 of `rank` dimensions.
Value per_channel(Rewriter& r, const Value& x, std::size_t rank) {
  Exprs sizes(rank, 1);
  sizes[1] = r.meta(x).sizes[0];
  return r.reshape(r.widened(x), sizes);
}

Value inverse_deviation(Rewriter& r, const Value& variance, double eps) {
  return r.call("aten.rsqrt.default", {r.add(variance, eps)});
}

/// x * (weight / sqrt(var + eps)) + (bias - mean * the same), the order of eager's CPU kernel.
Value affine(Rewriter& r, const Value& x, const Value& mean, const Value& variance, const Value& weight,
             const Value& bias, double eps) {
  std::size_t rank = r.rank(x);
  Value scale = inverse_deviation(r, per_channel(r, variance, rank), eps);
  if (!weight.is_none()) scale = r.mul(scale, per_channel(r, weight, rank));
  Value shift = r.mul(per_channel(r, mean, rank), scale);
  shift = bias.is_none() ? Value(r.call("aten.neg.default", {shift})) : Value(r.sub(per_channel(r, bias, rank), shift));
  return r.to(r.add(r.mul(r.widened(x), scale), shift), r.dtype(x));
}

struct BatchStatistics {
  Value mean, variance;  ///< of each channel, biased
  Value spread;          ///< the variance that the results are scaled by
  Value unbiased;        ///< the variance for running statistics
};

/// A channel without variance is scaled by 0 where nothing is added to the variance, not by infinity.
Value spread_of(Rewriter& r, const Value& variance, double eps) {
  if (eps != 0) return variance;
  return r.where(r.call("aten.eq.Scalar", {variance, 0}), std::numeric_limits<double>::infinity(), variance);
}

BatchStatistics batch_statistics(Rewriter& r, const Value& x) {
  std::vector<std::int64_t> dims;
  Expr count = 1;
  for (std::size_t d = 0; d < r.rank(x); ++d)
    if (d != 1) dims.push_back(static_cast<std::int64_t>(d)), count *= r.meta(x).sizes[d];
  fx::Node* both = r.call("aten.var_mean.correction", {r.widened(x), dims_value(dims)}, {{"correction", 0}});
  BatchStatistics s{r.item(both, 1), r.item(both, 0), {}, {}};
  s.spread = spread_of(r, s.variance, r.real("eps"));
  s.unbiased = r.div(r.mul(s.variance, count), count - 1);
  return s;
}

Value batch_norm(Rewriter& r) {
  const Value& x = r["input"];
  if (!r.flag("training") && r.has("running_mean"))
    return affine(r, x, r["running_mean"], r["running_var"], r.optional("weight"), r.optional("bias"), r.real("eps"));
  if (r.has("running_mean"))
    r.refuse("writes its running statistics in training; export the model in eval mode, or run its decompositions");
  BatchStatistics s = batch_statistics(r, x);
  return affine(r, x, s.mean, s.spread, r.optional("weight"), r.optional("bias"), r.real("eps"));
}

/// A result beside the output in inference, as eager has it: nothing on a CPU, the running statistic on a GPU.
Value unless_empty(Rewriter& r, std::size_t result, const std::function<Value()>& running) {
  const TensorMeta& meta = r.result(result);
  return meta.sizes.at(0).is_constant(0) ? r.full(meta.sizes, 0, meta.dtype) : r.to(running(), meta.dtype);
}

/// Output, mean and inverse deviation of the batch (see `unless_empty` for inference), and new running statistics in
/// the functional form.
Value native_batch_norm(Rewriter& r) {
  const Value& x = r["input"];
  const auto& parameters = r.node->op->schema.parameters;
  bool training = false;
  for (const auto& p : parameters)
    if (p.name == "training") training = r.flag("training");
  bool functional = r.node->target == "aten._native_batch_norm_legit_functional.default";
  if (!training) {
    Values results{
        affine(r, x, r["running_mean"], r["running_var"], r.optional("weight"), r.optional("bias"), r.real("eps")),
        unless_empty(r, 1, [&] { return r.call("aten.clone.default", {r["running_mean"]}); }),
        unless_empty(r, 2, [&] { return inverse_deviation(r, r["running_var"], r.real("eps")); })};
    if (functional)
      for (const char* name : {"running_mean", "running_var"})
        results.push_back(r.call("aten.clone.default", {r[name]}));
    return results;
  }
  if (!functional && r.has("running_mean")) r.refuse("writes its running statistics; the functional form is compiled");
  BatchStatistics s = batch_statistics(r, x);
  Values results = {affine(r, x, s.mean, s.spread, r.optional("weight"), r.optional("bias"), r.real("eps")),
                    r.to(s.mean, r.result(1).dtype),
                    r.to(inverse_deviation(r, s.spread, r.real("eps")), r.result(2).dtype)};
  if (!functional) return results;
  double momentum = r.real("momentum");
  // Narrow running statistics have wide results in torch's trace, which are narrowed where they are written.
  const auto add_updated = [&](const Value& running, const Value& now) {
    const Value made = r.add(r.mul(now, momentum), r.mul(r.widened(running), 1 - momentum));
    results.push_back(r.to(made, r.result(results.size()).dtype));
  };
  add_updated(r["running_mean"], s.mean);
  add_updated(r["running_var"], s.unbiased);
  return results;
}

/// Each instance's channels are normalised by their own statistics, or by running ones.
Value instance_norm(Rewriter& r) {
  const Value& x = r["input"];
  if (!r.flag("use_input_stats"))
    return affine(r, x, r["running_mean"], r["running_var"], r.optional("weight"), r.optional("bias"), r.real("eps"));
  std::size_t rank = r.rank(x);
  if (rank < 3) r.refuse("takes three dimensions or more");
  std::vector<std::int64_t> dims;
  for (std::size_t d = 2; d < rank; ++d) dims.push_back(static_cast<std::int64_t>(d));
  Value wide = r.widened(x);
  fx::Node* both = r.call("aten.var_mean.correction", {wide, dims_value(dims)}, {{"correction", 0}, {"keepdim", true}});
  Value scale = inverse_deviation(r, spread_of(r, r.item(both, 0), r.real("eps")), r.real("eps"));
  if (r.has("weight")) scale = r.mul(scale, per_channel(r, r["weight"], rank));
  Value made = r.mul(r.sub(wide, r.item(both, 1)), scale);
  if (r.has("bias")) made = r.add(made, per_channel(r, r["bias"], rank));
  made = r.to(made, r.dtype(x));
  if (r.node->is_tensor()) {
    COIL_CHECK(!r.has("running_mean"), "functionalize leaves no instance_norm that writes");
    return made;
  }
  // The statistics of all instances are averaged into the running ones.
  Expr count = 1;
  for (std::size_t d = 2; d < rank; ++d) count *= r.meta(x).sizes[d];
  double momentum = r.real("momentum");
  auto updated = [&](const Value& running, const Value& now) {
    Value average =
        r.call("aten.mean.dim", {r.reshape(now, {r.meta(x).sizes[0], r.meta(x).sizes[1]}), dims_value({0}), false});
    return r.to(r.add(r.mul(average, momentum), r.mul(r.widened(running), 1 - momentum)), r.dtype(running));
  };
  Value unbiased = r.div(r.mul(r.item(both, 0), count), count - 1);
  return Values{made, updated(r["running_mean"], r.item(both, 1)), updated(r["running_var"], unbiased)};
}

/// The root mean square's inverse, and the input scaled by it and by the weight.
std::pair<Value, Value> root_mean_square(Rewriter& r) {
  const Value& x = r["input"];
  std::vector<std::int64_t> dims(r["normalized_shape"].as_list().size());
  std::iota(dims.begin(), dims.end(), static_cast<std::int64_t>(r.rank(x) - dims.size()));
  Value wide = r.widened(x);
  double eps = r.has("eps")                  ? r.real("eps")
               : r.dtype(wide) == DType::F64 ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
  Value mean = r.call("aten.mean.dim", {r.call("aten.pow.Tensor_Scalar", {wide, 2}), dims_value(dims), true});
  Value inverse = inverse_deviation(r, mean, eps), made = r.mul(wide, inverse);
  if (r.has("weight")) made = r.mul(made, r["weight"]);
  return {made, inverse};
}

Value rms_norm(Rewriter& r) { return r.to(root_mean_square(r).first, r.result().dtype); }

Value fused_rms_norm(Rewriter& r) {
  auto [made, inverse] = root_mean_square(r);
  return Values{r.to(made, r.result(0).dtype), r.to(inverse, r.result(1).dtype)};
}

/// v * (g / norm of v over every dimension but one); over all of them for -1.
Value weight_norm(Rewriter& r) {
  const Value &v = r["v"], &g = r["g"];
  std::int64_t kept = r.number("dim");
  if (kept < -1) kept += static_cast<std::int64_t>(r.rank(v));
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < r.rank(v); ++d) {
    const bool reduced = static_cast<std::int64_t>(d) != kept;
    if (reduced) dims.push_back(static_cast<std::int64_t>(d));
    // Eager's kernels take `g` as a row of numbers, however it is shaped.
    const bool differs = r.rank(g) != r.rank(v) || r.module.env->statically_known_true(
                                                       sym::ne(r.meta(g).sizes[d], reduced ? 1 : r.meta(v).sizes[d]));
    if (kept != -1 && differs) r.refuse("takes a g of one number for each slice of v, and of as many dimensions");
  }
  // Of a vector each element is a norm of its own; an empty list of dimensions would mean all of them.
  Value norm = dims.empty()
                   ? Value(r.call("aten.abs.default", {r.widened(v)}))
                   : r.call("aten.linalg_vector_norm.default", {r.widened(v), 2, dims_value(dims), kept != -1});
  Value made = r.to(r.mul(r.widened(v), r.div(r.widened(g), norm)), r.dtype(v));
  if (r.node->is_tensor()) return made;
  return Values{made, r.to(norm, r.result(1).dtype)};
}

}  // namespace

void decompose_normalization(DecompositionTable& t) {
  t["aten.layer_norm.default"] = layer_norm;
  t["aten.group_norm.default"] = group_norm;
  for (std::string_view op : {"aten.softmax.int", "aten.special_softmax.default"})
    t[op] = softmax_as("aten._softmax.default");
  for (std::string_view op : {"aten.log_softmax.int", "aten.special_log_softmax.default"})
    t[op] = softmax_as("aten._log_softmax.default");
  t["aten._safe_softmax.default"] = safe_softmax;
  t["aten.batch_norm.default"] = batch_norm;
  for (std::string_view op :
       {"aten.native_batch_norm.default", "aten._native_batch_norm_legit.default",
        "aten._native_batch_norm_legit.no_stats", "aten._native_batch_norm_legit_no_training.default",
        "aten._native_batch_norm_legit_functional.default"})
    t[op] = native_batch_norm;
  t["aten.instance_norm.default"] = instance_norm;
  t["coil.instance_norm_functional.default"] = instance_norm;
  for (std::string_view op : {"aten._weight_norm.default", "aten._weight_norm_interface.default"}) t[op] = weight_norm;
  t["aten.rms_norm.default"] = rms_norm;
  t["aten._fused_rms_norm.default"] = fused_rms_norm;
}

}  // namespace coil::passes
