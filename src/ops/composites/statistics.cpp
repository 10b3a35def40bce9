// Quantiles, modes, histograms, integrals over samples.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

/// The elements on both sides of each rank of the sorted input, and what lies between them by `interpolation`.
Value quantiles(Steps& s, Value q, bool skip_nan) {
  Value x = s["self"];
  const bool keep = s.flag("keepdim"), scalar = s.rank(q) == 0, whole = !s.has("dim");
  const std::size_t rank = s.rank(x);
  if (whole) x = s.reshape(x, {s.env.simplify(sym::product(s.sizes(x)))});
  if (whole && rank == 0) x = s.reshape(x, {1});
  const std::int64_t dim = whole ? 0 : s.wrapped(s.number("dim"), rank);
  if (!whole && rank == 0) x = s.reshape(x, {1});
  if (!whole && rank > 0) x = s.call("aten.transpose.int", {s.unsqueeze(x, -1), dim, -1});  // [.., 1, .., n]: as eager
  const auto last = static_cast<std::int64_t>(s.rank(x)) - 1;
  const Expr n = s.size(x, -1);
  Value missing = s.unary("isnan", x);
  Value sorted = s.item(s.call("aten.sort.default", {x, -1, false}), 0);
  // ranks[..., k] = q[k] * (n - 1); NaN sorts last, and one makes the result NaN.
  Value flat = s.reshape(q, {scalar ? Expr(1) : s.size(q, 0)});
  Value ranks;
  if (skip_nan) {
    Value count = s.call("aten.sum.dim_IntList", {s.unary("logical_not", missing), Steps::list({-1}), true});
    Value top = s.call("aten.sub.Tensor", {count, 1});
    ranks = s.call("aten.clamp.default", {s.mul(flat, s.to(top, s.dtype(x))), 0, None{}});
  } else {
    Value any = s.call("aten.any.dim", {missing, -1, true});
    Value top = s.full({}, n - 1, s.dtype(x));
    ranks = s.where(any, top, s.mul(flat, top));
  }
  const std::string& how = s["interpolation"].as_string();
  if (how == "lower") ranks = s.unary("floor", ranks);
  if (how == "higher") ranks = s.unary("ceil", ranks);
  if (how == "nearest") ranks = s.unary("round", ranks);
  auto at = [&](const Value& place) { return s.call("aten.gather.default", {sorted, last, s.to(place, DType::I64)}); };
  Value below = s.unary("floor", ranks), made = at(below);
  if (how == "linear" || how == "midpoint") {
    Value weight = how == "midpoint" ? s.call("aten.full_like.default", {ranks, 0.5}) : s.sub(ranks, below);
    made = s.call("aten.lerp.Tensor", {made, at(s.unary("ceil", ranks)), weight});
  }
  if (whole && keep) {
    Exprs sizes(rank, 1);
    sizes.push_back(s.size(made, -1));
    made = s.reshape(made, sizes);
  }
  if (!whole && !keep && rank > 0) made = s.call("aten.squeeze.dim", {made, dim});
  if (scalar) return s.call("aten.squeeze.dim", {made, -1});
  std::vector<std::int64_t> order(s.rank(made));
  std::iota(order.begin(), order.end(), -1);
  order[0] = static_cast<std::int64_t>(s.rank(made)) - 1;
  return s.permute(made, order);
}

Value quantile(Steps& s) { return quantiles(s, s["q"], false); }
Value quantile_of_number(Steps& s) { return quantiles(s, s.full({}, s["q"], s.dtype(s["self"])), false); }
Value nanquantile(Steps& s) { return quantiles(s, s["q"], true); }
Value nanquantile_of_number(Steps& s) { return quantiles(s, s.full({}, s["q"], s.dtype(s["self"])), true); }

/// The most frequent element, of several the least, and where it comes last: the longest run of the sorted elements.
Value mode(Steps& s) {
  const Value& x = s["self"];
  const std::int64_t dim = s.wrapped(s.number("dim"), s.rank(x));
  if (s.rank(x) == 0) return Values{s.unary("clone", x), s.full({}, 0, DType::I64)};
  const Value sorted = s.call("aten.sort.stable", {x}, {{"stable", true}, {"dim", dim}, {"descending", false}}),
              values = s.item(sorted, 0);
  const Expr n = s.size(x, dim);
  Value changes = s.call("aten.ne.Tensor", {s.slice(values, dim, 1, n), s.slice(values, dim, 0, n - 1)});
  Exprs first = s.sizes(x), line(s.rank(x), 1);
  first[static_cast<std::size_t>(dim)] = 1, line[static_cast<std::size_t>(dim)] = n;
  const Value begins = s.cat({s.full(first, true, DType::Bool), changes}, dim), places = s.reshape(s.iota(n), line);
  const Value starts =
      s.item(s.call("aten.cummax.default", {s.where(begins, places, s.full({}, 0, DType::I64)), dim}), 0);
  // A run grows up to its end: the first of the greatest counts ends the run.
  const Value end = s.call("aten.argmax.default", {s.sub(places, starts), dim, true});
  auto at_end = [&](const Value& of) {
    Value made = s.call("aten.gather.default", {of, dim, end});
    return s.flag("keepdim") ? made : s.contiguous(s.call("aten.squeeze.dim", {made, dim}));
  };
  return Values{at_end(values), at_end(s.item(sorted, 1))};
}

/// Counts in `bins` equal bins between min and max; between the extremes where these are equal.
Value histc(Steps& s) {
  Value x = s["self"];
  const std::int64_t bins = s.number("bins");
  double low = s.real("min"), high = s.real("max");
  if (low > high) s.refuse("takes max above min");
  const DType type = s.dtype(x);
  Value from, to;
  x = s.reshape(x, {s.env.simplify(sym::product(s.sizes(x)))});
  if (s.size(x, 0).is_constant(0)) return s.full({bins}, 0, type);
  if (low == high) {
    from = s.unary("amin", x), to = s.unary("amax", x);
    Value same = s.call("aten.eq.Tensor", {from, to});
    from = s.where(same, s.sub(from, 1), from), to = s.where(same, s.add(to, 1), to);
  } else {
    from = s.full({}, low, type), to = s.full({}, high, type);
  }
  Value inside =
      s.call("aten.logical_and.default", {s.call("aten.ge.Tensor", {x, from}), s.call("aten.le.Tensor", {x, to})});
  Value place = s.to(s.div(s.mul(s.sub(x, from), bins), s.sub(to, from)), DType::I64);
  place = s.call("aten.clamp.default", {place, 0, bins - 1});
  return s.call("aten.scatter_add.default", {s.full({bins}, 0, type), 0, place, s.to(inside, type)});
}

/// What lies between neighbouring edges, the last included: how many elements, or the sum of their weights.
Value counts_between(Steps& s, const Value& edges) {
  const Expr n = s.env.simplify(sym::product(s.sizes(s["self"])));
  const Expr bins = s.env.simplify(s.size(edges, 0) - 1);
  const DType type = s.dtype(s["self"]);
  const Value x = s.reshape(s["self"], {n});
  const auto edge = [&](std::int64_t i) { return s.call("aten.select.int", {edges, 0, i}); };
  const Value inside = s.call("aten.logical_and.default",
                              {s.call("aten.ge.Tensor", {x, edge(0)}), s.call("aten.le.Tensor", {x, edge(-1)})});
  Value place = s.call("aten.searchsorted.Tensor", {edges, x}, {{"right", true}});
  place = s.call("aten.clamp.default", {s.sub(place, 1), 0, s.env.simplify(bins - 1)});
  const Value weight = s.has("weight") ? s.reshape(s["weight"], {n}) : s.full({}, 1, type);
  const Value counted = s.where(inside, weight, s.full({}, 0, type));
  Value made = s.call("aten.scatter_add.default", {s.full({bins}, 0, type), 0, place, counted});
  if (!s.flag("density")) return made;
  const Value widths = s.sub(s.slice(edges, 0, 1, s.size(edges, 0)), s.slice(edges, 0, 0, bins));
  return s.div(s.div(made, s.sum(made, {0})), widths);
}

void need_floats(Steps& s) {
  const DType type = s.dtype(s["self"]);
  if (type != DType::F32 && type != DType::F64) s.refuse("takes floats of 32 and 64 bits");
}

/// Between so many equal bins of a range, or of what there is.
Value histogram(Steps& s) {
  need_floats(s);
  const std::int64_t bins = s.number("bins");
  if (bins <= 0) s.refuse("takes a positive number of bins");
  const DType type = s.dtype(s["self"]);
  Value from = s.full({}, 0, type), to = s.full({}, 1, type);
  if (s.has("range")) {
    const Values& range = s["range"].as_list();
    if (range.size() != 2 || range[0].as_double() > range[1].as_double())
      s.refuse("takes a range of two numbers, the lesser first");
    from = s.full({}, range[0], type), to = s.full({}, range[1], type);
  } else if (!sym::product(s.sizes(s["self"])).is_constant(0)) {
    from = s.unary("amin", s["self"]), to = s.unary("amax", s["self"]);
  }
  const Value same = s.call("aten.eq.Tensor", {from, to});
  const Value apart = s.where(same, s.full({}, 0.5, type), s.full({}, 0, type));
  const Value edges =
      s.call("aten.linspace.Tensor_Tensor", {s.sub(from, apart), s.add(to, apart), bins + 1}, {{"dtype", type}});
  return Values{counts_between(s, edges), edges};
}

/// Between given edges.
Value histogram_of_edges(Steps& s) {
  need_floats(s);
  const Value& edges = s["bins"];
  if (s.rank(edges) != 1 || s.dtype(edges) != s.dtype(s["self"])) s.refuse("takes a vector of edges of the same type");
  const auto count = s.size(edges, 0).constant();
  if (count && *count < 2) s.refuse("takes two edges or more");
  return Values{counts_between(s, edges), s.contiguous(edges)};
}

/// Sums of neighbours along a dimension, in the tensor's own type, where integers wrap.
Value pairs(Steps& s, const Value& y, std::int64_t dim) {
  const Expr n = s.size(y, dim);
  return s.add(s.slice(y, dim, 0, n - 1), s.slice(y, dim, 1, n));
}

bool has_samples(Steps& s) {
  return std::ranges::any_of(s.op.schema.parameters, [](const Parameter& p) { return p.name == "x"; });
}

/// The steps between the `x`, along the dimension of `y`.
Value gaps(Steps& s, std::int64_t dim) {
  const Value &x = s["x"], &y = s["y"];
  const std::int64_t along = s.rank(x) == 1 ? 0 : s.wrapped(dim - static_cast<std::int64_t>(s.rank(y)), s.rank(x));
  const Expr n = s.size(x, along);
  Value made = s.sub(s.slice(x, along, 1, n), s.slice(x, along, 0, n - 1));
  if (s.rank(x) == 1) {
    Exprs sizes(s.rank(y), 1);
    sizes[static_cast<std::size_t>(dim)] = s.size(made, 0);
    made = s.reshape(made, sizes);
  }
  return made;
}

Value trapezoid(Steps& s) {
  const Value& y = s["y"];
  const std::int64_t dim = s.wrapped(s.number("dim"), s.rank(y));
  if (s.size(y, dim).is_constant(0)) {  // torch returns before it divides, which would make floats of integers
    Exprs rest = s.sizes(y);
    rest.erase(rest.begin() + dim);
    return s.full(rest, 0, s.dtype(y));
  }
  // In eager's order, which decides what integers wrap to and what infinite steps make of nothing.
  if (has_samples(s)) return s.div(s.sum(s.mul(pairs(s, y, dim), gaps(s, dim)), {dim}), 2.0);
  return s.mul(s.div(s.sum(pairs(s, y, dim), {dim}), 2.0), s["dx"]);
}

Value cumulative_trapezoid(Steps& s) {
  const Value& y = s["y"];
  const std::int64_t dim = s.wrapped(s.number("dim"), s.rank(y));
  const Value areas =
      has_samples(s) ? s.div(s.mul(pairs(s, y, dim), gaps(s, dim)), 2.0) : s.mul(s.div(pairs(s, y, dim), 2.0), s["dx"]);
  return s.call("aten.cumsum.default", {areas, dim});
}

Value mvlgamma(Steps& s) {
  const std::int64_t p = s.number("p");
  const Value& x = s["self"];
  const DType type = is_floating(s.dtype(x)) ? s.dtype(x) : DType::F32;
  Value shifts = s.call("aten.mul.Tensor", {s.iota(p, type), -0.5});
  Value each = s.unary("lgamma", s.add(s.unsqueeze(s.to(x, type), -1), shifts));
  constexpr double kLogPi = 1.1447298858494002;
  return s.add(s.sum(each, {-1}), static_cast<double>(p * (p - 1)) * kLogPi / 4);
}

/// 0 or pi of real numbers; NaN stays.
Value angle(Steps& s) {
  const Value& x = s["self"];
  const DType type = is_fractional(s.dtype(x)) ? real_type(s.dtype(x)) : DType::F32;
  constexpr double kPi = 3.14159265358979323846;
  Value made = s.where(s.call("aten.lt.Scalar", {x, 0}), s.full({}, kPi, type), s.full({}, 0, type));
  return is_floating(s.dtype(x)) ? s.where(s.unary("isnan", x), x, made) : made;
}

constexpr Composite kStatistics[] = {
    {"aten::quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
     "Tensor",
     quantile},
    {"aten::quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
     "Tensor",
     quantile_of_number},
    {"aten::nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> "
     "Tensor",
     nanquantile},
    {"aten::nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') "
     "-> Tensor",
     nanquantile_of_number},
    {"aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", mode},
    {"aten::histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc},
    {"aten::histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool "
     "density=False) -> (Tensor hist, Tensor bin_edges)",
     histogram},
    {"aten::histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor "
     "hist, Tensor bin_edges)",
     histogram_of_edges},
    {"aten::trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", trapezoid},
    {"aten::trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", trapezoid},
    {"aten::trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", trapezoid},
    {"aten::trapz.dx(Tensor y, *, float dx=1, int dim=-1) -> Tensor", trapezoid},
    {"aten::cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", cumulative_trapezoid},
    {"aten::cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor", cumulative_trapezoid},
    {"aten::mvlgamma(Tensor self, int p) -> Tensor", mvlgamma, true},
    {"aten::special_multigammaln(Tensor self, int p) -> Tensor", mvlgamma},
    {"aten::angle(Tensor self) -> Tensor", angle},
};

}  // namespace

std::span<const Composite> statistics() { return kStatistics; }

}  // namespace coil::ops::composites
