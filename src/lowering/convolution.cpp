// Convolutions of every rank: library calls, with zero padding in front of them taken in.
#include <algorithm>

#include "lowering/common.h"
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

/// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Lowered convolution(Context& ctx, const Values& args) {
  TensorBox x = ctx.tensor(args[0]);
  const TensorBox weight = ctx.tensor(args[1]);
  const auto bias = ctx.optional_tensor(args[2]);
  const std::size_t spatial = weight.rank() - 2;
  auto list = [&](std::size_t i) {
    auto values = constants(ctx, args[i]);
    if (values.size() == 1) values.resize(spatial, values[0]);
    return values;
  };
  const bool transposed = args[6].as_bool();
  std::vector<std::int64_t> before = list(4), after = before;
  if (!transposed)
    if (auto padding = absorbed_padding(ctx, *args[0].as_node(), spatial)) {
      x = ctx.tensor(ops::Value(const_cast<fx::Node*>(padding->source)));
      for (std::size_t d = 0; d < spatial; ++d) {
        before[d] += padding->before[d];
        after[d] += padding->after[d];
      }
    }
  std::vector<std::int64_t> weight_sizes;
  for (const Expr& e : weight.sizes) {
    auto c = e.constant();
    if (!c) refuse(ctx, "has a weight of symbolic size");
    weight_sizes.push_back(*c);
  }
  std::vector<BufferView> inputs{library_operand(x), library_operand(weight)};
  if (bias) inputs.push_back(library_operand(*bias));
  const sym::TensorMeta& meta = ctx.result();
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, meta.strides);
  add_library_call(ctx, "convolution",
                   {{"stride", list(3)},
                    {"padding", before},
                    {"padding_end", after},
                    {"dilation", list(5)},
                    {"transposed", std::int64_t{transposed}},
                    {"output_padding", list(7)},
                    {"groups", constant(ctx, args[8])},
                    {"has_bias", std::int64_t{bias.has_value()}},
                    {"weight_sizes", weight_sizes}},
                   std::move(inputs), {out});
  return box;
}

/// convolution_backward(grad, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask), asked for the weight's gradient alone. That of a transposed convolution is that of
/// the plain one from its result to its input.
Lowered weight_gradient(Context& ctx, const Values& args) {
  BufferView x = library_operand(ctx.tensor(args[1])), dy = library_operand(ctx.tensor(args[0]));
  if (args[7].as_bool()) std::swap(x, dy);
  const std::size_t spatial = x.sizes.size() - 2;
  auto list = [&](std::size_t i) {
    auto values = constants(ctx, args[i]);
    if (values.size() == 1) values.resize(spatial, values[0]);
    return values;
  };
  const sym::TensorMeta& meta = ctx.result(1);
  auto [box, out] = library_result(ctx, meta.dtype, meta.sizes, meta.strides);
  add_library_call(ctx, "convolution_weights", {{"stride", list(4)}, {"padding", list(5)}, {"dilation", list(6)}, {"groups", constant(ctx, args[9])}}, {x, dy}, {out});
  return std::vector<TensorBox>{{}, box, {}};
}

}  // namespace

void add_convolution(Table& t) {
  t["aten.convolution_backward.default"] = weight_gradient;
  t["aten.convolution.default"] = convolution;
}

}  // namespace coil::lowering
