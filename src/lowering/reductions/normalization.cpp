// Softmax and the normalizations: reductions over rows followed by arithmetic that reads the rows again.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// Axes over the trailing `count` dimensions, kept as 1, of rows that are read again.
Axes trailing_axes(Context& ctx, const TensorBox& box, std::size_t count) {
  std::vector<std::int64_t> dims;
  for (std::size_t k = 0; k < count; ++k) dims.push_back(static_cast<std::int64_t>(box.rank() - 1 - k));
  Axes axes = reduced_axes(ctx, box, dims, true);
  axes.again = ir::ReadAgain::Yes;
  return axes;
}

/// 1/count as a factor: exact for constants that are powers of two, within an ulp otherwise.
Element inverse(Context& ctx, Expr count, DType t) {
  if (auto n = count.constant()) return number(ctx, t, 1.0 / static_cast<double>(*n));
  return number(ctx, t, 1) / index_value(ctx, count).cast(t);
}

/// A small value that the loops after it read: computed once for each row.
TensorBox per_row(Context& ctx, const Exprs& sizes, Element v) {
  TensorBox box = pointwise(ctx, v.dtype(), sizes, v);
  box.realize();
  return box;
}

Lowered softmax(Context& ctx, const Values& args, bool logarithm) {
  const TensorBox box = ctx.tensor(args[0]);
  if (box.rank() == 0) {
    const Element x = element(ctx, box, {}).cast(register_type(ctx.result().dtype));
    const Element nan = x.number(std::numeric_limits<double>::quiet_NaN());
    return result(ctx, where(lt(abs(x), std::numeric_limits<double>::infinity()), x.number(logarithm ? 0 : 1), nan));
  }
  ir::realize_by_policy(box, 2, ctx.options.realize);
  Axes axes = reduced_axes(ctx, box, {constant(ctx, args[1])}, true);
  axes.again = ir::ReadAgain::Yes;
  const Exprs& sizes = box.sizes;
  const DType t = register_type(ctx.result().dtype);
  const TensorBox high = reduce_over(ctx, box, axes, ReductionKind::Max, t);
  if (logarithm) {
    const TensorBox sum = reduce_over(ctx, box, axes, ReductionKind::Sum, t,
                                      [&](Element x) { return exp(x - reduced_value(ctx, high, axes)); });
    const TensorBox log_sum = per_row(ctx, axes.sizes, log(element(ctx, sum, axes.sizes)));
    return result(ctx, element(ctx, box, sizes).cast(t) - element(ctx, high, sizes) - element(ctx, log_sum, sizes));
  }
  const TensorBox exponential =
      pointwise(ctx, t, sizes, exp(element(ctx, box, sizes).cast(t) - element(ctx, high, sizes)),
                box.storage->strides.size() == sizes.size() ? box.storage->strides : Exprs{});
  exponential.realize();
  const TensorBox sum = reduce_over(ctx, exponential, axes, ReductionKind::Sum, t);
  if (t != DType::F32 || ctx.target().has(target::Feature::FastDivision))
    return result(ctx, element(ctx, exponential, sizes) / element(ctx, sum, sizes));
  // One division a row: the sum is at least 1, so that its reciprocal costs half an ulp more and nothing else.
  return result(ctx, element(ctx, exponential, sizes) *
                         element(ctx, per_row(ctx, axes.sizes, recip(element(ctx, sum, axes.sizes))), sizes));
}

/// Mean and reciprocal standard deviation over `axes`, in the register type.
struct Statistics {
  TensorBox mean, rstd;
};

Statistics statistics(Context& ctx, const TensorBox& box, const Axes& axes, DType t, double eps) {
  Element factor = inverse(ctx, axes.count, t);
  const TensorBox sum = reduce_over(ctx, box, axes, ReductionKind::Sum, t);
  const TensorBox mean = pointwise(ctx, t, axes.sizes, element(ctx, sum, axes.sizes) * factor);
  const TensorBox squares = reduce_over(ctx, box, axes, ReductionKind::Sum, t, [&](Element x) {
    Element deviation = x - reduced_value(ctx, mean, axes);
    return deviation * deviation;
  });
  return {mean, per_row(ctx, axes.sizes, rsqrt(element(ctx, squares, axes.sizes) * factor + eps))};
}

/// (x - mean) * rstd * weight + bias, with absent weight or bias left out.
Element affine(Element x, Element mean, Element rstd, const std::optional<TensorBox>& weight,
               const std::optional<TensorBox>& bias, const std::function<Element(const TensorBox&)>& at) {
  Element y = (x - mean) * rstd;
  if (weight) y = y * at(*weight).cast(y.dtype());
  if (bias) y = y + at(*bias).cast(y.dtype());
  return y;
}

Lowered layer_norm(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t count = args[1].as_list().size();
  ir::realize_by_policy(box, 2, ctx.options.realize);
  const Axes axes = trailing_axes(ctx, box, count);
  const sym::TensorMeta& meta = ctx.result(0);
  const DType t = register_type(meta.dtype);
  const Statistics s = statistics(ctx, box, axes, t, args[4].as_double());
  auto at = [&](const TensorBox& b) { return element(ctx, b, meta.sizes); };
  Element y =
      affine(at(box).cast(t), at(s.mean), at(s.rstd), ctx.optional_tensor(args[2]), ctx.optional_tensor(args[3]), at);
  return std::vector<TensorBox>{result(ctx, y, meta),
                                result(ctx, element(ctx, s.mean, ctx.result(1).sizes), ctx.result(1)),
                                result(ctx, element(ctx, s.rstd, ctx.result(2).sizes), ctx.result(2))};
}

/// x * rsqrt(mean(x²) + eps) * weight
Lowered rms_norm(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const bool several = ctx.node->meta.value.is<Values>();
  const sym::TensorMeta& meta = several ? ctx.result(0) : ctx.result();
  const DType t = register_type(meta.dtype);
  ir::realize_by_policy(box, 2, ctx.options.realize);
  const Axes axes = trailing_axes(ctx, box, args[1].as_list().size());
  double eps = t == DType::F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  if (!args[3].is_none()) eps = args[3].as_double();
  const TensorBox squares = reduce_over(ctx, box, axes, ReductionKind::Sum, t, [](Element x) { return x * x; });
  const TensorBox rstd =
      per_row(ctx, axes.sizes, rsqrt(element(ctx, squares, axes.sizes) * inverse(ctx, axes.count, t) + eps));
  Element y = element(ctx, box, meta.sizes).cast(t) * element(ctx, rstd, meta.sizes);
  if (auto weight = ctx.optional_tensor(args[2])) y = y * element(ctx, *weight, meta.sizes).cast(t);
  if (!several) return result(ctx, y);
  return std::vector<TensorBox>{result(ctx, y, meta),
                                result(ctx, element(ctx, rstd, ctx.result(1).sizes), ctx.result(1))};
}

/// native_group_norm(input, weight, bias, N, C, HxW, group, eps): channels are split in groups, statistics run over a
/// group and space.
Lowered group_norm(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const sym::TensorMeta& meta = ctx.result(0);
  const DType t = register_type(meta.dtype);
  const Expr groups = ctx.integer(args[6]), per_group = sym::floor_div(box.sizes[1], groups);
  ir::realize_by_policy(box, 2, ctx.options.realize);
  Exprs split = box.sizes;
  split[1] = groups;
  split.insert(split.begin() + 2, per_group);
  const TensorBox grouped = reshape(ctx, box, split);
  std::vector<std::int64_t> dims;
  for (std::size_t d = 2; d < grouped.rank(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  Axes axes = reduced_axes(ctx, grouped, dims, false);
  axes.again = ir::ReadAgain::Yes;
  const Statistics s = statistics(ctx, grouped, axes, t, args[7].as_double());
  const Expr n = ctx.graph.ivar(0), c = ctx.graph.ivar(1);
  auto row = [&](const TensorBox& b) { return element_at(ctx, b, {n, sym::floor_div(c, per_group)}, meta.sizes); };
  auto channel = [&](const TensorBox& b) { return element_at(ctx, b, {c}, meta.sizes); };
  Element y = affine(element(ctx, box, meta.sizes).cast(t), row(s.mean), row(s.rstd), ctx.optional_tensor(args[1]),
                     ctx.optional_tensor(args[2]), channel);
  return std::vector<TensorBox>{result(ctx, y, meta),
                                result(ctx, element(ctx, s.mean, ctx.result(1).sizes), ctx.result(1)),
                                result(ctx, element(ctx, s.rstd, ctx.result(2).sizes), ctx.result(2))};
}

/// Statistics per channel (dimension 1): those of the batch, or the running ones.
Lowered batch_norm(Context& ctx, const Values& args, bool training) {
  const TensorBox box = ctx.tensor(args[0]);
  const sym::TensorMeta& meta = ctx.result(0);
  const DType t = register_type(meta.dtype);
  const Expr channels = box.sizes[1];
  auto channel = [&](const TensorBox& b) { return element_at(ctx, b, {ctx.graph.ivar(1)}, meta.sizes); };
  auto weight = ctx.optional_tensor(args[1]), bias = ctx.optional_tensor(args[2]);
  const double eps = args.back().as_double();
  if (!training) {
    const TensorBox mean = ctx.tensor(args[3]);
    const TensorBox rstd = per_row(ctx, {channels}, rsqrt(element(ctx, ctx.tensor(args[4]), {channels}).cast(t) + eps));
    Element y =
        affine(element(ctx, box, meta.sizes).cast(t), channel(mean).cast(t), channel(rstd), weight, bias, channel);
    // Eager gives nothing beside it on a CPU, and the running statistics on a GPU.
    auto beside = [&](std::size_t k, const TensorBox& running) {
      const sym::TensorMeta& as = ctx.result(k);
      const bool empty = as.sizes.at(0).is_constant(0);
      return result(ctx, empty ? number(ctx, register_type(as.dtype), 0) : element(ctx, running, {channels}), as);
    };
    return std::vector<TensorBox>{result(ctx, y, meta), beside(1, mean), beside(2, rstd)};
  }
  ir::realize_by_policy(box, 2, ctx.options.realize);
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < box.rank(); ++d)
    if (d != 1) dims.push_back(static_cast<std::int64_t>(d));
  const Axes axes = reduced_axes(ctx, box, dims, false);
  const Statistics s = statistics(ctx, box, axes, t, eps);
  Element y = affine(element(ctx, box, meta.sizes).cast(t), channel(s.mean), channel(s.rstd), weight, bias, channel);
  std::vector<TensorBox> results{result(ctx, y, meta), result(ctx, element(ctx, s.mean, {channels}), ctx.result(1)),
                                 result(ctx, element(ctx, s.rstd, {channels}), ctx.result(2))};
  if (ctx.node->meta.value.as_list().size() < 5) return results;
  // The functional form also gives the new running statistics; the variance among them is unbiased.
  const double momentum = args[6].as_double();
  auto running = [&](std::size_t i, Element now) {
    return element(ctx, ctx.tensor(args[i]), {channels}).cast(t) * (1 - momentum) + now * momentum;
  };
  Element rstd = element(ctx, s.rstd, {channels}), n = index_value(ctx, axes.count).cast(t);
  Element variance = (1.0 / (rstd * rstd) - eps) * (n / (n - 1.0));
  results.push_back(result(ctx, running(3, element(ctx, s.mean, {channels})), ctx.result(3)));
  results.push_back(result(ctx, running(4, variance), ctx.result(4)));
  return results;
}

}  // namespace

void add_normalization(Table& t) {
  t["aten._softmax.default"] =
      t["aten.softmax.int"] = [](Context& ctx, const Values& args) { return softmax(ctx, args, false); };
  t["aten._log_softmax.default"] =
      t["aten.log_softmax.int"] = [](Context& ctx, const Values& args) { return softmax(ctx, args, true); };
  t["aten.native_layer_norm.default"] = layer_norm;
  t["aten._fused_rms_norm.default"] = t["aten.rms_norm.default"] = rms_norm;
  t["aten.native_group_norm.default"] = group_norm;
  t["aten._native_batch_norm_legit_no_training.default"] = [](Context& ctx, const Values& args) {
    return batch_norm(ctx, args, false);
  };
  t["aten._native_batch_norm_legit_functional.default"] = [](Context& ctx, const Values& args) {
    return batch_norm(ctx, args, true);
  };
}

}  // namespace coil::lowering
