// Every convolution as aten.convolution, which lowering has whole.
#include "passes/decompositions/rewriter.h"

namespace coil::passes {

namespace {

Exprs spread(Rewriter& r, std::string_view name, std::size_t n, Expr fallback) {
  Exprs list = r.ints(r[name]);
  if (list.empty()) return Exprs(n, fallback);
  return list.size() == 1 ? Exprs(n, list[0]) : list;
}

/// `padding="same"`: half on each side; what is odd goes to the far side, by a pad of its own.
Exprs same_padding(Rewriter& r, Value& input, const Exprs& dilation) {
  const TensorMeta& weight = r.meta(r["weight"]);
  std::size_t n = weight.rank() - 2;
  Exprs padding, far;
  bool odd = false;
  for (std::size_t i = 0; i < n; ++i) {
    Expr total = dilation[i] * (weight.sizes[2 + i] - 1), half = sym::floor_div(total, 2);
    padding.push_back(half);
    Expr rest = total - half * 2;
    odd |= !rest.is_constant(0);
    far.insert(far.begin(), {Expr(0), rest});
  }
  if (odd) input = r.call("aten.constant_pad_nd.default", {input, far, 0});
  return padding;
}

Decomposition convolution(bool transposed) {
  return [transposed](Rewriter& r) -> Value {
    Value input = r["input"];
    std::size_t rank = r.rank(r["weight"]), n = rank - 2;
    bool unbatched = r.rank(input) + 1 == rank;
    if (unbatched) input = r.unsqueeze(input, 0);
    Exprs stride = spread(r, "stride", n, 1), dilation = spread(r, "dilation", n, 1), padding;
    if (const auto* mode = r["padding"].get_if<std::string>())
      padding = *mode == "same" ? same_padding(r, input, dilation) : Exprs(n, 0);
    else
      padding = spread(r, "padding", n, 0);
    Exprs output_padding = transposed ? spread(r, "output_padding", n, 0) : Exprs(n, 0);
    Value made = r.call("aten.convolution.default", {input, r["weight"], r["bias"], stride, padding, dilation,
                                                     transposed, output_padding, r["groups"]});
    return unbatched ? Value(r.call("aten.squeeze.dims", {made, dims_value({0})})) : made;
  };
}

}  // namespace

void decompose_convolution(DecompositionTable& t) {
  for (std::string_view op : {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default",
                              "aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding"})
    t[op] = convolution(false);
  for (std::string_view op :
       {"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"})
    t[op] = convolution(true);
}

}  // namespace coil::passes
