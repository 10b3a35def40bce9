// Every convolution as aten.convolution, which lowering has whole; so is the gradient of a convolution's input, by the
// same weight the other way round. The gradient of the weight stays an aten.convolution_backward that is asked for
// nothing else.
#include "passes/graph/decompositions/rewriter.h"

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

/// What undoes a convolution's shape: the transposed one, with the elements that a stride left over as output padding;
/// of a transposed one the plain one, without the windows that output padding made room for.
Value input_gradient(Rewriter& r) {
  const Value& grad = r["grad_output"];
  const Exprs& input = r.meta(r["input"]).sizes;
  const Exprs weight = r.meta(r["weight"]).sizes;
  std::size_t n = weight.size() - 2;
  bool transposed = r.flag("transposed");
  Exprs stride = spread(r, "stride", n, 1), padding = spread(r, "padding", n, 0),
        dilation = spread(r, "dilation", n, 1), left_over;
  for (std::size_t i = 0; i < n; ++i) {
    Expr reach = dilation[i] * (weight[2 + i] - 1) + 1, out = r.meta(grad).sizes[2 + i];
    left_over.push_back(
        transposed ? Expr(0) : r.module.env->simplify(input[2 + i] - ((out - 1) * stride[i] + reach - padding[i] * 2)));
  }
  Value made = r.call("aten.convolution.default",
                      {grad, r["weight"], None{}, stride, padding, dilation, !transposed, left_over, r["groups"]});
  for (std::size_t i = 0; i < n; ++i)
    if (!r.module.env->statically_known_equal(r.meta(made).sizes[2 + i], input[2 + i]))
      made = r.slice(made, static_cast<std::int64_t>(2 + i), 0, input[2 + i]);
  return made;
}

Value convolution_backward(Rewriter& r) {
  const Values& mask = r["output_mask"].as_list();
  auto wanted = [&](std::size_t i) { return mask.at(i).as_bool(); };
  if (!wanted(0) && !wanted(2)) return None{};
  Values results(3, None{});
  if (wanted(0)) results[0] = input_gradient(r);
  if (wanted(1)) {
    Values args = r.node->args;
    args.back() = Values{false, true, false};
    results[1] = r.item(r.call("aten.convolution_backward.default", args), 1);
  }
  if (wanted(2)) {
    std::vector<std::int64_t> dims;
    for (std::size_t d = 0; d < r.rank(r["grad_output"]); ++d)
      if (d != 1) dims.push_back(static_cast<std::int64_t>(d));
    results[2] = r.sum(r["grad_output"], dims);
  }
  return results;
}

}  // namespace

void decompose_convolution(DecompositionTable& t) {
  t["aten.convolution_backward.default"] = convolution_backward;
  for (std::string_view op : {"aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default",
                              "aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding"})
    t[op] = convolution(false);
  for (std::string_view op :
       {"aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"})
    t[op] = convolution(true);
}

}  // namespace coil::passes
