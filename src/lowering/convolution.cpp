// Convolutions of every rank: library calls, with zero padding in front of them taken in.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/relayout.h"
#include "lowering/convolution_products.h"
#include "lowering/convolution_windows.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

/// Zero padding of spatial dimensions that a node before the convolution does: how much on each side, and of what.
struct Padding {
  const fx::Node* source = nullptr;
  std::vector<std::int64_t> before, after;
};

std::optional<Padding> absorbed_padding(Context& ctx, const fx::Node& input, std::size_t spatial) {
  if (!input.is_call("aten.constant_pad_nd.default")) return std::nullopt;
  const ops::Value& value = input.args[2];
  auto* real = value.get_if<double>();
  auto* integer = value.get_if<Expr>();
  if (!(value.is_none() || (real && *real == 0) || (integer && integer->is_constant(0)))) return std::nullopt;
  Padding padding{input.args[0].as_node(), std::vector<std::int64_t>(spatial), std::vector<std::int64_t>(spatial)};
  const Exprs pad = ctx.integers(input.args[1]);
  for (std::size_t k = 0; k < pad.size() / 2; ++k) {
    auto before = pad[2 * k].constant(), after = pad[2 * k + 1].constant();
    if (!before || !after || *before < 0 || *after < 0) return std::nullopt;
    if (k >= spatial) {
      if (*before || *after) return std::nullopt;
      continue;
    }
    padding.before[spatial - 1 - k] = *before;
    padding.after[spatial - 1 - k] = *after;
  }
  return padding;
}

/// Takes padding in front of a convolution into the convolution's own; `x` is what was padded then.
void absorb_padding(Context& ctx, const fx::Node& input, TensorBox& x, std::vector<std::int64_t>& before,
                    std::vector<std::int64_t>& after) {
  const std::optional<Padding> padding = absorbed_padding(ctx, input, before.size());
  if (!padding) return;
  x = ctx.tensor(ops::Value(const_cast<fx::Node*>(padding->source)));
  for (std::size_t d = 0; d < before.size(); ++d) {
    before[d] += padding->before[d];
    after[d] += padding->after[d];
  }
}

// GPU libraries have slow kernels for channels that are no whole vectors: the three of an image, the one of a
// recording. There a convolution becomes one of stride 1 whose channels are those of stride^d neighbours, up to whole
// vectors, with a window as many times smaller; patches side by side become a product that way, and so do windows that
// fit into one vector as a whole. What is made of the input and of the weights costs a pass over each.

constexpr std::int64_t kPlanes = 64;  // channels of which a copy is not worth it

bool is_narrow(DType d) { return d == DType::BF16 || d == DType::F16; }

bool gathers_channels(Context& ctx, const TensorBox& x, std::int64_t groups,
                      const std::vector<std::int64_t>& dilation) {
  const auto channels = x.sizes[1].constant();
  return ctx.product_vector_bytes() > 0 && is_narrow(x.dtype()) && groups == 1 && channels && *channels < kPlanes &&
         *channels * static_cast<std::int64_t>(size_of(x.dtype())) % ctx.product_vector_bytes() != 0 &&
         std::all_of(dilation.begin(), dilation.end(), [](std::int64_t d) { return d == 1; });
}

/// Of x[n, c, y.., x..] the tensor [n, (c, i.., j..) grown, Y.., X..] with the element at Y * stride + i - padding, for
/// each i of a `patch`; 0 outside of x and beyond its channels. A dimension of `sizes` is as long as its last window
/// reaches.
TensorBox gathered(Context& ctx, const TensorBox& x, const Exprs& sizes, const std::vector<std::int64_t>& stride,
                   const std::vector<std::int64_t>& patch, const std::vector<std::int64_t>& padding) {
  const std::size_t spatial = stride.size();
  Exprs index{ctx.graph.ivar(0), 0};
  index.resize(2 + spatial);
  Expr channel = ctx.graph.ivar(1);
  for (std::size_t d = spatial; d-- > 0;) {
    index[2 + d] = ctx.graph.ivar(2 + d) * stride[d] + sym::mod(channel, patch[d]) - padding[d];
    channel = sym::floor_div(channel, patch[d]);
  }
  index[1] = channel;
  Element inside = condition(ctx, sym::lt(channel, x.sizes[1]));
  for (std::size_t d = 0; d < spatial; ++d)
    inside = inside & condition(ctx, sym::le(0, index[2 + d])) & condition(ctx, sym::lt(index[2 + d], x.sizes[2 + d]));
  return pointwise(ctx, x.dtype(), sizes, element_at(ctx, x, index, sizes, {}, inside));
}

/// A convolution of x by a weight of these sizes, which become those of one with stride 1.
void gather_channels(Context& ctx, TensorBox& x, TensorBox& weight, std::vector<std::int64_t>& weight_sizes,
                     std::vector<std::int64_t>& stride, std::vector<std::int64_t>& padding) {
  const std::size_t spatial = stride.size();
  const std::int64_t step = ctx.product_vector_bytes() / static_cast<std::int64_t>(size_of(x.dtype()));
  const std::vector<std::int64_t> windows(weight_sizes.begin() + 2, weight_sizes.end());
  std::vector<std::int64_t> patch = stride;
  const auto times = [](std::int64_t n, const std::vector<std::int64_t>& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), n, std::multiplies<>());
  };
  if (times(weight_sizes[1], windows) <= step) patch = windows;
  const std::int64_t channels = times(weight_sizes[1], patch);
  weight_sizes[1] = (channels + step - 1) / step * step;
  Exprs of_weight{weight.sizes[0], weight_sizes[1]}, of_x{x.sizes[0], weight_sizes[1]};
  for (std::size_t d = 0; d < spatial; ++d) {
    std::int64_t& window = weight_sizes[2 + d];
    window = (window + patch[d] - 1) / patch[d];
    of_weight.push_back(window);
    of_x.push_back(ctx.result().sizes[2 + d] + window - 1);
  }
  weight = gathered(ctx, weight, of_weight, patch, patch, std::vector<std::int64_t>(spatial));
  x = gathered(ctx, x, of_x, stride, patch, padding);
  stride.assign(spatial, 1);
  padding.assign(spatial, 0);
}

/// Whether a convolution gives a single channel, for which a GPU's library has slow kernels in 16 bits: it is one of
/// the channels of a vector then, the others of which are 0.
bool gives_one_channel(const Context& ctx, DType dtype, const std::vector<std::int64_t>& weight_sizes,
                       std::int64_t groups) {
  return is_narrow(dtype) && ctx.product_vector_bytes() > 0 && groups == 1 && weight_sizes[0] == 1 &&
         weight_sizes[1] > 1;
}

/// Weights or biases of so many channels, those beyond the first ones of which are 0.
TensorBox with_channels(Context& ctx, const TensorBox& box, std::int64_t channels) {
  Exprs sizes = box.sizes;
  sizes[0] = channels;
  const Element inside = condition(ctx, sym::lt(ctx.graph.ivar(0), box.sizes[0]));
  return pointwise(ctx, box.dtype(), sizes, element_at(ctx, box, ctx.graph.ivars(sizes.size()), sizes, {}, inside));
}

/// Whether convolutions of each channel by itself are loops: the library of a device with grids of threads is slow at
/// them.
bool by_windows(const Context& ctx) {
  return ctx.options.windows_by_kernels && ctx.target().has(target::Feature::ThreadGrids);
}

bool begins_and_lies_channels_last(const BufferView& v) { return v.offset.is_constant(0) && ir::lies_channels_last(v); }

/// Of a weight [out, in / groups, k...] (transposed: [in, out / groups, k...]).
ConvolutionFacts facts_of(DType dtype, const Exprs& weight, std::int64_t groups, bool transposed) {
  ConvolutionFacts facts{.dtype = dtype, .in_per_group = weight[1].constant(), .taps = 1};
  if (const auto first = weight[0].constant()) facts.out_per_group = *first / groups;
  if (transposed) std::swap(facts.in_per_group, facts.out_per_group);
  for (std::size_t d = 2; d < weight.size(); ++d) {
    const auto size = weight[d].constant();
    facts.taps = facts.taps && size ? std::optional(*facts.taps * *size) : std::nullopt;
  }
  return facts;
}

/// Whether a convolution of a weight of these sizes is one of kernels of Coil's own on matrix units.
bool by_groups(const Context& ctx, const ConvolutionFacts& facts, const Exprs& weight, ConvolutionSteps steps,
               bool of_weights) {
  for (std::size_t d = 2; d < weight.size(); ++d) steps.window.push_back(weight[d].constant().value_or(1 << 10));
  return ctx.options.windows_by_kernels && ctx.target().has(target::Feature::GroupConvolutions) &&
         computes_by_groups(facts, steps, of_weights);
}

std::vector<std::int64_t> known_ones(const Exprs& sizes) {
  std::vector<std::int64_t> out;
  for (const Expr& e : sizes)
    if (const auto size = e.constant()) out.push_back(*size);
  return out;
}

/// Widens a weight of one result, and the bias, to as many as a vector has; gives that number.
std::int64_t widen_to_vector(Context& ctx, TensorBox& weight, std::optional<TensorBox>& bias) {
  const std::int64_t channels = ctx.product_vector_bytes() / static_cast<std::int64_t>(size_of(weight.dtype()));
  weight = with_channels(ctx, weight, channels);
  if (bias) bias = with_channels(ctx, *bias, channels);
  return channels;
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Lowered convolution(Context& ctx, const Values& args) {
  TensorBox x = ctx.tensor(args[0]);
  TensorBox weight = ctx.tensor(args[1]);
  auto bias = ctx.optional_tensor(args[2]);
  const std::size_t spatial = weight.rank() - 2;
  auto list = [&](std::size_t i) {
    auto values = constants(ctx, args[i]);
    if (values.size() == 1) values.resize(spatial, values[0]);
    return values;
  };
  const bool transposed = args[6].as_bool();
  std::vector<std::int64_t> before = list(4), after = before;
  if (!transposed) absorb_padding(ctx, *args[0].as_node(), x, before, after);
  std::vector<std::int64_t> weight_sizes = known_ones(weight.sizes);  // else the library goes by what comes
  const bool known = weight_sizes.size() == weight.rank();
  const sym::TensorMeta& meta = ctx.result();
  std::vector<std::int64_t> stride = list(3);
  const std::int64_t groups = constant(ctx, args[8]);
  if (by_windows(ctx) && x.rank() == spatial + 2 &&
      computes_by_windows(facts_of(x.dtype(), weight.sizes, groups, transposed)))
    return windowed_convolution(ctx, {stride, before, list(5), transposed}, x, weight, bias);
  if (known && !transposed && x.rank() == spatial + 2 && gathers_channels(ctx, x, groups, list(5))) {
    gather_channels(ctx, x, weight, weight_sizes, stride, before);
    after = before;
  }
  // A GPU's library is at its best with channels innermost, and what follows can see the result so: heads of attention
  // are then rows.
  const bool innermost = ctx.graph.target(meta.device).has(target::Feature::ChannelsLastWeights);
  const bool own = by_groups(ctx, facts_of(x.dtype(), weight.sizes, groups, transposed), weight.sizes,
                             {{}, stride, list(5), groups}, false);
  if (innermost && !own && before == after && std::ranges::all_of(list(7), [](std::int64_t n) { return n == 0; }) &&
      x.dtype() == weight.dtype() && is_product_of_groups(x, weight.sizes, groups, stride, before))
    return product_of_groups(ctx, x, weight, bias, groups, transposed);
  const bool to_one = known && !transposed && gives_one_channel(ctx, x.dtype(), weight_sizes, groups);
  if (to_one && before == after && x.dtype() == weight.dtype() && is_one_channel_of_products(x, weight_sizes))
    return one_channel_of_products(ctx, x, weight, bias, stride[0], before[0], list(5)[0]);
  Exprs sizes = meta.sizes;
  if (to_one) sizes[1] = weight_sizes[0] = widen_to_vector(ctx, weight, bias);
  const auto operand = innermost ? x.copied(begins_and_lies_channels_last) : std::nullopt;
  std::vector<BufferView> inputs{operand ? *operand : open_operand(ctx, x), library_operand(weight)};
  if (bias) inputs.push_back(library_operand(*bias));
  auto [box, out] = library_result(ctx, meta.dtype, sizes, innermost ? ir::channels_last(sizes) : meta.strides);
  box.sizes[1] = meta.sizes[1];
  library_ops::Attributes attributes = {{"stride", stride},
                                        {"padding", before},
                                        {"padding_end", after},
                                        {"dilation", list(5)},
                                        {"transposed", std::int64_t{transposed}},
                                        {"output_padding", list(7)},
                                        {"groups", groups},
                                        {"has_bias", std::int64_t{bias.has_value()}}};
  if (known) attributes.emplace("weight_sizes", weight_sizes);
  add_library_call(ctx, own ? "blocked_convolution" : "convolution", std::move(attributes), std::move(inputs), {out});
  return box;
}

/// Of shares of the places, summed up.
TensorBox weight_gradient_by_groups(Context& ctx, library_ops::Attributes attributes, const BufferView& x,
                                    const BufferView& dy) {
  const auto& env = ctx.graph.env();
  const sym::TensorMeta& meta = ctx.result(1);
  Expr per_result = 1;
  for (std::size_t d = 1; d < 4; ++d) per_result *= meta.sizes[d];
  const std::int64_t parts = group_gradient_parts(env.hint_or(dy.sizes[0] * dy.sizes[2], 1 << 12),
                                                  env.hint_or(meta.sizes[0], 64), ctx.target().costs);
  Exprs sizes{Expr(parts)}, strides{per_result * meta.sizes[0]};
  sizes.insert(sizes.end(), meta.sizes.begin(), meta.sizes.end());
  for (Expr e : ir::channels_last(meta.sizes)) strides.push_back(e);
  auto [box, out] = library_result(ctx, DType::F32, sizes, strides);
  add_library_call(ctx, "blocked_convolution_weights", std::move(attributes), {x, dy}, {out});
  Exprs index{ctx.graph.rvar(0)};
  for (std::size_t d = 0; d < 4; ++d) index.push_back(ctx.graph.ivar(d));
  return reduction(ctx, meta.dtype, meta.sizes, {Expr(parts)}, ReductionKind::Sum,
                   element_at(ctx, box, index, meta.sizes, {Expr(parts)}), meta.strides);
}

/// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask), asked for the weight's gradient alone. That of a transposed convolution is that of the plain one from
/// its result to its input.
Lowered weight_gradient(Context& ctx, const Values& args) {
  TensorBox of_x = ctx.tensor(args[1]), of_dy = ctx.tensor(args[0]);
  if (args[7].as_bool()) std::swap(of_x, of_dy);
  const std::size_t spatial = of_x.rank() - 2;
  auto list = [&](std::size_t i) {
    auto values = constants(ctx, args[i]);
    if (values.size() == 1) values.resize(spatial, values[0]);
    return values;
  };
  const sym::TensorMeta& meta = ctx.result(1);
  const std::int64_t groups = constant(ctx, args[9]);
  const ConvolutionFacts facts = facts_of(of_x.dtype(), meta.sizes, groups, false);
  if (by_windows(ctx) && computes_by_windows(facts))
    return std::vector<TensorBox>{
        {}, windowed_weight_gradient(ctx, {list(4), list(5), list(6), false}, of_x, of_dy, meta), {}};
  const bool own =
      of_dy.dtype() == of_x.dtype() && by_groups(ctx, facts, meta.sizes, {{}, list(4), list(6), groups}, true);
  if (ctx.graph.target(meta.device).has(target::Feature::ChannelsLastWeights) && !own &&
      of_dy.dtype() == of_x.dtype() && is_product_of_groups(of_x, meta.sizes, groups, list(4), list(5)))
    return std::vector<TensorBox>{{}, weight_gradient_of_groups(ctx, of_x, of_dy, groups, meta), {}};
  const BufferView x = library_operand(of_x), dy = library_operand(of_dy);
  const library_ops::Attributes attributes = {
      {"stride", list(4)}, {"padding", list(5)}, {"dilation", list(6)}, {"groups", groups}};
  if (own) return std::vector<TensorBox>{{}, weight_gradient_by_groups(ctx, attributes, x, dy), {}};
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, meta.strides);
  add_library_call(ctx, "convolution_weights", attributes, {x, dy}, {out});
  return std::vector<TensorBox>{{}, box, {}};
}

}  // namespace

void add_convolution(Table& t) {
  t["aten.convolution_backward.default"] = weight_gradient;
  t["aten.convolution.default"] = convolution;
}

}  // namespace coil::lowering
