// Gradients of pooling, padding and interpolation. Pooling gathers: each place of the input sums over the windows that
// cover it, so that threads share the work and results do not depend on them. Interpolation gathers too, one dimension
// after the other, where its steps are the quotient of two sizes. Padding, and interpolation by other factors and by
// cubic weights, scatter from each place of the result to the places it came from.
#include "lowering/common.h"
#include "lowering/windows/interpolation.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;
using Ints = std::vector<std::int64_t>;

/// The windows that may cover a place of the input, counted by r0, r1, …
struct Covering {
  Exprs sizes, reduced;
  Exprs window;    ///< index of the window in the result's last dimensions
  Exprs index;     ///< of an element of the gradient: the place's own leading dimensions, then `window`
  Element inside;  ///< whether there is such a window
};

Expr bounded(Context& ctx, const Covering& c, Expr bound) {
  return ctx.graph.env().simplify(bound, loop_vars(ctx.graph, c.sizes, c.reduced));
}
void require(Context& ctx, Covering& c, Expr bound) { c.inside = c.inside & condition(ctx, bounded(ctx, c, bound)); }

void finish(Context& ctx, Covering& c, const TensorBox& grad, std::size_t lead) {
  c.index = ctx.graph.ivars(lead);
  c.index.insert(c.index.end(), c.window.begin(), c.window.end());
  for (std::size_t d = 0; d < c.window.size(); ++d) {
    require(ctx, c, sym::ge(c.window[d], 0));
    require(ctx, c, sym::lt(c.window[d], grad.sizes[lead + d]));
  }
}

/// Windows of `kernel` elements, `dilation` apart, every `stride` elements from -padding on: those that begin at or
/// before a place, the last first, as far back as a window reaches.
Covering fixed_windows(Context& ctx, const TensorBox& grad, const Exprs& sizes, const Ints& kernel, const Ints& stride,
                       const Ints& padding, const Ints& dilation, bool exact) {
  const std::size_t n = kernel.size(), lead = sizes.size() - n;
  Covering c{sizes, {}, {}, {}, condition(ctx, 1)};
  for (std::size_t d = 0; d < n; ++d) c.reduced.push_back(dilation[d] * (kernel[d] - 1) / stride[d] + 1);
  for (std::size_t d = 0; d < n; ++d) {
    const Expr at = ctx.graph.ivar(lead + d) + padding[d];
    c.window.push_back(ctx.graph.env().simplify(sym::floor_div(at, stride[d]) - ctx.graph.rvar(d),
                                                loop_vars(ctx.graph, c.sizes, c.reduced)));
    const Expr within = at - c.window[d] * stride[d];
    if (exact) require(ctx, c, sym::le(within, dilation[d] * (kernel[d] - 1)));
    if (exact && dilation[d] != 1) require(ctx, c, sym::eq(sym::mod(within, dilation[d]), 0));
  }
  finish(ctx, c, grad, lead);
  return c;
}

/// Windows from floor(i*in/out) to ceil((i+1)*in/out): those from floor(h*out/in) on.
Covering adaptive_windows(Context& ctx, const TensorBox& grad, const Exprs& sizes, std::size_t n) {
  const std::size_t lead = sizes.size() - n;
  Covering c{sizes, {}, {}, {}, condition(ctx, 1)};
  for (std::size_t d = 0; d < n; ++d) {
    const Expr in = sizes[lead + d], out = grad.sizes[lead + d];
    const bool apart = ctx.graph.env().statically_known_multiple_of(in, out);
    c.reduced.push_back(apart ? Expr(1) : sym::ceil_div(out, in) + 1);
  }
  for (std::size_t d = 0; d < n; ++d) {
    const Expr in = sizes[lead + d], out = grad.sizes[lead + d], h = ctx.graph.ivar(lead + d);
    c.window.push_back(sym::floor_div(h * out, in) + ctx.graph.rvar(d));
    if (!c.reduced[d].is_constant(1)) require(ctx, c, sym::le(sym::floor_div(c.window[d] * in, out), h));
  }
  finish(ctx, c, grad, lead);
  return c;
}

/// The gradient of each window, or what `f` makes of it, summed over the windows.
Lowered summed(Context& ctx, const TensorBox& grad, const Covering& c, const std::function<Element(Element)>& f) {
  const sym::TensorMeta& meta = ctx.result();
  const DType t = register_type(meta.dtype);
  Element g = f(element_at(ctx, grad, c.index, c.sizes, c.reduced, c.inside).cast(t));
  const TensorBox sum = reduction(ctx, t, c.sizes, c.reduced, ReductionKind::Sum, where(c.inside, g, g.number(0)),
                                  t == meta.dtype ? meta.strides : Exprs{});
  return t == meta.dtype ? sum : result(ctx, element(ctx, sum, c.sizes));
}

/// The place of the input in the last `n` dimensions as one number, as pooling's indices count it.
Element place_in_plane(Context& ctx, const Exprs& sizes, std::size_t n) {
  const std::size_t lead = sizes.size() - n;
  Expr flat = 0;
  for (std::size_t d = 0; d < n; ++d) flat = flat * sizes[lead + d] + ctx.graph.ivar(lead + d);
  return index_value(ctx, flat);
}

Lowered where_chosen(Context& ctx, const TensorBox& grad, const TensorBox& indices, const Covering& c, std::size_t n) {
  Element chosen = element_at(ctx, indices, c.index, c.sizes, c.reduced, c.inside).cast(DType::I64),
          here = place_in_plane(ctx, c.sizes, n);
  return summed(ctx, grad, c, [&](Element g) { return where(eq(chosen, here), g, g.number(0)); });
}

TensorBox realized(Context& ctx, const ops::Value& arg) {
  TensorBox box = ctx.tensor(arg);
  box.realize();
  return box;
}

/// max_pool_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil_mode, indices)
LoweringFunction max_pool_backward(std::size_t n) {
  return [n](Context& ctx, const Values& args) -> Lowered {
    const TensorBox grad = realized(ctx, args[0]), indices = realized(ctx, args[7]);
    const Ints kernel = spread(constants(ctx, args[2]), n);
    Ints stride = constants(ctx, args[3]);
    if (stride.empty()) stride = kernel;
    const Covering c = fixed_windows(ctx, grad, ctx.result().sizes, kernel, spread(stride, n),
                                     spread(constants(ctx, args[4]), n), spread(constants(ctx, args[5]), n), false);
    return where_chosen(ctx, grad, indices, c, n);
  };
}

/// avg_pool_backward(grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
LoweringFunction average_pool_backward(std::size_t n) {
  return [n](Context& ctx, const Values& args) -> Lowered {
    const TensorBox grad = realized(ctx, args[0]);
    const Exprs& sizes = ctx.result().sizes;
    const std::size_t lead = sizes.size() - n;
    const Ints kernel = spread(constants(ctx, args[2]), n), padding = spread(constants(ctx, args[4]), n);
    Ints stride = constants(ctx, args[3]);
    if (stride.empty()) stride = kernel;
    stride = spread(stride, n);
    const Covering c = fixed_windows(ctx, grad, sizes, kernel, stride, padding, Ints(n, 1), true);
    Expr count = 1;
    for (std::size_t d = 0; d < n; ++d) {
      const Expr size = sizes[lead + d], start = c.window[d] * stride[d] - padding[d],
                 end = sym::min(start + kernel[d], size + padding[d]);
      count *= args[6].as_bool() ? end - start : sym::min(end, size) - sym::max(start, 0);
    }
    if (!args[7].is_none()) count = ctx.integer(args[7]);
    Element divisor = index_value(ctx, bounded(ctx, c, count)).cast(register_type(ctx.result().dtype));
    return summed(ctx, grad, c, [&](Element g) { return g / divisor; });
  };
}

/// _adaptive_avg_pool_backward(grad, self)
LoweringFunction adaptive_average_backward(std::size_t n) {
  return [n](Context& ctx, const Values& args) -> Lowered {
    const TensorBox grad = realized(ctx, args[0]);
    const Exprs& sizes = ctx.result().sizes;
    const std::size_t lead = sizes.size() - n;
    const Covering c = adaptive_windows(ctx, grad, sizes, n);
    Expr count = 1;
    for (std::size_t d = 0; d < n; ++d) {
      const Expr in = sizes[lead + d], out = grad.sizes[lead + d];
      count *= sym::ceil_div((c.window[d] + 1) * in, out) - sym::floor_div(c.window[d] * in, out);
    }
    Element divisor = index_value(ctx, bounded(ctx, c, count)).cast(register_type(ctx.result().dtype));
    return summed(ctx, grad, c, [&](Element g) { return g / divisor; });
  };
}

/// adaptive_max_pool_backward(grad, self, indices)
LoweringFunction adaptive_max_backward(std::size_t n) {
  return [n](Context& ctx, const Values& args) -> Lowered {
    const TensorBox grad = realized(ctx, args[0]), indices = realized(ctx, args[2]);
    return where_chosen(ctx, grad, indices, adaptive_windows(ctx, grad, ctx.result().sizes, n), n);
  };
}

/// unfold_backward(grad, input_sizes, dim, size, step): windows of `size`, every `step`, lie along `dim`, their
/// elements along the last dimension.
Lowered unfold_backward(Context& ctx, const Values& args) {
  const TensorBox grad = realized(ctx, args[0]);
  const Exprs& sizes = ctx.result().sizes;
  if (sizes.empty()) return result(ctx, element_at(ctx, grad, {0}, sizes));
  const std::size_t dim = dimension(ctx, args[2], sizes.size());
  const std::int64_t size = constant(ctx, args[3]), step = constant(ctx, args[4]);
  Covering c{sizes, {Expr((size + step - 1) / step)}, {}, ctx.graph.ivars(sizes.size()), condition(ctx, 1)};
  const Expr at = ctx.graph.ivar(dim), window = sym::floor_div(at, step) - ctx.graph.rvar(0),
             within = at - window * step;
  for (Expr bound : {sym::ge(window, 0), sym::lt(window, grad.sizes[dim]), sym::lt(within, size)})
    require(ctx, c, bound);
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (d != dim && grad.sizes[d].is_constant(1)) c.index[d] = 0;  // windows that all of the dimension share
  c.index[dim] = bounded(ctx, c, window);
  c.index.push_back(bounded(ctx, c, within));
  return summed(ctx, grad, c, [](Element g) { return g; });
}

/// Zeros in the type that sums are kept in, to be scattered into.
TensorBox zeros(Context& ctx) {
  const sym::TensorMeta& meta = ctx.result();
  const DType t = register_type(meta.dtype);
  TensorBox box = pointwise(ctx, t, meta.sizes, number(ctx, t, 0), meta.strides);
  box.realize();
  return box;
}

/// reflection_pad_backward, replication_pad_backward(grad, self, padding)
LoweringFunction edge_pad_backward(bool reflect) {
  return [reflect](Context& ctx, const Values& args) -> Lowered {
    const TensorBox grad = ctx.tensor(args[0]), sum = zeros(ctx);
    scatter_into(ctx, sum, grad.sizes, element(ctx, grad, grad.sizes),
                 edge_pad_index(ctx, ctx.result().sizes, ctx.integers(args[2]), reflect), {}, ir::StoreMode::Add);
    return in_result_dtype(ctx, sum);
  };
}

/// The arguments of upsample_*_backward(grad, output_size, input_size, [align_corners,] scales…).
struct InterpolationGradient {
  InterpolationGradient(Context& ctx, const Values& args, std::size_t spatial, Interpolation how)
      : kind(how),
        grad(ctx.tensor(args[0])),
        align_corners(!is_nearest() && args[3].as_bool()),
        type(register_type(ctx.result().dtype) == DType::F64 ? DType::F64 : DType::F32),
        lead(grad.rank() - spatial) {
    const std::size_t first = is_nearest() ? 3 : 4;
    for (std::size_t d = 0; d < spatial; ++d) {
      Axis axis{ctx.result().sizes[lead + d], grad.sizes[lead + d], ctx.graph.ivar(lead + d), {}};
      if (first + d < args.size() && !args[first + d].is_none()) axis.factor = args[first + d].as_double();
      axis.sizes_first = kind == Interpolation::Nearest;
      axes.push_back(axis);
    }
  }

  bool is_nearest() const { return kind == Interpolation::Nearest || kind == Interpolation::NearestExact; }

  Interpolation kind;
  TensorBox grad;
  bool align_corners;
  DType type;        ///< of weights and sums
  std::size_t lead;  ///< dimensions in front of those that are interpolated
  std::vector<Axis> axes;
};

/// The places of the result, from `first` on, that may have read one place of the input, or have, just as it is.
struct Readers {
  Expr first, count;
  bool copied = false;
};

/// The readers of place `h`, where the steps between places of the input are the quotient of the two sizes, so that
/// they can be told in whole numbers; with one more at either end for what rounding does to positions.
std::optional<Readers> readers(Context& ctx, const InterpolationGradient& g, const Axis& a, Expr h) {
  const int reach = g.kind == Interpolation::Cubic ? 2 : 1;  // places on either side that a position is made of
  const sym::ShapeEnv& env = ctx.graph.env();
  const auto in = a.in.constant(), out = a.out.constant();
  if (a.factor && !(in && out && static_cast<double>(*in) * *a.factor == static_cast<double>(*out)))
    return std::nullopt;
  if (!env.statically_known_le(1, a.in) || !env.statically_known_le(1, a.out)) return std::nullopt;
  if (g.is_nearest()) {
    if (env.statically_known_multiple_of(a.out, a.in)) {
      const Expr times = env.simplify(sym::floor_div(a.out, a.in));
      return Readers{h * times, times, true};
    }
    return Readers{sym::floor_div(h * a.out, a.in) - 1, sym::ceil_div(a.out, a.in) + 3};
  }
  if (!g.align_corners)
    return Readers{sym::floor_div((h * 2 + 1 - 2 * reach) * a.out - a.in, a.in * 2),
                   sym::ceil_div(a.out * 2 * reach, a.in) + 3};
  if (!env.statically_known_le(2, a.in) || !env.statically_known_le(2, a.out)) return std::nullopt;
  return Readers{sym::floor_div((h - reach) * (a.out - 1), a.in - 1) - 1,
                 sym::ceil_div((a.out - 1) * 2 * reach, a.in - 1) + 4};
}

/// Dimension `d` of `from`, a gradient by places of the result, summed up by places of the input.
TensorBox gathered(Context& ctx, const InterpolationGradient& g, const TensorBox& from, std::size_t d) {
  const std::size_t at = g.lead + d;
  Axis axis = g.axes[d];
  const Readers from_here = *readers(ctx, g, axis, axis.i);
  Covering c{from.sizes, {from_here.count}, {}, ctx.graph.ivars(from.rank()), condition(ctx, 1)};
  c.sizes[at] = axis.in;
  const Expr place = from_here.first + ctx.graph.rvar(0);
  require(ctx, c, sym::ge(place, 0));
  require(ctx, c, sym::lt(place, axis.out));
  axis.i = c.index[at] = bounded(ctx, c, place);
  Element here = index_value(ctx, ctx.graph.ivar(at)), none = number(ctx, g.type, 0),
          part = element_at(ctx, from, c.index, c.sizes, c.reduced, c.inside).cast(g.type);
  if (!from_here.copied) {
    Element weight = none;
    for (auto& [position, share] : interpolation_taps(ctx, axis, g.kind, g.type, g.align_corners))
      weight = weight + where(eq(position, here), share, none);
    part = part * weight;
  }
  const bool last = d == 0 && g.type == ctx.result().dtype;
  return reduction(ctx, g.type, c.sizes, c.reduced, ReductionKind::Sum, where(c.inside, part, none),
                   last ? ctx.result().strides : Exprs{});
}

/// Each place of the gradient goes to the places that it was made of.
Lowered scattered(Context& ctx, const InterpolationGradient& g) {
  const TensorBox sum = zeros(ctx);
  std::vector<std::vector<std::pair<Element, Element>>> taps;
  std::size_t combinations = 1;
  for (const Axis& axis : g.axes) {
    taps.push_back(interpolation_taps(ctx, axis, g.kind, g.type, g.align_corners));
    combinations *= taps.back().size();
  }
  const std::size_t n = g.axes.size();
  for (std::size_t k = 0; k < combinations; ++k) {
    std::vector<std::pair<Element, Element>> chosen(n);
    std::size_t rest = k;
    for (std::size_t d = n; d-- > 0; rest /= taps[d].size()) chosen[d] = taps[d][rest % taps[d].size()];
    Element value = element(ctx, g.grad, g.grad.sizes).cast(g.type);
    Exprs at = ctx.graph.ivars(g.lead);
    std::vector<Scalar> indirect;
    for (std::size_t d = 0; d < n; ++d) {
      auto& [position, weight] = chosen[d];
      if (!g.is_nearest()) value = value * weight;
      at.push_back(ctx.graph.pool().indirect(d));
      indirect.push_back(ctx.graph.pool().check_index(position, ctx.result().sizes[g.lead + d]));
    }
    scatter_into(ctx, sum, g.grad.sizes, value, at, indirect, ir::StoreMode::Add);
  }
  return in_result_dtype(ctx, sum);
}

/// Whether places of the input gather their gradients. Of the cubic kind those that a smaller picture read are many
/// tries for few readers; there each place of the gradient goes to the sixteen that it was made of.
bool gathers_from_readers(Context& ctx, const InterpolationGradient& g) {
  const sym::ShapeEnv& env = ctx.graph.env();
  return std::ranges::all_of(g.axes, [&](const Axis& a) {
    const bool shrinks = env.hint_or(a.out, 1) < env.hint_or(a.in, 1);
    return readers(ctx, g, a, a.i).has_value() && !(g.kind == Interpolation::Cubic && shrinks);
  });
}

LoweringFunction interpolation_backward(std::size_t n, Interpolation kind) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const InterpolationGradient g(ctx, args, n, kind);
    const bool gathers = gathers_from_readers(ctx, g);
    ir::realize_by_policy(g.grad, gathers ? 3 : 2, ctx.options.realize);
    if (!gathers) return scattered(ctx, g);
    TensorBox sum = g.grad;
    for (std::size_t d = n; d-- > 0;) {
      sum = gathered(ctx, g, sum, d);
      sum.realize();
    }
    return in_result_dtype(ctx, sum);
  };
}

}  // namespace

void add_window_gradients(Table& t) {
  for (std::size_t n = 2; n <= 3; ++n) {
    t[fmt::format("aten.max_pool{}d_with_indices_backward.default", n)] = max_pool_backward(n);
    t[fmt::format("aten.avg_pool{}d_backward.default", n)] = average_pool_backward(n);
    t[fmt::format("aten._adaptive_avg_pool{}d_backward.default", n)] = adaptive_average_backward(n);
    t[fmt::format("aten.adaptive_max_pool{}d_backward.default", n)] = adaptive_max_backward(n);
  }
  for (std::size_t n = 1; n <= 3; ++n) {
    t[fmt::format("aten.reflection_pad{}d_backward.default", n)] = edge_pad_backward(true);
    t[fmt::format("aten.replication_pad{}d_backward.default", n)] = edge_pad_backward(false);
    t[fmt::format("aten.upsample_nearest{}d_backward.default", n)] = interpolation_backward(n, Interpolation::Nearest);
    t[fmt::format("aten._upsample_nearest_exact{}d_backward.default", n)] =
        interpolation_backward(n, Interpolation::NearestExact);
  }
  t["aten.unfold_backward.default"] = unfold_backward;
  t["aten.upsample_linear1d_backward.default"] = interpolation_backward(1, Interpolation::Linear);
  t["aten.upsample_bilinear2d_backward.default"] = interpolation_backward(2, Interpolation::Linear);
  t["aten.upsample_trilinear3d_backward.default"] = interpolation_backward(3, Interpolation::Linear);
  t["aten.upsample_bicubic2d_backward.default"] = interpolation_backward(2, Interpolation::Cubic);
}

}  // namespace coil::lowering
