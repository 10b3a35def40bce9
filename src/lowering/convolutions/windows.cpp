// Convolutions of each channel by itself as loops, where the device's kernels do them better than its library
// (convolution_choice.h): sums over windows, with what comes before and after in the same kernel. Others where the
// library cannot do them.
#include "lowering/convolutions/windows.h"

#include <algorithm>

#include "ir/relayout.h"

namespace coil::lowering {

bool computes_by_windows(const ConvolutionFacts& f) {
  constexpr std::int64_t kMostTaps = 128;  // of which kernels write out each
  constexpr std::int64_t kFewChannels = 4;
  return is_floating(f.dtype) && size_of(f.dtype) >= 2 && f.in_per_group == 1 && f.out_per_group &&
         *f.out_per_group <= kFewChannels && f.taps && *f.taps <= kMostTaps;
}

bool computes_by_groups(const ConvolutionFacts& f, const ConvolutionSteps& s, bool of_weights) {
  constexpr std::int64_t kEight = 8, kMostChannels = 64, kWhole = 32;  // of a group
  constexpr std::int64_t kMostPieces = 112;                            // of a window, eight channels of one place each
  constexpr std::int64_t kMostSums = 300;                   // pieces times sixteens of results: the gradient's sums
  constexpr std::int64_t kMostReach = 13, kMostStride = 2;  // of windows, along one dimension
  if ((f.dtype != DType::BF16 && f.dtype != DType::F16) || s.groups < 2 || s.window.size() != 2) return false;
  if (!f.in_per_group || !f.out_per_group || !f.taps) return false;
  const std::int64_t in = *f.in_per_group, out = *f.out_per_group, pieces = *f.taps * in / kEight;
  for (std::int64_t channels : {in, out})
    if (channels % kEight != 0 || channels < kEight || channels > kMostChannels) return false;
  for (std::size_t d = 0; d < 2; ++d)
    if (s.stride[d] > kMostStride || (s.window[d] - 1) * s.dilation[d] >= kMostReach) return false;
  // The library has kernels of its own for these.
  const auto in_library = [&](std::int64_t channels) {
    return channels % kWhole == 0 || (of_weights && channels == kWhole / 2);
  };
  if (in_library(in) && in_library(out)) return false;
  return pieces <= kMostPieces && pieces * ((out + 2 * kEight - 1) / (2 * kEight)) <= kMostSums;
}

std::int64_t weight_gradient_parts(std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t taps) {
  constexpr std::int64_t kBlocks = 132 * 4, kChannelsOfBlock = 64, kSmall = 8, kBytesOfSum = 4, kBytesOfElement = 2;
  const std::int64_t blocks = (channels + kChannelsOfBlock - 1) / kChannelsOfBlock,
                     full = (kBlocks + blocks - 1) / blocks,
                     small = rows * columns * kBytesOfElement / (kSmall * taps * kBytesOfSum);
  return std::clamp<std::int64_t>(std::min(full, small), 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t group_gradient_parts(std::int64_t rows, std::int64_t channels, const target::Costs& costs) {
  constexpr std::int64_t kChannelsOfBlock = 64, kBlocksAtOnce = 2;
  const std::int64_t blocks = (channels + kChannelsOfBlock - 1) / kChannelsOfBlock,
                     full = kBlocksAtOnce * costs.multiprocessors;
  return std::clamp<std::int64_t>((full + blocks - 1) / blocks, 1, std::max<std::int64_t>(rows, 1));
}

namespace {

/// Where a window's element lies along a spatial dimension, and whether there is one.
struct Place {
  Expr at;
  Element inside;
};

/// What result element `i` and window element `r` read: i * stride + r * dilation - padding; of a transposed
/// convolution the i' for which i is that.
Place place(Context& ctx, const WindowedConvolution& c, std::size_t d, Expr i, Expr r, Expr size,
            std::span<const sym::LoopVar> loops) {
  auto& env = ctx.graph.env();
  auto known = [&](Expr e) { return condition(ctx, env.simplify(e, loops)); };
  if (!c.transposed) {
    const Expr at = i * c.stride[d] + r * c.dilation[d] - c.padding[d];
    return {at, known(sym::ge(at, 0)) & known(sym::lt(at, size))};
  }
  const Expr reach = i + c.padding[d] - r * c.dilation[d], at = sym::floor_div(reach, c.stride[d]);
  Element inside = known(sym::ge(reach, 0)) & known(sym::lt(at, size));
  if (!c.stride[d].is_constant(1)) inside = inside & known(sym::eq(sym::mod(reach, c.stride[d]), 0));
  return {at, inside};
}

/// Whether what is read of memory for x lies with its channels side by side.
bool reads_channels_innermost(Context& ctx, const TensorBox& x) {
  const Expr channel = ctx.graph.ivar(1);
  const auto loops = loop_vars(ctx.graph, x.sizes);
  return std::ranges::any_of(ir::loads(element(ctx, x, x.sizes).scalar), [&](ir::Scalar load) {
    const Expr at = load->op == ir::ScalarOp::Load
                        ? ir::linear_index(ctx.graph.buffer(load->buffer).layout, load->index)
                        : load->index[0];
    const auto parts = sym::linear_in(ctx.graph.env().simplify(at, loops), channel);
    return parts && parts->coefficient.is_constant(1);
  });
}

/// The weight [O, 1, k...] (transposed: [C, O / C, k...]) as [k..., O], so that what threads side by side read lies
/// side by side.
TensorBox channels_side_by_side(Context& ctx, const TensorBox& weight, Expr channels, bool transposed) {
  Exprs sizes(weight.sizes.begin() + 2, weight.sizes.end()), index;
  const Expr channel = ctx.graph.ivar(sizes.size());
  if (transposed)
    index = {sym::floor_div(channel, weight.sizes[1]), sym::mod(channel, weight.sizes[1])};
  else
    index = {channel, 0};
  for (std::size_t d = 0; d < sizes.size(); ++d) index.push_back(ctx.graph.ivar(d));
  sizes.push_back(channels);
  const TensorBox turned = pointwise(ctx, weight.dtype(), sizes, element_at(ctx, weight, index, sizes));
  turned.realize();
  return turned;
}

/// What a convolution adds up, and what it adds to the sums.
struct Sums {
  Exprs reduced;
  Element term;
  const std::optional<TensorBox>& bias;
  Expr channel;
  Exprs strides;  ///< of the result
};

TensorBox added_up(Context& ctx, const Sums& s) {
  const sym::TensorMeta& meta = ctx.result();
  if (!s.bias) return reduction(ctx, meta.dtype, meta.sizes, s.reduced, ReductionKind::Sum, s.term, s.strides);
  const DType t = register_type(meta.dtype);
  const TensorBox sum = reduction(ctx, t, meta.sizes, s.reduced, ReductionKind::Sum, s.term, s.strides);
  return pointwise(ctx, meta.dtype, meta.sizes,
                   element(ctx, sum, meta.sizes) + element_at(ctx, *s.bias, {s.channel}, meta.sizes).cast(t),
                   s.strides);
}

}  // namespace

TensorBox windowed_convolution(Context& ctx, const WindowedConvolution& c, const TensorBox& x, const TensorBox& weight,
                               const std::optional<TensorBox>& bias) {
  const std::size_t spatial = weight.rank() - 2;
  const sym::TensorMeta& meta = ctx.result();
  const DType t = register_type(meta.dtype);
  if (!x.storage->realized() && ir::is_costly(x.storage->body)) x.realize();
  const TensorBox turned = channels_side_by_side(ctx, weight, meta.sizes[1], c.transposed);
  const Expr of_group = ctx.graph.env().simplify(sym::floor_div(meta.sizes[1], x.sizes[1]));
  const Exprs reduced(weight.sizes.begin() + 2, weight.sizes.end());
  const auto loops = loop_vars(ctx.graph, meta.sizes, reduced);
  const Expr channel = ctx.graph.ivar(1);
  Exprs at{ctx.graph.ivar(0), sym::floor_div(channel, of_group)}, tap;
  Element inside = condition(ctx, 1);
  for (std::size_t d = 0; d < spatial; ++d) {
    const Place p = place(ctx, c, d, ctx.graph.ivar(2 + d), ctx.graph.rvar(d), x.sizes[2 + d], loops);
    at.push_back(p.at);
    inside = inside & p.inside;
    tap.push_back(ctx.graph.rvar(d));
  }
  tap.push_back(channel);
  const Element element = element_at(ctx, x, at, meta.sizes, reduced, inside).cast(t),
                factor = element_at(ctx, turned, tap, meta.sizes, reduced).cast(t);
  const Exprs strides = reads_channels_innermost(ctx, x) ? ir::channels_last(meta.sizes) : meta.strides;
  return added_up(ctx, {reduced, element * factor, bias, channel, strides});
}

TensorBox convolution_by_loops(Context& ctx, const WindowedConvolution& c, Expr groups, const TensorBox& x,
                               const TensorBox& weight, const std::optional<TensorBox>& bias) {
  auto& env = ctx.graph.env();
  const std::size_t spatial = weight.rank() - 2, channels = x.rank() - spatial - 1;
  const sym::TensorMeta& meta = ctx.result();
  const DType t = register_type(meta.dtype);
  if (!x.storage->realized() && ir::is_costly(x.storage->body)) x.realize();
  if (!weight.storage->realized() && ir::is_costly(weight.storage->body)) weight.realize();
  const Expr all_in = x.sizes[channels], all_out = meta.sizes[channels],
             in = c.transposed ? env.simplify(sym::floor_div(all_in, groups)) : weight.sizes[1],
             out = c.transposed ? weight.sizes[1] : env.simplify(sym::floor_div(all_out, groups));
  Exprs reduced{in};
  reduced.insert(reduced.end(), weight.sizes.begin() + 2, weight.sizes.end());
  const auto loops = loop_vars(ctx.graph, meta.sizes, reduced);
  const Expr channel = ctx.graph.ivar(channels), term = ctx.graph.rvar(0),
             read = sym::floor_div(channel, out) * in + term;
  Exprs at, tap = c.transposed ? Exprs{read, sym::mod(channel, out)} : Exprs{channel, term};
  if (channels > 0) at.push_back(ctx.graph.ivar(0));
  at.push_back(read);
  Element inside = condition(ctx, 1);
  for (std::size_t d = 0; d < spatial; ++d) {
    const Expr step = ctx.graph.rvar(1 + d);
    const Place p = place(ctx, c, d, ctx.graph.ivar(channels + 1 + d), step, x.sizes[channels + 1 + d], loops);
    at.push_back(p.at);
    inside = inside & p.inside;
    tap.push_back(step);
  }
  const Element product = element_at(ctx, x, at, meta.sizes, reduced, inside).cast(t) *
                          element_at(ctx, weight, tap, meta.sizes, reduced).cast(t);
  return added_up(ctx, {reduced, product, bias, channel, meta.strides});
}

TensorBox windowed_weight_gradient(Context& ctx, const WindowedConvolution& c, const TensorBox& x, const TensorBox& dy,
                                   const sym::TensorMeta& meta) {
  auto& env = ctx.graph.env();
  const std::size_t spatial = meta.rank() - 2;
  x.realize();
  dy.realize();
  // All places but those along the last dimension are rows, which parts share out.
  Expr rows = dy.sizes[0], taps = 1;
  for (std::size_t d = 0; d + 1 < spatial; ++d) rows *= dy.sizes[2 + d];
  for (std::size_t d = 0; d < spatial; ++d) taps *= meta.sizes[2 + d];
  const Expr columns = dy.sizes.back(), channels = meta.sizes[0];
  const std::int64_t parts = weight_gradient_parts(env.hint_or(rows, 1 << 12), env.hint_or(columns, 32),
                                                   env.hint_or(channels, 64), env.hint_or(taps, 9));
  const Expr length = env.simplify(sym::ceil_div(rows, parts));
  Exprs sizes{Expr(parts)}, reduced{length, columns};
  for (std::size_t d = 0; d < spatial; ++d) sizes.push_back(meta.sizes[2 + d]);
  sizes.push_back(channels);
  const auto loops = loop_vars(ctx.graph, sizes, reduced);
  const Expr row = ctx.graph.ivar(0) * length + ctx.graph.rvar(0), channel = ctx.graph.ivar(1 + spatial);
  Element inside = condition(ctx, env.simplify(sym::lt(row, rows), loops));
  // The row's place in the result.
  Exprs place_of_row(spatial);
  Expr rest = row;
  for (std::size_t d = spatial - 1; d-- > 0;) {
    place_of_row[d] = env.simplify(sym::mod(rest, dy.sizes[2 + d]), loops);
    rest = env.simplify(sym::floor_div(rest, dy.sizes[2 + d]), loops);
  }
  place_of_row[spatial - 1] = ctx.graph.rvar(1);
  Exprs of_x{rest, sym::floor_div(channel, env.simplify(sym::floor_div(channels, x.sizes[1])))}, of_dy{rest, channel};
  Element reaches = inside;
  for (std::size_t d = 0; d < spatial; ++d) {
    const Place p = place(ctx, c, d, place_of_row[d], ctx.graph.ivar(1 + d), x.sizes[2 + d], loops);
    of_x.push_back(p.at);
    of_dy.push_back(place_of_row[d]);
    reaches = reaches & p.inside;
  }
  const DType t = register_type(meta.dtype);
  const Element product = element_at(ctx, x, of_x, sizes, reduced, reaches).cast(t) *
                          element_at(ctx, dy, of_dy, sizes, reduced, inside).cast(t);
  const TensorBox partial = reduction(ctx, t, sizes, reduced, ReductionKind::Sum, product);
  Exprs of_part{ctx.graph.rvar(0)};
  for (std::size_t d = 0; d < spatial; ++d) of_part.push_back(ctx.graph.ivar(2 + d));
  of_part.push_back(ctx.graph.ivar(0));
  return reduction(ctx, meta.dtype, meta.sizes, {Expr(parts)}, ReductionKind::Sum,
                   element_at(ctx, partial, of_part, meta.sizes, {Expr(parts)}), meta.strides);
}

}  // namespace coil::lowering
