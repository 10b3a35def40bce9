// Sums, extremes, moments, norms: values over dimensions that go away.
#include <cmath>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

using Values = ops::Values;

Axes reduced_axes(Context& ctx, const TensorBox& box, const std::vector<std::int64_t>& dims, bool keep) {
  Axes axes;
  axes.is_reduced.assign(box.rank(), dims.empty());
  for (std::int64_t d : dims)
    if (const std::size_t at = dimension(d, box.rank()); at < box.rank()) axes.is_reduced[at] = true;
  for (std::size_t d = 0; d < box.rank(); ++d) {
    if (axes.is_reduced[d]) {
      axes.index.push_back(ctx.graph.rvar(axes.reduced.size()));
      axes.reduced.push_back(box.sizes[d]);
      axes.count *= box.sizes[d];
      if (keep) axes.sizes.push_back(1);
    } else {
      axes.index.push_back(ctx.graph.ivar(axes.sizes.size()));
      axes.sizes.push_back(box.sizes[d]);
    }
  }
  return axes;
}

TensorBox reduce_over(Context& ctx, const TensorBox& box, const Axes& axes, ReductionKind kind, DType register_type,
                      const std::function<Element(Element)>& f) {
  Element x = element_at(ctx, box, axes.index, axes.sizes, axes.reduced).cast(register_type);
  if (f) x = f(x);
  const bool compares = kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin;
  if (compares && !f) x = x.cast(box.dtype());  // as eager has stored it
  const DType out = compares                                                   ? DType::I64
                    : kind == ReductionKind::Any || kind == ReductionKind::All ? DType::Bool
                                                                               : x.dtype();
  return reduction(ctx, out, axes.sizes, axes.reduced, kind, x, {}, axes.again);
}

Element reduced_value(Context& ctx, const TensorBox& reduced, const Axes& axes) {
  Exprs index;
  for (std::size_t d = 0; d < axes.sizes.size(); ++d)
    index.push_back(reduced.sizes[d].is_constant(1) ? Expr(0) : ctx.graph.ivar(d));
  return element_at(ctx, reduced, index, axes.sizes, axes.reduced);
}

namespace {

std::vector<std::int64_t> dims_of(Context& ctx, const ops::Value& arg) {
  return arg.is_none() ? std::vector<std::int64_t>{} : constants(ctx, arg);
}

/// Arguments by the schema's names, where the overload has them.
const ops::Value* named(const Context& ctx, std::string_view name) {
  if (!ctx.node->op) return nullptr;
  const auto& parameters = ctx.node->op->schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == name) return &ctx.node->args[i];
  return nullptr;
}

/// Dimensions and keepdim of the call.
Axes call_axes(Context& ctx, const TensorBox& box) {
  const ops::Value* dim = named(ctx, "dim");
  const ops::Value* keep = named(ctx, "keepdim");
  return reduced_axes(ctx, box, dim ? dims_of(ctx, *dim) : std::vector<std::int64_t>{}, keep && keep->as_bool());
}

/// The value itself when it is laid out and typed as recorded, else converted.
TensorBox finished(Context& ctx, const TensorBox& box, const sym::TensorMeta& meta) {
  if (box.dtype() != meta.dtype) return result(ctx, element(ctx, box, meta.sizes), meta);
  return box;
}

LoweringFunction simple(ReductionKind kind, Element (*f)(Element) = nullptr) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    const DType t =
        kind == ReductionKind::Any || kind == ReductionKind::All ? DType::Bool : register_type(ctx.result().dtype);
    return finished(
        ctx, reduce_over(ctx, box, call_axes(ctx, box), kind, t, f ? std::function<Element(Element)>(f) : nullptr),
        ctx.result());
  };
}

/// any and all over a list of dimensions, which may name none: None stands for all.
LoweringFunction over_list(ReductionKind kind) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    if (auto* dims = args[1].get_if<Values>(); dims && dims->empty())
      return result(ctx, element(ctx, ctx.tensor(args[0]), ctx.result().sizes).cast(DType::Bool));
    return simple(kind)(ctx, args);
  };
}

Element count_value(Context& ctx, const Axes& axes, DType t) { return index_value(ctx, axes.count).cast(t); }

Lowered mean(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Axes axes = call_axes(ctx, box);
  const DType t = register_type(ctx.result().dtype);
  const TensorBox sum = reduce_over(ctx, box, axes, ReductionKind::Sum, t);
  return result(ctx, element(ctx, sum, axes.sizes) / count_value(ctx, axes, t));
}

/// The first place of the extreme among the values as they would be stored: in 16 bits, more of them are equal.
TensorBox arg_extreme(Context& ctx, const TensorBox& box, const Axes& axes, ReductionKind kind) {
  const DType stored = box.dtype();
  return reduce_over(ctx, box, axes, kind, register_type(stored), [stored](Element x) { return as_stored(x, stored); });
}

LoweringFunction position(ReductionKind kind) {
  return [kind](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    return arg_extreme(ctx, box, call_axes(ctx, box), kind);
  };
}

/// The bits of all elements, as f64 or as 64-bit integers, by exclusive or.
Lowered hash(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const bool floats = is_floating(box.dtype());
  const auto bits = [&](Element x) {
    return floats ? Element{&ctx.graph.pool(), ctx.graph.pool().bitcast(x, DType::I64)} : x;
  };
  return finished(
      ctx, reduce_over(ctx, box, call_axes(ctx, box), ReductionKind::Xor, floats ? DType::F64 : DType::I64, bits),
      ctx.result());
}

LoweringFunction value_and_position(ReductionKind value, ReductionKind position) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    ir::realize_by_policy(box, 2, ctx.options.realize);
    const Axes axes = call_axes(ctx, box);
    const DType t = register_type(box.dtype());
    return std::vector<TensorBox>{finished(ctx, reduce_over(ctx, box, axes, value, t), ctx.result(0)),
                                  arg_extreme(ctx, box, axes, position)};
  };
}

Lowered aminmax(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  ir::realize_by_policy(box, 2, ctx.options.realize);
  const Axes axes = call_axes(ctx, box);
  const DType t = register_type(box.dtype());
  return std::vector<TensorBox>{finished(ctx, reduce_over(ctx, box, axes, ReductionKind::Min, t), ctx.result(0)),
                                finished(ctx, reduce_over(ctx, box, axes, ReductionKind::Max, t), ctx.result(1))};
}

struct Moments {
  Element mean, variance;
  Axes axes;
};

/// In two passes: the mean, then the mean of squared deviations from it.
Moments moments(Context& ctx, const TensorBox& box, DType t) {
  ir::realize_by_policy(box, 2, ctx.options.realize);
  const Axes axes = call_axes(ctx, box);
  const ops::Value* correction = named(ctx, "correction");
  const ops::Value* unbiased = named(ctx, "unbiased");
  const double minus = correction                         ? (correction->is_none() ? 1.0 : correction->as_double())
                       : unbiased && !unbiased->as_bool() ? 0.0
                                                          : 1.0;
  Element n = count_value(ctx, axes, t);
  const TensorBox sum = reduce_over(ctx, box, axes, ReductionKind::Sum, t);
  const TensorBox squares = reduce_over(ctx, box, axes, ReductionKind::Sum, t, [&](Element x) {
    Element deviation = x - reduced_value(ctx, sum, axes) / n;
    return deviation * deviation;
  });
  Element divisor = minus == 0 ? n : maximum(n - minus, 0.0);
  return {element(ctx, sum, axes.sizes) / n, element(ctx, squares, axes.sizes) / divisor, axes};
}

LoweringFunction spread(bool root, bool with_mean) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    const Moments m = moments(ctx, box, register_type(box.dtype()));
    Element v = root ? sqrt(m.variance) : m.variance;
    if (!with_mean) return result(ctx, v);
    return std::vector<TensorBox>{result(ctx, v, ctx.result(0)), result(ctx, m.mean, ctx.result(1))};
  };
}

Lowered vector_norm(Context& ctx, const TensorBox& box, double order) {
  const DType t = register_type(ctx.result().dtype);
  const Axes axes = call_axes(ctx, box);
  auto reduced = [&](ReductionKind kind, const std::function<Element(Element)>& f) {
    return element(ctx, reduce_over(ctx, box, axes, kind, t, f), axes.sizes);
  };
  if (order == 2) return result(ctx, sqrt(reduced(ReductionKind::Sum, [](Element x) { return x * x; })));
  if (order == 1) return result(ctx, reduced(ReductionKind::Sum, [](Element x) { return abs(x); }));
  if (order == 0) return result(ctx, reduced(ReductionKind::Sum, [t](Element x) { return ne(x, 0.0).cast(t); }));
  if (std::isinf(order))
    return result(ctx, reduced(order > 0 ? ReductionKind::Max : ReductionKind::Min, [](Element x) { return abs(x); }));
  return result(ctx, pow(reduced(ReductionKind::Sum, [&](Element x) { return pow(abs(x), order); }), 1 / order));
}

Lowered norm(Context& ctx, const Values& args) {
  return vector_norm(ctx, ctx.tensor(args[0]), args.size() < 2 || args[1].is_none() ? 2.0 : args[1].as_double());
}

Lowered logsumexp(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  ir::realize_by_policy(box, 2, ctx.options.realize);
  const Axes axes = call_axes(ctx, box);
  const DType t = register_type(ctx.result().dtype);
  const TensorBox high = reduce_over(ctx, box, axes, ReductionKind::Max, t);
  auto shift = [](Element m) { return where(isinf(m), m.number(0), m); };
  const TensorBox sum = reduce_over(ctx, box, axes, ReductionKind::Sum, t,
                                    [&](Element x) { return exp(x - shift(reduced_value(ctx, high, axes))); });
  return result(ctx, log(element(ctx, sum, axes.sizes)) + shift(element(ctx, high, axes.sizes)));
}

/// Matrix-vector and vector products: too small for a library to win anything.
Lowered dot(Context& ctx, const Values& args) {
  const TensorBox a = ctx.tensor(args[0]), b = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  const DType t = register_type(ctx.result().dtype);
  const Expr k = ctx.graph.rvar(0), length = b.sizes[0];
  Exprs index = ctx.graph.ivars(a.rank() - 1);
  index.push_back(k);
  Element product =
      element_at(ctx, a, index, sizes, {length}).cast(t) * element_at(ctx, b, {k}, sizes, {length}).cast(t);
  return finished(ctx, reduction(ctx, t, sizes, {length}, ReductionKind::Sum, product), ctx.result());
}

}  // namespace

void add_reductions(Table& t) {
  t["aten.sum.default"] = t["aten.sum.dim_IntList"] = simple(ReductionKind::Sum);
  t["aten.nansum.default"] = simple(ReductionKind::Sum, [](Element x) { return where(isnan(x), x.number(0), x); });
  t["aten.prod.default"] = t["aten.prod.dim_int"] = simple(ReductionKind::Prod);
  t["aten.amax.default"] = t["aten.max.default"] = simple(ReductionKind::Max);
  t["aten.amin.default"] = t["aten.min.default"] = simple(ReductionKind::Min);
  t["aten.any.default"] = t["aten.any.dim"] = t["aten._is_any_true.default"] = simple(ReductionKind::Any);
  t["aten.all.default"] = t["aten.all.dim"] = t["aten._is_all_true.default"] = simple(ReductionKind::All);
  t["aten.any.dims"] = over_list(ReductionKind::Any);
  t["aten.all.dims"] = over_list(ReductionKind::All);
  t["aten.count_nonzero.default"] =
      t["aten.count_nonzero.dim_IntList"] = [](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    return reduce_over(ctx, box, call_axes(ctx, box), ReductionKind::Sum, register_type(box.dtype()),
                       [](Element x) { return x.cast(DType::Bool).cast(DType::I64); });
  };
  t["aten.hash_tensor.default"] = hash;
  t["aten.mean.default"] = t["aten.mean.dim"] = mean;
  t["aten.argmax.default"] = position(ReductionKind::ArgMax);
  t["aten.argmin.default"] = position(ReductionKind::ArgMin);
  t["aten.max.dim"] = value_and_position(ReductionKind::Max, ReductionKind::ArgMax);
  t["aten.min.dim"] = value_and_position(ReductionKind::Min, ReductionKind::ArgMin);
  t["aten.aminmax.default"] = aminmax;
  for (const char* overload : {"correction", "dim", "default"}) {
    t[fmt::format("aten.var.{}", overload)] = spread(false, false);
    t[fmt::format("aten.std.{}", overload)] = spread(true, false);
    t[fmt::format("aten.var_mean.{}", overload)] = spread(false, true);
    t[fmt::format("aten.std_mean.{}", overload)] = spread(true, true);
  }
  t["aten.linalg_vector_norm.default"] = t["aten.norm.ScalarOpt_dim"] = t["aten.norm.Scalar"] =
      t["aten.norm.ScalarOpt_dtype"] = t["aten.norm.ScalarOpt_dim_dtype"] = norm;
  t["aten.logsumexp.default"] = logsumexp;
  t["aten.mv.default"] = t["aten.dot.default"] = t["aten.vdot.default"] = dot;
}

}  // namespace coil::lowering
