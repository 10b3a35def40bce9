// Gradients of softmax and of the normalizations: sums over rows or columns, and arithmetic that reads the rows again.
// Everything is computed from what forward kept, so that no intermediate of the input's size is stored.
#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// Dimensions reduced and how operands that broadcast against the input are read there.
class Sums {
 public:
  /// Over every dimension of `sizes` for which `reduced` holds; those stay as 1 with `keep`.
  Sums(Context& ctx, const TensorBox& like, const std::vector<std::int64_t>& dims, bool keep)
      : ctx_(ctx), axes_(reduced_axes(ctx, like, dims, keep)) {}

  /// An operand at the reduced index; dimensions of size 1 repeat.
  Element at(const TensorBox& box, DType t) const {
    const std::size_t lead = axes_.index.size() - box.rank();
    Exprs index;
    for (std::size_t d = 0; d < box.rank(); ++d)
      index.push_back(box.sizes[d].is_constant(1) ? Expr(0) : axes_.index[lead + d]);
    return element_at(ctx_, box, index, axes_.sizes, axes_.reduced).cast(t);
  }
  /// One for each channel: dimension 1.
  Element at_channel(const TensorBox& box, DType t) const {
    return element_at(ctx_, box, {axes_.index[1]}, axes_.sizes, axes_.reduced).cast(t);
  }
  TensorBox sum(Element body) const {
    return reduction(ctx_, body.dtype(), axes_.sizes, axes_.reduced, ReductionKind::Sum, body);
  }
  const Exprs& index() const { return axes_.index; }
  const Exprs& sizes() const { return axes_.sizes; }
  const Exprs& reduced() const { return axes_.reduced; }
  /// 1 / (elements of one sum).
  Element inverse_count(DType t) const {
    if (auto n = axes_.count.constant()) return number(ctx_, t, 1.0 / static_cast<double>(*n));
    return number(ctx_, t, 1) / index_value(ctx_, axes_.count).cast(t);
  }

 private:
  Context& ctx_;
  Axes axes_;
};

bool wanted(const Values& args, std::size_t i) { return args.back().as_list().at(i).as_bool(); }

/// Operands that several of the loops read are computed once.
TensorBox shared(Context& ctx, const ops::Value& arg) {
  TensorBox box = ctx.tensor(arg);
  ir::realize_by_policy(box, 2, ctx.options.realize);
  return box;
}

/// _softmax_backward_data, _log_softmax_backward_data(grad, output, dim, input_dtype)
Lowered softmax_backward(Context& ctx, const Values& args, bool logarithm) {
  const TensorBox grad = shared(ctx, args[0]), output = shared(ctx, args[1]);
  const DType t = register_type(output.dtype());
  const Exprs& sizes = output.sizes;
  const Sums rows(ctx, output, {constant(ctx, args[2])}, true);
  const Element g = element(ctx, grad, sizes).cast(t), y = element(ctx, output, sizes).cast(t);
  if (logarithm) {
    const TensorBox sum = rows.sum(rows.at(grad, t));
    return result(ctx, g - exp(y) * element(ctx, sum, sizes));
  }
  const TensorBox sum = rows.sum(rows.at(grad, t) * rows.at(output, t));
  return result(ctx, (g - element(ctx, sum, sizes)) * y);
}

std::vector<std::int64_t> leading(std::size_t n) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < n; ++d) dims.push_back(static_cast<std::int64_t>(d));
  return dims;
}

std::vector<std::int64_t> trailing(std::size_t rank, std::size_t n) {
  std::vector<std::int64_t> dims;
  for (std::size_t d = rank - n; d < rank; ++d) dims.push_back(static_cast<std::int64_t>(d));
  return dims;
}

/// The sum over the dimensions before the normalized ones, in the parameter's type.
TensorBox parameter_gradient(Context& ctx, const Sums& columns, Element body, std::size_t i) {
  return result(ctx, element(ctx, columns.sum(body), ctx.result(i).sizes), ctx.result(i));
}

/// Of x̂ = (x - mean) * rstd (mean is absent in RMS normalization), y = x̂ * weight + bias:
/// dx = rstd * (g·w - avg(g·w) - x̂ * avg(g·w·x̂)), dweight = sum(g·x̂), dbias = sum(g).
Lowered row_norm_backward(Context& ctx, const Values& args, std::size_t count, std::optional<TensorBox> mean,
                          const TensorBox& rstd, const ops::Value& weight_argument) {
  const TensorBox grad = shared(ctx, args[0]), input = shared(ctx, args[1]);
  const auto weight = ctx.optional_tensor(weight_argument);
  const std::size_t rank = input.rank(), results = args.back().as_list().size();
  const DType t = register_type(input.dtype());
  std::vector<TensorBox> made(results);
  auto normalized = [&](const std::function<Element(const TensorBox&)>& at) {
    Element x = at(input);
    if (mean) x = x - at(*mean);
    return x * at(rstd);
  };
  auto weighted = [&](const std::function<Element(const TensorBox&)>& at) {
    return weight ? at(grad) * at(*weight) : at(grad);
  };
  if (wanted(args, 0)) {
    const Sums rows(ctx, input, trailing(rank, count), true);
    auto in_row = [&](const TensorBox& b) { return rows.at(b, t); };
    auto here = [&](const TensorBox& b) { return element(ctx, b, input.sizes).cast(t); };
    const TensorBox product = rows.sum(weighted(in_row) * normalized(in_row));
    Element dx = weighted(here) - normalized(here) * (element(ctx, product, input.sizes) * rows.inverse_count(t));
    if (mean) dx = dx - element(ctx, rows.sum(weighted(in_row)), input.sizes) * rows.inverse_count(t);
    made[0] = result(ctx, dx * here(rstd), ctx.result(0));
  }
  const Sums columns(ctx, input, leading(rank - count), false);
  auto in_column = [&](const TensorBox& b) { return columns.at(b, t); };
  // Nothing to sum over: one row.
  const bool one_row = rank == count;
  auto sum_of = [&](const std::function<Element(const std::function<Element(const TensorBox&)>&)>& body,
                    std::size_t i) {
    if (one_row)
      return result(ctx, body([&](const TensorBox& b) { return element(ctx, b, input.sizes).cast(t); }), ctx.result(i));
    return parameter_gradient(ctx, columns, body(in_column), i);
  };
  using At = std::function<Element(const TensorBox&)>;
  if (wanted(args, 1) && weight) made[1] = sum_of([&](const At& at) { return at(grad) * normalized(at); }, 1);
  if (results > 2 && wanted(args, 2) && !ctx.node->arg("bias").is_none())
    made[2] = sum_of([&](const At& at) { return at(grad); }, 2);
  return made;
}

/// native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, output_mask)
Lowered layer_norm_backward(Context& ctx, const Values& args) {
  return row_norm_backward(ctx, args, args[2].as_list().size(), ctx.tensor(args[3]), ctx.tensor(args[4]), args[5]);
}

/// _fused_rms_norm_backward(grad, input, normalized_shape, rstd, weight, output_mask)
Lowered rms_norm_backward(Context& ctx, const Values& args) {
  return row_norm_backward(ctx, args, args[2].as_list().size(), std::nullopt, ctx.tensor(args[3]), args[4]);
}

/// native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
/// output_mask)
Lowered batch_norm_backward(Context& ctx, const Values& args) {
  const TensorBox grad = shared(ctx, args[0]), input = shared(ctx, args[1]);
  const auto weight = ctx.optional_tensor(args[2]);
  const DType t = register_type(input.dtype());
  const bool train = args[7].as_bool();
  const Expr channels = input.sizes[1];
  TensorBox mean, inverse;
  if (train) {
    mean = ctx.tensor(args[5]);
    inverse = ctx.tensor(args[6]);
  } else {
    mean = ctx.tensor(args[3]);
    inverse = pointwise(ctx, t, {channels},
                        rsqrt(element(ctx, ctx.tensor(args[4]), {channels}).cast(t) + args[8].as_double()));
    inverse.realize();
  }
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < input.rank(); ++d)
    if (d != 1) dims.push_back(static_cast<std::int64_t>(d));
  const Sums channel(ctx, input, dims, false);
  auto deviation_in = [&] {
    return channel.at(input, t) -
           element_at(ctx, mean, {ctx.graph.ivar(0)}, channel.sizes(), channel.reduced()).cast(t);
  };
  std::vector<TensorBox> made(3);
  const bool statistics = wanted(args, 0) && train;
  TensorBox sum, product;
  if (statistics || wanted(args, 2)) sum = channel.sum(channel.at(grad, t));
  if (statistics || wanted(args, 1)) product = channel.sum(channel.at(grad, t) * deviation_in());
  if (wanted(args, 0)) {
    const Exprs& sizes = input.sizes;
    auto at = [&](const TensorBox& b) { return element_at(ctx, b, {ctx.graph.ivar(1)}, sizes).cast(t); };
    Element dx = element(ctx, grad, sizes).cast(t), scale = at(inverse);
    if (train) {
      // What is the same for a whole channel is computed for each channel once.
      auto each = [&](const TensorBox& b) { return element(ctx, b, {channels}).cast(t); };
      const TensorBox slope =
          pointwise(ctx, t, {channels}, each(product) * each(inverse) * each(inverse) * channel.inverse_count(t));
      slope.realize();
      dx = dx - (element(ctx, input, sizes).cast(t) - at(mean)) * at(slope) - at(sum) * channel.inverse_count(t);
    }
    if (weight) scale = scale * at(*weight);
    made[0] = result(ctx, dx * scale, ctx.result(0));
  }
  if (wanted(args, 1))
    made[1] = result(ctx, element(ctx, product, {channels}) * element(ctx, inverse, {channels}).cast(t), ctx.result(1));
  if (wanted(args, 2)) made[2] = result(ctx, element(ctx, sum, {channels}), ctx.result(2));
  return made;
}

/// native_group_norm_backward(grad, input, mean, rstd, weight, N, C, HxW, group, output_mask): sums over space for each
/// channel of each image first, since groups and parameters both sum those.
Lowered group_norm_backward(Context& ctx, const Values& args) {
  const TensorBox grad = shared(ctx, args[0]), input = shared(ctx, args[1]), mean = ctx.tensor(args[2]),
                  rstd = ctx.tensor(args[3]);
  const auto weight = ctx.optional_tensor(args[4]);
  const DType t = register_type(input.dtype());
  const Expr images = input.sizes[0], channels = input.sizes[1], groups = ctx.integer(args[8]);
  const Expr per_group = ctx.graph.env().simplify(sym::floor_div(channels, groups));
  const Expr n = ctx.graph.ivar(0), c = ctx.graph.ivar(1);
  std::vector<std::int64_t> space = trailing(input.rank(), input.rank() - 2);
  const Exprs planes = {images, channels};
  TensorBox sum, product;  // of g and of g * (x - mean) * rstd
  auto row = [&](const TensorBox& b, const Exprs& sizes, const Exprs& reduced) {
    return element_at(ctx, b, {n, sym::floor_div(c, per_group)}, sizes, reduced).cast(t);
  };
  if (space.empty()) {
    Element g = element(ctx, grad, planes).cast(t);
    sum = pointwise(ctx, t, planes, g);
    product = pointwise(ctx, t, planes,
                        g * (element(ctx, input, planes).cast(t) - row(mean, planes, {})) * row(rstd, planes, {}));
    sum.realize(), product.realize();
  } else {
    const Sums over(ctx, input, space, false);
    sum = over.sum(over.at(grad, t));
    product = over.sum(over.at(grad, t) * (over.at(input, t) - row(mean, over.sizes(), over.reduced())) *
                       row(rstd, over.sizes(), over.reduced()));
  }
  std::vector<TensorBox> made(3);
  if (wanted(args, 0)) {
    const Exprs by_group = {images, groups}, in_group = {per_group};
    auto of_group = [&](const TensorBox& plane) {
      const Expr channel = ctx.graph.ivar(1) * per_group + ctx.graph.rvar(0);
      Element v = element_at(ctx, plane, {n, channel}, by_group, in_group);
      if (weight) v = v * element_at(ctx, *weight, {channel}, by_group, in_group).cast(t);
      return reduction(ctx, t, by_group, in_group, ReductionKind::Sum, v);
    };
    const TensorBox g_sum = of_group(sum), g_product = of_group(product);
    Expr count = per_group;
    for (std::size_t d = 2; d < input.rank(); ++d) count *= input.sizes[d];
    Element factor = count.is_constant() ? number(ctx, t, 1.0 / static_cast<double>(*count.constant()))
                                         : number(ctx, t, 1) / index_value(ctx, count).cast(t);
    const Exprs& sizes = input.sizes;
    Element g = element(ctx, grad, sizes).cast(t),
            x = (element(ctx, input, sizes).cast(t) - row(mean, sizes, {})) * row(rstd, sizes, {});
    if (weight) g = g * element_at(ctx, *weight, {c}, sizes).cast(t);
    made[0] = result(ctx, row(rstd, sizes, {}) * (g - (row(g_sum, sizes, {}) + x * row(g_product, sizes, {})) * factor),
                     ctx.result(0));
  }
  auto of_channel = [&](const TensorBox& plane, std::size_t i) {
    const TensorBox total =
        reduction(ctx, t, {channels}, {images}, ReductionKind::Sum,
                  element_at(ctx, plane, {ctx.graph.rvar(0), ctx.graph.ivar(0)}, {channels}, {images}));
    return result(ctx, element(ctx, total, {channels}), ctx.result(i));
  };
  if (wanted(args, 1)) made[1] = of_channel(product, 1);
  if (wanted(args, 2)) made[2] = of_channel(sum, 2);
  return made;
}

}  // namespace

void add_normalization_gradients(Table& t) {
  t["aten._softmax_backward_data.default"] = [](Context& ctx, const Values& args) {
    return softmax_backward(ctx, args, false);
  };
  t["aten._log_softmax_backward_data.default"] = [](Context& ctx, const Values& args) {
    return softmax_backward(ctx, args, true);
  };
  t["aten.native_layer_norm_backward.default"] = layer_norm_backward;
  t["aten._fused_rms_norm_backward.default"] = rms_norm_backward;
  t["aten.native_batch_norm_backward.default"] = batch_norm_backward;
  t["aten.native_group_norm_backward.default"] = group_norm_backward;
}

}  // namespace coil::lowering
