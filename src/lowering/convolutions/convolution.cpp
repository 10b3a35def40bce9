// Convolutions of every rank: library calls, with zero padding in front of them taken in.
#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/relayout.h"
#include "library_ops/convolutions.h"
#include "lowering/convolutions/channels.h"
#include "lowering/convolutions/products.h"
#include "lowering/convolutions/windows.h"
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

/// Whether convolutions of each channel by itself are loops: the library of a device with grids of threads is slow at
/// them.
bool by_windows(const Context& ctx) {
  return ctx.options.windows_by_kernels && ctx.target().has(target::Feature::ThreadGrids);
}

bool begins_and_lies_channels_last(const BufferView& v) { return v.offset.is_constant(0) && ir::lies_channels_last(v); }

/// Facts of a convolution by a weight [out, in / groups, k...] (transposed: [in, out / groups, k...]).
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

Exprs exprs(const std::vector<std::int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

std::vector<std::int64_t> known_ones(const Exprs& sizes) {
  std::vector<std::int64_t> out;
  for (const Expr& e : sizes)
    if (const auto size = e.constant()) out.push_back(*size);
  return out;
}

/// Where the same inputs are to give the same bits, no library's engine is chosen by measurement.
void fix_engine(const Context& ctx, library_ops::Attributes& attributes) {
  if (ctx.options.orders_writes) attributes.emplace(library_ops::convolution::kFixedEngine.name, std::int64_t{1});
}

/// The result of the library's operation `name`, whose attributes are those and what `c` says.
TensorBox call(Context& ctx, const Call& c, std::string_view name, bool innermost, library_ops::Attributes attributes) {
  const sym::TensorMeta& meta = ctx.result();
  const bool known = c.weight_sizes.size() == c.weight.rank();
  Exprs sizes = meta.sizes;
  if (known && c.step > 1) sizes[1] = c.weight_sizes[c.of_y()];
  const auto operand = innermost ? c.x.copied(begins_and_lies_channels_last) : std::nullopt;
  std::vector<BufferView> inputs{operand ? *operand : open_operand(ctx, c.x), library_operand(c.weight)};
  if (c.bias) inputs.push_back(library_operand(*c.bias));
  const Exprs rows = sizes == meta.sizes ? meta.strides : sym::contiguous_strides(sizes);
  auto [box, out] = library_result(ctx, meta.dtype, sizes, innermost ? ir::channels_last(sizes) : rows);
  box.sizes[1] = meta.sizes[1];
  attributes.insert({{"stride", c.stride},
                     {"padding", c.before},
                     {"padding_end", c.after},
                     {"dilation", c.dilation},
                     {"transposed", std::int64_t{c.transposed}},
                     {"has_bias", std::int64_t{c.bias.has_value()}}});
  if (known) attributes.emplace("weight_sizes", c.weight_sizes);
  if (name == library_ops::convolution::kName) fix_engine(ctx, attributes);
  add_library_call(ctx, std::string(name), std::move(attributes), std::move(inputs), {out});
  return box;
}

/// A convolution whose stride, padding, dilation or groups sizes tell.
TensorBox of_free_steps(Context& ctx, const Values& args) {
  const TensorBox weight = ctx.tensor(args[1]);
  const auto each = [&](std::size_t i) { return spread(ctx.integers(args[i]), weight.rank() - 2); };
  return convolution_by_loops(ctx, {each(3), each(4), each(5), args[6].as_bool()}, ctx.integer(args[8]),
                              ctx.tensor(args[0]), weight, ctx.optional_tensor(args[2]));
}

bool is_known(Context& ctx, const ops::Value& arg) {
  return std::ranges::all_of(ctx.integers(arg), [](const Expr& e) { return e.is_constant(); });
}

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Lowered convolution(Context& ctx, const Values& args) {
  // A tracer compiles again for the steps that a call has, and has the library then.
  const bool all_known =
      is_known(ctx, args[3]) && is_known(ctx, args[4]) && is_known(ctx, args[5]) && ctx.integer(args[8]).is_constant();
  if (!all_known && !ctx.module.has_tracer) return of_free_steps(ctx, args);
  Call c{.x = ctx.tensor(args[0]), .weight = ctx.tensor(args[1]), .bias = ctx.optional_tensor(args[2])};
  const std::size_t spatial = c.weight.rank() - 2;
  auto list = [&](std::size_t i) { return spread(constants(ctx, args[i]), spatial); };
  const std::vector<std::int64_t> more = list(7);
  const std::int64_t groups = constant(ctx, args[8]);
  c.transposed = args[6].as_bool();
  c.stride = list(3);
  c.dilation = list(5);
  c.before = c.after = list(4);
  if (!c.transposed) absorb_padding(ctx, *args[0].as_node(), c.x, c.before, c.after);
  c.weight_sizes = known_ones(c.weight.sizes);  // else the library goes by what comes
  const bool known = c.weight_sizes.size() == c.weight.rank();
  const ConvolutionFacts facts = facts_of(c.x.dtype(), c.weight.sizes, groups, c.transposed);
  if (by_windows(ctx) && c.x.rank() == spatial + 2 && computes_by_windows(facts))
    return windowed_convolution(ctx, {exprs(c.stride), exprs(c.before), exprs(c.dilation), c.transposed}, c.x, c.weight,
                                c.bias);
  if (known && c.x.rank() == spatial + 2) c.step = channel_step(ctx, c.x.dtype(), groups);
  if (known) widen_input(ctx, c);
  // A GPU's library is at its best with channels innermost, and what follows can see the result so: heads of attention
  // are then rows.
  const sym::TensorMeta& meta = ctx.result();
  const bool innermost = ctx.graph.target(meta.device).has(target::Feature::ChannelsLastWeights);
  const bool own = by_groups(ctx, facts_of(c.x.dtype(), c.weight.sizes, groups, c.transposed), c.weight.sizes,
                             {{}, c.stride, c.dilation, groups}, false);
  const bool plain = c.before == c.after && c.x.dtype() == c.weight.dtype() &&
                     std::ranges::all_of(more, [](std::int64_t n) { return n == 0; });
  if (innermost && !own && plain && is_product_of_groups(c.x, c.weight.sizes, groups, c.stride, c.before))
    return product_of_groups(ctx, c.x, c.weight, c.bias, groups, c.transposed);
  if (innermost && known && plain && groups == 1 && !c.transposed && c.x.rank() == spatial + 2 &&
      is_product_of_patches(c))
    return product_of_patches(ctx, c);
  if (c.step > 1 && plain && !c.transposed && is_one_channel_of_products(c.x, c.weight_sizes))
    return one_channel_of_products(ctx, c.x, c.weight, c.bias, c.stride[0], c.before[0], c.dilation[0]);
  if (known) widen_result(ctx, c);
  return call(ctx, c, own ? "blocked_convolution" : "convolution", innermost,
              {{"output_padding", more}, {"groups", groups}});
}

/// The gradient of the weight, summed up from the gradients of shares of the places.
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

/// The gradient of the weight where it is one product, or one for each group.
std::optional<TensorBox> gradient_by_product(Context& ctx, const Call& c, const TensorBox& dy, std::int64_t groups,
                                             const sym::TensorMeta& meta) {
  if (dy.dtype() != c.x.dtype()) return std::nullopt;
  if (is_product_of_groups(c.x, meta.sizes, groups, c.stride, c.before))
    return weight_gradient_of_groups(ctx, c.x, dy, groups, meta);
  if (c.transposed || groups != 1 || c.weight_sizes.size() != meta.rank() || !is_gradient_of_patches(c))
    return std::nullopt;
  return weight_gradient_of_patches(ctx, c, dy, meta);
}

/// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask), asked for the weight's gradient alone. That of a transposed convolution is that of the plain one from
/// its result to its input.
Lowered weight_gradient(Context& ctx, const Values& args) {
  TensorBox of_x = ctx.tensor(args[1]), of_dy = ctx.tensor(args[0]);
  if (args[7].as_bool()) std::swap(of_x, of_dy);
  const std::size_t spatial = of_x.rank() - 2;
  auto list = [&](std::size_t i) { return spread(constants(ctx, args[i]), spatial); };
  const sym::TensorMeta& meta = ctx.result(1);
  const std::int64_t groups = constant(ctx, args[9]);
  const ConvolutionFacts facts = facts_of(of_x.dtype(), meta.sizes, groups, false);
  if (by_windows(ctx) && computes_by_windows(facts))
    return std::vector<TensorBox>{
        {},
        windowed_weight_gradient(ctx, {exprs(list(4)), exprs(list(5)), exprs(list(6)), false}, of_x, of_dy, meta),
        {}};
  const bool own =
      of_dy.dtype() == of_x.dtype() && by_groups(ctx, facts, meta.sizes, {{}, list(4), list(6), groups}, true);
  const Call call{.x = of_x,
                  .weight_sizes = known_ones(meta.sizes),
                  .stride = list(4),
                  .dilation = list(6),
                  .before = list(5),
                  .after = list(5),
                  .transposed = args[7].as_bool()};
  if (ctx.graph.target(meta.device).has(target::Feature::ChannelsLastWeights) && !own)
    if (auto product = gradient_by_product(ctx, call, of_dy, groups, meta))
      return std::vector<TensorBox>{{}, *product, {}};
  const BufferView x = library_operand(of_x), dy = library_operand(of_dy);
  library_ops::Attributes attributes = {
      {"stride", list(4)}, {"padding", list(5)}, {"dilation", list(6)}, {"groups", groups}};
  if (own) return std::vector<TensorBox>{{}, weight_gradient_by_groups(ctx, attributes, x, dy), {}};
  fix_engine(ctx, attributes);
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
