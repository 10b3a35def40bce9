// Upsampling by nearest, linear and cubic interpolation; pixel shuffles; windows laid out as columns.
#include "lowering/windows/interpolation.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// upsample_*(self, output_size, [align_corners,] scales…), or with overload vec (input, output_size, [align_corners,]
/// scale_factors).
std::vector<Axis> axes_of(Context& ctx, const Values& args, const TensorBox& box, std::size_t spatial, bool has_align) {
  std::vector<Axis> axes;
  const std::size_t first = has_align ? 3 : 2, lead = box.rank() - spatial;
  const bool list = ctx.node->target.ends_with(".vec");
  for (std::size_t d = 0; d < spatial; ++d) {
    Axis axis{box.sizes[lead + d], ctx.result().sizes[lead + d], ctx.graph.ivar(lead + d), {}};
    const ops::Value* factor = nullptr;
    if (list && first < args.size() && args[first].is<Values>()) factor = &args[first].as_list().at(d);
    if (!list && first + d < args.size()) factor = &args[first + d];
    if (factor && !factor->is_none()) axis.factor = factor->as_double();
    axes.push_back(axis);
  }
  return axes;
}

Element real(Context& ctx, Expr e, DType t) { return index_value(ctx, e).cast(t); }

/// Input steps per output step (area_pixel_compute_scale in aten/src/ATen/native/UpSample.h).
Element scale_of(Context& ctx, const Axis& a, DType t, bool align_corners) {
  // One place is the first, whatever the steps would be.
  if (align_corners) return real(ctx, a.in - 1, t) / maximum(real(ctx, a.out - 1, t), 1.0);
  if (a.factor && *a.factor > 0) return number(ctx, t, 1.0 / *a.factor);
  return real(ctx, a.in, t) / real(ctx, a.out, t);
}

/// Positions are counted in I32 where the dimension is known to be that small: vectors hold twice as many of them.
DType position_type(Context& ctx, const Axis& a) {
  return ctx.graph.env().bounds(a.in).high < (std::int64_t{1} << 31) - 8 ? DType::I32 : DType::I64;
}
Element last_of(Context& ctx, const Axis& a) { return index_value(ctx, a.in - 1).cast(position_type(ctx, a)); }
Element clamped(Context& ctx, Element index, const Axis& a) { return minimum(maximum(index, 0.0), last_of(ctx, a)); }

Element nearest_position(Context& ctx, const Axis& a, bool exact) {
  const DType t = DType::F32;
  Element at = real(ctx, a.i, t);
  if (exact) at = at + 0.5;
  Element scaled =
      minimum(floor(at * scale_of(ctx, a, t, false)).cast(position_type(ctx, a)), last_of(ctx, a)).cast(DType::I64);
  if (!a.sizes_first || !a.factor) return scaled;
  for (int times : {2, 1})
    scaled = where(condition(ctx, ctx.graph.env().simplify(sym::eq(a.out, a.in * times))),
                   index_value(ctx, sym::floor_div(a.i, times)), scaled);
  return scaled;
}

/// The element at computed positions of the last dimensions, each clamped to its own.
Element element_by(Context& ctx, const TensorBox& box, const std::vector<Element>& positions) {
  const std::size_t lead = box.rank() - positions.size();
  Exprs index = ctx.graph.ivars(lead);
  std::vector<Scalar> indirect;
  for (std::size_t d = 0; d < positions.size(); ++d) {
    index.push_back(ctx.graph.pool().indirect(d));
    indirect.push_back(positions[d]);
  }
  return {&ctx.graph.pool(), box.load(index, loop_vars(ctx.graph, ctx.result().sizes), nullptr, std::move(indirect))};
}

LoweringFunction nearest(std::size_t spatial, bool exact) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    auto axes = axes_of(ctx, args, box, spatial, false);
    const std::size_t lead = box.rank() - spatial;
    // Eager's kernels of one and of three dimensions go by the factor alone.
    for (Axis& a : axes) a.sizes_first = spatial == 2 && !exact;
    bool whole_steps = true;
    Exprs index = ctx.graph.ivars(lead);
    for (auto& a : axes) {
      Expr ratio = ctx.graph.env().simplify(sym::floor_div(a.out, a.in));
      if (!ctx.graph.env().statically_known_le(1, ratio)) ratio = 1;
      whole_steps &= ctx.graph.env().statically_known_equal(ratio * a.in, a.out) &&
                     (!a.factor || (ratio.constant() && static_cast<double>(*ratio.constant()) == *a.factor) ||
                      (a.sizes_first && (ratio.is_constant(1) || ratio.is_constant(2))));
      index.push_back(sym::floor_div(a.i, ratio));
    }
    if (whole_steps) return result(ctx, element_at(ctx, box, index, ctx.result().sizes));
    std::vector<Element> positions;
    for (auto& a : axes) {
      positions.push_back(nearest_position(ctx, a, exact));
    }
    return result(ctx, element_by(ctx, box, positions));
  };
}

/// Interpolates over dimension `d` and those after it; `positions` holds what was chosen for those before.
Element interpolate(Context& ctx, const TensorBox& box, const std::vector<Axis>& axes,
                    const std::vector<std::vector<std::pair<Element, Element>>>& taps, std::vector<Element>& positions,
                    DType t) {
  const std::size_t d = positions.size();
  if (d == axes.size()) return element_by(ctx, box, positions).cast(t);
  Element sum;
  for (auto& [at, weight] : taps[d]) {
    positions.push_back(at);
    Element term = interpolate(ctx, box, axes, taps, positions, t) * weight;
    positions.pop_back();
    sum = sum.scalar ? sum + term : term;
  }
  return sum;
}

/// Two positions and weights for each dimension.
std::vector<std::pair<Element, Element>> linear_taps(Context& ctx, const Axis& a, DType t, bool align_corners) {
  Element scale = scale_of(ctx, a, t, align_corners);
  Element at = align_corners ? scale * real(ctx, a.i, t) : maximum(scale * (real(ctx, a.i, t) + 0.5) - 0.5, 0.0);
  Element low = minimum(floor(at).cast(position_type(ctx, a)), last_of(ctx, a));
  Element high = minimum(low + 1.0, last_of(ctx, a));
  Element fraction = minimum(maximum(at - low.cast(t), 0.0), 1.0);
  return {{low, 1.0 - fraction}, {high, fraction}};
}

/// Four positions and weights: the cubic convolution with A = -0.75.
std::vector<std::pair<Element, Element>> cubic_taps(Context& ctx, const Axis& a, DType t, bool align_corners) {
  constexpr double kA = -0.75;
  Element scale = scale_of(ctx, a, t, align_corners);
  Element at = align_corners ? scale * real(ctx, a.i, t) : scale * (real(ctx, a.i, t) + 0.5) - 0.5;
  Element base = floor(at), f = at - base;
  auto near = [&](Element x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1.0; };
  auto far = [&](Element x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  Element first = base.cast(position_type(ctx, a));
  return {{clamped(ctx, first - 1.0, a), far(f + 1.0)},
          {clamped(ctx, first, a), near(f)},
          {clamped(ctx, first + 1.0, a), near(1.0 - f)},
          {clamped(ctx, first + 2.0, a), far(2.0 - f)}};
}

}  // namespace

std::vector<std::pair<Element, Element>> interpolation_taps(Context& ctx, const Axis& a, Interpolation kind, DType t,
                                                            bool align_corners) {
  if (kind != Interpolation::Linear && kind != Interpolation::Cubic)
    return {{nearest_position(ctx, a, kind == Interpolation::NearestExact), number(ctx, t, 1)}};
  auto taps =
      kind == Interpolation::Linear ? linear_taps(ctx, a, t, align_corners) : cubic_taps(ctx, a, t, align_corners);
  for (auto& [at, weight] : taps) at = at.cast(DType::I64);
  return taps;
}

namespace {

/// Whether so few of a value's elements are read that each is computed where it is, rather than all of them stored.
bool reads_few(Context& ctx, const TensorBox& box, std::int64_t of_each_result) {
  const auto& env = ctx.graph.env();
  const std::int64_t results = env.hint_or(sym::product(ctx.result().sizes), 0);
  return results > 0 && results * of_each_result <= env.hint_or(sym::product(box.sizes), 0);
}

LoweringFunction interpolated(std::size_t spatial, bool cubic) {
  return [=](Context& ctx, const Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    if (!reads_few(ctx, box, std::int64_t{1} << ((cubic ? 2 : 1) * spatial))) box.realize();
    const DType t = ctx.result().dtype == DType::F64 ? DType::F64 : DType::F32;
    const bool align_corners = args[2].as_bool();
    const auto axes = axes_of(ctx, args, box, spatial, true);
    std::vector<std::vector<std::pair<Element, Element>>> taps;
    for (auto& a : axes)
      taps.push_back(
          interpolation_taps(ctx, a, cubic ? Interpolation::Cubic : Interpolation::Linear, t, align_corners));
    std::vector<Element> positions;
    return result(ctx, interpolate(ctx, box, axes, taps, positions, t));
  };
}

/// pixel_shuffle(self, r): [.., C*r*r, H, W] to [.., C, H*r, W*r].
Lowered pixel_shuffle(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Expr r = ctx.integer(args[1]);
  const std::size_t n = box.rank();
  Exprs index = ctx.graph.ivars(n);
  const Expr c = index[n - 3], h = index[n - 2], w = index[n - 1];
  index[n - 3] = c * r * r + sym::mod(h, r) * r + sym::mod(w, r);
  index[n - 2] = sym::floor_div(h, r);
  index[n - 1] = sym::floor_div(w, r);
  return result(ctx, element_at(ctx, box, index, ctx.result().sizes));
}

Lowered pixel_unshuffle(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Expr r = ctx.integer(args[1]);
  const std::size_t n = box.rank();
  Exprs index = ctx.graph.ivars(n);
  const Expr c = index[n - 3], h = index[n - 2], w = index[n - 1];
  index[n - 3] = sym::floor_div(c, r * r);
  index[n - 2] = h * r + sym::mod(sym::floor_div(c, r), r);
  index[n - 1] = w * r + sym::mod(c, r);
  return result(ctx, element_at(ctx, box, index, ctx.result().sizes));
}

Lowered channel_shuffle(Context& ctx, const Values& args) {
  const TensorBox box = ctx.tensor(args[0]);
  const Expr groups = ctx.integer(args[1]), per_group = sym::floor_div(box.sizes[1], groups);
  Exprs index = ctx.graph.ivars(box.rank());
  index[1] = sym::mod(index[1], groups) * per_group + sym::floor_div(index[1], groups);
  return result(ctx, element_at(ctx, box, index, ctx.result().sizes));
}

/// im2col(self, kernel, dilation, padding, stride): [N, C, H, W] to [N, C*kh*kw, L].
Lowered im2col(Context& ctx, const Values& args) {
  TensorBox box = ctx.tensor(args[0]);
  const bool batched = box.rank() == 4;
  if (!batched) box = unsqueeze(ctx, box, 0);
  const auto kernel = constants(ctx, args[1]), dilation = constants(ctx, args[2]), padding = constants(ctx, args[3]),
             stride = constants(ctx, args[4]);
  const Exprs& sizes = ctx.result().sizes;
  const auto loops = loop_vars(ctx.graph, sizes);
  const std::size_t lead = batched ? 1 : 0;
  const Expr column = ctx.graph.ivar(lead), l = ctx.graph.ivar(lead + 1), area = kernel[0] * kernel[1];
  const Expr columns = sym::floor_div(box.sizes[3] + 2 * padding[1] - dilation[1] * (kernel[1] - 1) - 1, stride[1]) + 1;
  const Expr h = sym::floor_div(l, columns) * stride[0] - padding[0] +
                 sym::mod(sym::floor_div(column, kernel[1]), kernel[0]) * dilation[0];
  const Expr w = sym::mod(l, columns) * stride[1] - padding[1] + sym::mod(column, kernel[1]) * dilation[1];
  Element inside = condition(ctx, 1);
  for (Expr bound : {sym::ge(h, 0), sym::lt(h, box.sizes[2]), sym::ge(w, 0), sym::lt(w, box.sizes[3])})
    inside = inside & condition(ctx, ctx.graph.env().simplify(bound, loops));
  return result(ctx, element_at(ctx, box, {batched ? ctx.graph.ivar(0) : Expr(0), sym::floor_div(column, area), h, w},
                                sizes, {}, inside));
}

}  // namespace

void add_resampling(Table& t) {
  for (std::size_t n = 1; n <= 3; ++n) {
    for (const char* overload : {"default", "vec"}) {
      t[fmt::format("aten.upsample_nearest{}d.{}", n, overload)] = nearest(n, false);
      t[fmt::format("aten._upsample_nearest_exact{}d.{}", n, overload)] = nearest(n, true);
    }
  }
  for (const char* overload : {"default", "vec"}) {
    t[fmt::format("aten.upsample_linear1d.{}", overload)] = interpolated(1, false);
    t[fmt::format("aten.upsample_bilinear2d.{}", overload)] = interpolated(2, false);
    t[fmt::format("aten.upsample_trilinear3d.{}", overload)] = interpolated(3, false);
    t[fmt::format("aten.upsample_bicubic2d.{}", overload)] = interpolated(2, true);
  }
  t["aten.pixel_shuffle.default"] = pixel_shuffle;
  t["aten.pixel_unshuffle.default"] = pixel_unshuffle;
  t["aten.channel_shuffle.default"] = t["aten.native_channel_shuffle.default"] = channel_shuffle;
  t["aten.im2col.default"] = im2col;
}

}  // namespace coil::lowering
