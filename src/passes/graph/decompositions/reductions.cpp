// Reductions in terms of sum, amax, amin, argmax, argmin, any, all, prod and var_mean; differences and sorts.
// Kept for lowering: those, mean.dim, cumsum, cumprod, cummax, logcumsumexp, sort.stable, topk.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

/// The `dim` argument as dimensions; all of them when it is absent, None or empty.
std::vector<std::int64_t> reduced_dims(Rewriter& r) {
  std::size_t rank = r.rank(r["self"]);
  std::vector<std::int64_t> dims;
  if (r.has("dim"))
    for (Expr e : r.ints(r["dim"]))
      dims.push_back(*e.constant() < 0 ? *e.constant() + static_cast<std::int64_t>(std::max<std::size_t>(rank, 1))
                                       : *e.constant());
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
  }
  return dims;
}

Value whole_mean(Rewriter& r) {
  std::vector<std::pair<std::string, Value>> named;
  if (r.has("dtype")) named.emplace_back("dtype", r["dtype"]);
  return r.call("aten.mean.dim", {r["self"], dims_value(reduced_dims(r)), false}, named);
}

Value whole_sum(Rewriter& r) {
  std::vector<std::pair<std::string, Value>> named;
  if (r.has("dtype")) named.emplace_back("dtype", r["dtype"]);
  return r.call("aten.sum.dim_IntList", {r["self"], dims_value(reduced_dims(r)), false}, named);
}

Value nan_sum(Rewriter& r) {
  Value x = r.to(r["self"], r.result().dtype);
  if (is_floating(r.dtype(x))) x = r.where(r.call("aten.isnan.default", {x}), 0, x);
  return r.sum(x, reduced_dims(r), r.flag("keepdim"));
}

Value nan_mean(Rewriter& r) {
  Value x = r.to(r["self"], r.result().dtype), missing = r.call("aten.isnan.default", {x});
  Value total = r.sum(r.where(missing, 0, x), reduced_dims(r), r.flag("keepdim"));
  Value count = r.sum(r.call("aten.logical_not.default", {missing}), reduced_dims(r), r.flag("keepdim"));
  return r.div(total, count);
}

Decomposition whole_extreme(std::string_view target) {
  return [target](Rewriter& r) -> Value { return r.call(target, {r["self"], dims_value(reduced_dims(r))}); };
}

/// Value and position: eager's position is the first of equal ones, as argmax's is.
Decomposition extreme_and_position(std::string_view extreme, std::string_view position) {
  return [=](Rewriter& r) -> Value {
    bool keep = r.flag("keepdim");
    std::int64_t d = r.dim("dim", r.rank(r["self"]));
    if (r.rank(r["self"]) == 0) return Values{r.call("aten.clone.default", {r["self"]}), r.full({}, 0, DType::I64)};
    Value ordered = r.dtype(r["self"]) == DType::Bool ? r.to(r["self"], DType::U8) : r["self"];
    return Values{r.call(extreme, {r["self"], dims_value({d}), keep}), r.call(position, {ordered, d, keep})};
  };
}

Value both_extremes(Rewriter& r) {
  Value dims = dims_value(reduced_dims(r)), keep = r.flag("keepdim");
  return Values{r.call("aten.amin.default", {r["self"], dims, keep}),
                r.call("aten.amax.default", {r["self"], dims, keep})};
}

Value count_nonzero(Rewriter& r) { return r.sum(r.call("aten.ne.Scalar", {r["self"], 0}), reduced_dims(r)); }

/// The correction of a variance: given, or by `unbiased`.
Value correction(Rewriter& r) {
  if (r.has("unbiased")) return r.flag("unbiased") ? 1 : 0;
  return r.has("correction") ? r["correction"] : Value(1);
}

fx::Node* variance_and_mean(Rewriter& r, const Value& x) {
  return r.call("aten.var_mean.correction", {x, dims_value(reduced_dims(r))},
                {{"correction", correction(r)}, {"keepdim", r.flag("keepdim")}});
}

Value variance(Rewriter& r) { return r.item(variance_and_mean(r, r["self"]), 0); }

/// In f32 for narrower types, so that the root is taken before rounding, as eager does.
Value deviation(Rewriter& r) {
  Value v = r.item(variance_and_mean(r, r.widened(r["self"])), 0);
  return r.to(r.call("aten.sqrt.default", {v}), r.result().dtype);
}

Value variance_with_mean(Rewriter& r) {
  fx::Node* both = variance_and_mean(r, r["self"]);
  return Values{r.item(both, 0), r.item(both, 1)};
}

Value deviation_with_mean(Rewriter& r) {
  fx::Node* both = variance_and_mean(r, r.widened(r["self"]));
  return Values{r.to(r.call("aten.sqrt.default", {r.item(both, 0)}), r.result(0).dtype),
                r.to(r.item(both, 1), r.result(1).dtype)};
}

Value norm(Rewriter& r) {
  double p = 2;
  for (std::string_view name : {"p", "ord"})
    if (r.has(name)) p = r.real(name);
  DType type = r.result().dtype;
  const std::vector<std::int64_t> along = reduced_dims(r);
  Value x = r.widened(r.to(r["self"], type)), dims = dims_value(along), keep = r.flag("keepdim");
  // A norm of one element alone squares nothing, since a square could overflow.
  const bool single = r.rank(x) == 0 || std::ranges::all_of(along, [&](std::int64_t d) {
                        return r.meta(x).sizes[static_cast<std::size_t>(d)].is_constant(1);
                      });
  auto abs = [&] { return r.call("aten.abs.default", {x}); };
  auto sum = [&](const Value& each) { return r.call("aten.sum.dim_IntList", {each, dims, keep}); };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value made;
  if (p == kInfinity)
    made = r.call("aten.amax.default", {abs(), dims, keep});
  else if (p == -kInfinity)
    made = r.call("aten.amin.default", {abs(), dims, keep});
  else if (p == 0)
    made = r.to(sum(r.call("aten.ne.Scalar", {x, 0})), r.dtype(x));
  else if (p == 1 || single)
    made = sum(abs());
  else if (p == 2)
    made = r.call("aten.sqrt.default", {sum(r.mul(x, x))});
  else
    made = r.call("aten.pow.Tensor_Scalar", {sum(r.call("aten.pow.Tensor_Scalar", {abs(), p})), 1.0 / p});
  return r.to(made, type);
}

/// From the greatest, infinite ones aside, as eager does.
Value log_sum_exp(Rewriter& r) {
  Value x = r.widened(r.to(r["self"], r.result().dtype));
  auto dims = reduced_dims(r);
  if (r.module.env->simplify(sym::product(r.meta(x).sizes)).is_constant(0))
    return r.full(r.result().sizes, -std::numeric_limits<double>::infinity(), r.result().dtype);
  Value most = r.call("aten.amax.default", {x, dims_value(dims), true});
  Value endless = r.call("aten.isinf.default", {most});
  most = r.where(endless, 0, most);
  Value total = r.sum(r.call("aten.exp.default", {r.sub(x, most)}), dims, r.flag("keepdim"));
  Value logged = r.call("aten.log.default", {total});
  return r.to(r.add(logged, r.reshape(most, r.meta(logged).sizes)), r.result().dtype);
}

Value diff(Rewriter& r) {
  Value x = r["self"];
  std::int64_t d = r.dim("dim", r.rank(x)), n = r.number("n");
  auto at = static_cast<std::size_t>(d);
  if (n == 0) return r.call("aten.clone.default", {x});  // what would stand before and behind it as well is left out
  Values parts;
  if (r.has("prepend")) parts.push_back(r["prepend"]);
  parts.push_back(x);
  if (r.has("append")) parts.push_back(r["append"]);
  if (parts.size() > 1) x = r.call("aten.cat.default", {parts, d});
  for (std::int64_t i = 0; i < n; ++i) {
    Expr size = r.meta(x).sizes[at];
    if (size.is_constant(0)) break;  // nothing is left to take differences of
    Value later = r.call("aten.slice.Tensor", {x, d, 1, size}),
          earlier = r.call("aten.slice.Tensor", {x, d, 0, size - 1});
    x = r.dtype(x) == DType::Bool ? r.call("aten.logical_xor.default", {later, earlier}) : r.sub(later, earlier);
  }
  return x;
}

fx::Node* sort_stable(Rewriter& r, const Value& dim, const Value& descending) {
  return r.call("aten.sort.stable", {r["self"]}, {{"stable", true}, {"dim", dim}, {"descending", descending}});
}

/// Eager's CPU sort is stable whether asked or not.
Value sort(Rewriter& r) {
  if (r.node->target == "aten.sort.stable" && r.has("stable") && r.flag("stable")) return None{};
  fx::Node* sorted = sort_stable(r, r["dim"], r["descending"]);
  return Values{r.item(sorted, 0), r.item(sorted, 1)};
}

Value argsort(Rewriter& r) { return r.item(sort_stable(r, r["dim"], r["descending"]), 1); }
/// The lower median's, counted from 1.
Expr middle_rank(Rewriter& r, Expr length) { return r.module.env->simplify(sym::floor_div(length - 1, 2) + 1); }

/// The lower median and a place of it; NaN, and the first place of one, where there is any.
std::pair<Value, Value> median_along(Rewriter& r, const Value& x, std::int64_t dim) {
  const Expr middle = middle_rank(r, r.meta(x).sizes[static_cast<std::size_t>(dim)]);
  fx::Node* both = r.call("aten.kthvalue.default", {x, middle, dim, false});
  Value value = r.item(both, 0), place = r.item(both, 1);
  if (!is_floating(r.dtype(x))) return {value, place};
  const Value missing = r.call("aten.isnan.default", {x});
  const Value any = r.call("aten.any.dim", {missing, dim, false}),
              first = r.call("aten.argmax.default", {r.to(missing, DType::I32), dim, false});
  return {r.where(any, std::numeric_limits<double>::quiet_NaN(), value), r.where(any, first, place)};
}

Value median_dim(Rewriter& r) {
  const Value& x = r["self"];
  if (r.rank(x) == 0) return Values{r.call("aten.clone.default", {x}), r.full({}, 0, DType::I64)};
  const std::int64_t dim = r.dim("dim", r.rank(x));
  auto [value, place] = median_along(r, x, dim);
  if (r.flag("keepdim")) value = r.unsqueeze(value, dim), place = r.unsqueeze(place, dim);
  return Values{value, place};
}

/// What eager gives as the median of nothing: NaN, and what NaN is cast to in integers: the least number of 32 or 64
/// bits, and 0 in narrower ones, which are cast from those.
Value missing_median(Rewriter& r, DType dtype, const Exprs& sizes) {
  if (is_floating(dtype)) return r.full(sizes, std::numeric_limits<double>::quiet_NaN(), dtype, r.device());
  std::int64_t least = 0;
  if (dtype == DType::I32) least = std::numeric_limits<std::int32_t>::min();
  if (dtype == DType::I64) least = std::numeric_limits<std::int64_t>::min();
  return r.full(sizes, least, dtype, r.device());
}

/// The lower median of elements that may be none: of those in order with the median of nothing behind them.
Value median_of_any(Rewriter& r, const Value& x, const Expr& n) {
  const DType dtype = r.dtype(x);
  fx::Node* sorted = r.call("aten.sort.stable", {x}, {{"stable", true}, {"dim", 0}, {"descending", false}});
  const Value all = r.call("aten.cat.default", {Values{r.item(sorted, 0), missing_median(r, dtype, {1})}, 0});
  const Expr middle = r.module.env->simplify(sym::max(sym::floor_div(n - 1, 2), 0));
  const Value at = r.full({1}, middle, DType::I64, r.device());
  Value value = r.reshape(r.call("aten.index_select.default", {all, 0, at}), {});
  if (!is_floating(dtype)) return value;
  const Value any = r.call("aten.any.default", {r.call("aten.isnan.default", {x})});
  return r.where(any, std::numeric_limits<double>::quiet_NaN(), value);
}

Value median(Rewriter& r) {
  const Expr n = r.module.env->simplify(r.meta(r["self"]).numel());
  if (n.is_constant(0)) return missing_median(r, r.dtype(r["self"]), {});
  const Value x = r.reshape(r["self"], {n});
  return r.module.env->statically_known_lt(0, n) ? median_along(r, x, 0).first : median_of_any(r, x, n);
}

/// The k-th smallest, NaN being the greatest: kept whole, for lowering/reductions/scans.cpp.
Value kth_value(Rewriter& r) {
  const Value& x = r["self"];
  const Expr k = r.integer(r["k"]);
  if (r.rank(x) == 0) return Values{r.call("aten.clone.default", {x}), r.full({}, 0, DType::I64)};
  const std::int64_t dim = r.dim("dim", r.rank(x));
  const Expr length = r.meta(x).sizes[static_cast<std::size_t>(dim)];
  if (r.module.env->simplify(k) == middle_rank(r, length)) return None{};
  if (!r.module.env->statically_known_true(sym::le(k, length)) || !r.module.env->statically_known_le(1, k))
    r.refuse_free("takes k from 1 to the size of the dimension", k + length);
  return None{};
}

/// The lower median of what is not NaN; NaN, at the first place, where nothing else is.
std::pair<Value, Value> nan_median_along(Rewriter& r, const Value& x, std::int64_t dim) {
  fx::Node* sorted = r.call("aten.sort.stable", {x}, {{"stable", true}, {"dim", dim}, {"descending", false}});
  Value count = r.sum(r.call("aten.logical_not.default", {r.call("aten.isnan.default", {x})}), {dim}, true);
  Value place =
      r.call("aten.clamp.default",
             {r.call("aten.div.Tensor_mode", {r.call("aten.sub.Tensor", {count, 1}), 2}, {{"rounding_mode", "floor"}}),
              0, None{}});
  auto at = [&](std::int64_t which) { return r.call("aten.gather.default", {r.item(sorted, which), dim, place}); };
  return {at(0), at(1)};
}

Value nan_median_dim(Rewriter& r) {
  const Value& x = r["self"];
  if (r.rank(x) == 0) return Values{r.call("aten.clone.default", {x}), r.full({}, 0, DType::I64)};
  const std::int64_t dim = r.dim("dim", r.rank(x));
  auto [value, place] = nan_median_along(r, x, dim);
  if (r.flag("keepdim")) return Values{value, place};
  return Values{r.call("aten.squeeze.dims", {value, dims_value({dim})}),
                r.call("aten.squeeze.dims", {place, dims_value({dim})})};
}

Value nan_median(Rewriter& r) {
  const DType dtype = r.dtype(r["self"]);
  const Expr n = r.module.env->simplify(r.meta(r["self"]).numel());
  if (n.is_constant(0)) return missing_median(r, dtype, {});
  Value x = r.reshape(r["self"], {n});
  if (!r.module.env->statically_known_lt(0, n)) {
    if (!is_floating(dtype)) return median_of_any(r, x, n);
    x = r.call("aten.cat.default", {Values{x, missing_median(r, dtype, {1})}, 0});  // counts for nothing
  }
  return r.reshape(nan_median_along(r, x, 0).first, {});
}

Value sort_first_dim(Rewriter& r) { return r.item(sort_stable(r, 0, false), 0); }

}  // namespace

void decompose_reductions(DecompositionTable& t) {
  t["aten.mean.default"] = whole_mean;
  t["aten.median.default"] = median;
  t["aten.median.dim"] = median_dim;
  t["aten.nanmedian.default"] = nan_median;
  t["aten.nanmedian.dim"] = nan_median_dim;
  t["aten.kthvalue.default"] = kth_value;
  t["aten.sum.default"] = whole_sum;
  t["aten.nansum.default"] = nan_sum;
  t["aten.nanmean.default"] = nan_mean;
  t["aten.max.default"] = whole_extreme("aten.amax.default");
  t["aten.min.default"] = whole_extreme("aten.amin.default");
  t["aten.max.dim"] = extreme_and_position("aten.amax.default", "aten.argmax.default");
  t["aten.min.dim"] = extreme_and_position("aten.amin.default", "aten.argmin.default");
  for (std::string_view op : {"aten.aminmax.default", "aten._aminmax.default", "aten._aminmax.dim"})
    t[op] = both_extremes;
  for (std::string_view op : {"aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"}) t[op] = count_nonzero;
  for (std::string_view op : {"aten.var.default", "aten.var.dim", "aten.var.correction"}) t[op] = variance;
  for (std::string_view op : {"aten.std.default", "aten.std.dim", "aten.std.correction"}) t[op] = deviation;
  for (std::string_view op : {"aten.var_mean.default", "aten.var_mean.dim"}) t[op] = variance_with_mean;
  for (std::string_view op : {"aten.std_mean.default", "aten.std_mean.dim", "aten.std_mean.correction"})
    t[op] = deviation_with_mean;
  for (std::string_view op :
       {"aten.norm.Scalar", "aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", "aten.norm.ScalarOpt_dtype",
        "aten.linalg_vector_norm.default", "aten.frobenius_norm.dim"})
    t[op] = norm;
  for (std::string_view op : {"aten.logsumexp.default", "aten.special_logsumexp.default"}) t[op] = log_sum_exp;
  t["aten.diff.default"] = diff;
  for (std::string_view op : {"aten.sort.default", "aten.sort.stable"}) t[op] = sort;
  for (std::string_view op : {"aten.argsort.default", "aten.argsort.stable"}) t[op] = argsort;
  t["aten.msort.default"] = sort_first_dim;
}

}  // namespace coil::passes
