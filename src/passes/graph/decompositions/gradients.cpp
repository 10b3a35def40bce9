// Gradients of losses, lookups, views and distances in terms of element-wise operators, sums, and writes by index.
// Kept for lowering: those of activations, softmax, normalizations, pooling, padding and interpolation.
#include <cmath>
#include <limits>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

enum Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

/// The gradient of each element of a loss: spread evenly where the loss is their mean.
Value each_gradient(Rewriter& r, Expr elements) {
  Value grad = r.widened(r["grad_output"]);
  return r.number("reduction") == kMean ? Value(r.div(grad, elements)) : grad;
}

Value each_gradient(Rewriter& r) { return each_gradient(r, r.meta(r["self"]).numel()); }

Value gap(Rewriter& r) { return r.sub(r.widened(r["self"]), r["target"]); }

/// In the type of the result, and of its sizes where everything was a scalar.
Value finished(Rewriter& r, const Value& made) { return r.expand(r.to(made, r.result().dtype), r.result().sizes); }

Value mse_loss_backward(Rewriter& r) { return finished(r, r.mul(r.mul(gap(r), 2), each_gradient(r))); }

/// Quadratic within `width` of the target, linear beyond.
Value smooth_l1_loss_backward(Rewriter& r) {
  bool huber = r.node->target == "aten.huber_loss_backward.default";
  double width = r.real(huber ? "delta" : "beta");
  Value x = gap(r), grad = each_gradient(r);
  Value slope = huber ? x : Value(r.div(x, width)), steep = r.full({}, huber ? width : 1.0, r.dtype(x));
  slope = r.where(r.call("aten.ge.Scalar", {x, width}), steep, slope);
  slope = r.where(r.call("aten.le.Scalar", {x, -width}), r.call("aten.neg.default", {steep}), slope);
  return finished(r, r.mul(slope, grad));
}

Value soft_margin_loss_backward(Rewriter& r) {
  Value target = r.widened(r["target"]);
  Value slope = r.call("aten.sigmoid.default", {r.call("aten.neg.default", {r.mul(target, r["self"])})});
  return finished(r, r.mul(r.call("aten.neg.default", {r.mul(target, slope)}), each_gradient(r)));
}

Value binary_cross_entropy_backward(Rewriter& r) {
  Value x = r.widened(r["self"]);
  Value variance = r.call("aten.clamp.default", {r.mul(r.call("aten.rsub.Scalar", {x, 1}), x), 1e-12, None{}});
  Value made = r.mul(each_gradient(r), r.div(gap(r), variance));
  if (r.has("weight")) made = r.mul(made, r["weight"]);
  return finished(r, made);
}

/// Minus the weight at each target's class, 0 elsewhere: one comparison for each element, so that what reads it next
/// can be fused with it.
Value nll_loss_backward(Rewriter& r) {
  const Value &self = r["self"], &target = r["target"];
  std::size_t rank = r.rank(self), classes = rank > 1 ? 1 : 0;
  Exprs along(rank, 1);
  along[classes] = r.meta(self).sizes[classes];
  Value grad = r.widened(r["grad_output"]);
  if (r.number("reduction") == kMean) grad = r.div(grad, r["total_weight"]);
  grad = r.call("aten.neg.default", {grad});
  auto at = static_cast<std::int64_t>(classes);
  Value index = target;
  while (r.rank(index) < rank) index = r.unsqueeze(index, r.rank(index) + 1 == rank ? at : 0);
  if (r.rank(grad) + 1 == rank && rank > 1) grad = r.unsqueeze(grad, at);
  if (r.has("weight")) grad = r.mul(grad, r.reshape(r.widened(r["weight"]), along));
  Value chosen = r.call("aten.eq.Tensor", {r.reshape(r.iota(along[classes]), along), index});
  chosen = r.call("aten.logical_and.default", {chosen, r.call("aten.ne.Scalar", {index, r["ignore_index"]})});
  return finished(r, r.where(chosen, grad, 0));
}

Value zeros(Rewriter& r, DType type) { return r.full(r.result().sizes, 0, type, r.result().device); }
Value zeros(Rewriter& r) { return zeros(r, r.result().dtype); }

/// Rows of the gradient added up at their indices, in f32 for narrower types. Rows of the padding index count for
/// nothing.
Value embedding_dense_backward(Rewriter& r) {
  const TensorMeta& grad = r.meta(r["grad_output"]);
  Expr width = grad.sizes.back(), count = r.meta(r["indices"]).numel();
  Value rows = r.reshape(r.widened(r["grad_output"]), {count, width}), index = r.reshape(r["indices"], {count});
  if (r.flag("scale_grad_by_freq")) {
    Value ones = r.full({count}, 1, r.dtype(rows)), none = r.full({r.result().sizes[0]}, 0, r.dtype(rows));
    Value uses = r.call("aten.index_put.default", {none, Values{index}, ones, true});
    rows = r.div(rows, r.unsqueeze(r.call("aten.index.Tensor", {uses, Values{index}}), 1));
  }
  if (Expr padding = r.integer(r["padding_idx"]); !padding.is_constant() || *padding.constant() >= 0) {
    Value padded = r.call("aten.eq.Scalar", {index, r["padding_idx"]});
    rows = r.where(r.unsqueeze(padded, 1), 0, rows);
  }
  return r.to(r.call("aten.index_put.default", {zeros(r, r.dtype(rows)), Values{index}, rows, true}), r.result().dtype);
}

Decomposition written_into_zeros(std::string_view scatter) {
  return [scatter](Rewriter& r) -> Value {
    Values args{zeros(r), r["grad_output"]};
    args.insert(args.end(), r.node->args.begin() + 2, r.node->args.end());
    return r.call(scatter, args);
  };
}

Value trace_backward(Rewriter& r) {
  const Exprs& sizes = r.result().sizes;
  Value diagonal = r.call("aten.eq.Tensor", {r.unsqueeze(r.iota(sizes[0]), 1), r.iota(sizes[1])});
  return r.where(diagonal, r["grad"], 0);
}

/// The gradient of max, min, median, …: to the element that each was.
Value value_selecting_reduction_backward(Rewriter& r) {
  Value grad = r["grad"], indices = r["indices"];
  if (!r.flag("keepdim") && r.result().rank() > 0) {
    std::int64_t d = r.dim("dim", r.result().rank());
    grad = r.unsqueeze(grad, d), indices = r.unsqueeze(indices, d);
  }
  return r.call("aten.scatter.src", {zeros(r), r["dim"], indices, grad});
}

Value index_select_backward(Rewriter& r) {
  return r.call("aten.index_add.default", {zeros(r), r["dim"], r["index"], r["grad"]});
}

Value dropout_backward(Rewriter& r) {
  const DType type = r.result().dtype;
  return r.to(r.mul(r.mul(r.to(r["grad_output"], type), r.to(r["mask"], type)), r["scale"]), type);
}

/// In training the slopes are those that were drawn.
Value rrelu_backward(Rewriter& r) {
  const double lower = r.real("lower"), upper = r.real("upper");
  if (r.flag("training")) return r.to(r.mul(r["noise"], r["grad_output"]), r.result().dtype);
  return r.call("aten.leaky_relu_backward.default",
                {r["grad_output"], r["self"], (lower + upper) / 2, r.flag("self_is_result")});
}

/// w = v * g / |v|: the gradient of v is freed of what points along v; that of g is its length along v.
Value weight_norm_backward(Rewriter& r) {
  Value v = r.widened(r["saved_v"]), g = r.widened(r["saved_g"]), grad = r.widened(r["grad_w"]),
        norm = r.widened(r["saved_norms"]);
  std::int64_t kept = r.number("dim");
  std::vector<std::int64_t> dims;
  for (std::size_t d = 0; d < r.rank(v); ++d)
    if (static_cast<std::int64_t>(d) != kept) dims.push_back(static_cast<std::int64_t>(d));
  Value along = r.mul(grad, v);
  if (!dims.empty()) along = r.sum(along, dims, r.rank(norm) == r.rank(v));
  Value grad_v = r.mul(r.div(g, norm), r.sub(grad, r.mul(v, r.div(along, r.mul(norm, norm)))));
  return Values{r.to(grad_v, r.result(0).dtype), r.to(r.div(along, norm), r.result(1).dtype)};
}

/// The gradient of x1; `cdist` holds the distances. Points that coincide get no gradient from each other.
Value cdist_backward(Rewriter& r) {
  double p = r.real("p");
  Value difference = r.sub(r.unsqueeze(r["x1"], -2), r.unsqueeze(r["x2"], -3));
  Value distance = r.unsqueeze(r["cdist"], -1), grad = r.unsqueeze(r["grad"], -1);
  Value sign = r.call("aten.sign.default", {difference}), magnitude = r.call("aten.abs.default", {difference});
  Value slope;
  if (p == 0) return zeros(r);
  if (p == 1)
    slope = sign;
  else if (std::isinf(p))
    slope = r.mul(sign, r.to(r.call("aten.eq.Tensor", {magnitude, distance}), r.dtype(sign)));
  else if (p == 2)
    slope = r.div(difference, distance);
  else
    slope = r.mul(sign, r.call("aten.pow.Tensor_Scalar", {r.div(magnitude, distance), p - 1}));
  if (p != 1) slope = r.where(r.call("aten.eq.Scalar", {p < 1 ? magnitude : distance, 0}), 0, slope);
  std::vector<std::int64_t> rows = {-2};
  Value made = r.sum(r.mul(grad, slope), rows);
  return r.to(made, r.result().dtype);
}

/// Batch norm's newer name, with a place for what cuDNN keeps.
Value batch_norm_backward(Rewriter& r) {
  fx::Node* made = r.call("aten.native_batch_norm_backward.default",
                          {r["grad_out"], r["input"], r["weight"], r["running_mean"], r["running_var"], r["save_mean"],
                           r["save_var"], r["update"], r["eps"], r["output_mask"]});
  Values results(3, None{});
  for (std::size_t i = 0; i < 3; ++i)
    if (r["output_mask"].as_list()[i].as_bool()) results[i] = r.item(made, static_cast<std::int64_t>(i));
  return results;
}

}  // namespace

void decompose_gradients(DecompositionTable& t) {
  t["aten.mse_loss_backward.default"] = mse_loss_backward;
  t["aten.smooth_l1_loss_backward.default"] = smooth_l1_loss_backward;
  t["aten.huber_loss_backward.default"] = smooth_l1_loss_backward;
  t["aten.soft_margin_loss_backward.default"] = soft_margin_loss_backward;
  t["aten.binary_cross_entropy_backward.default"] = binary_cross_entropy_backward;
  for (std::string_view op : {"aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default"})
    t[op] = nll_loss_backward;
  t["aten.embedding_dense_backward.default"] = embedding_dense_backward;
  t["aten.select_backward.default"] = written_into_zeros("aten.select_scatter.default");
  t["aten.slice_backward.default"] = written_into_zeros("aten.slice_scatter.default");
  t["aten.diagonal_backward.default"] = written_into_zeros("aten.diagonal_scatter.default");
  t["aten.trace_backward.default"] = trace_backward;
  t["aten.value_selecting_reduction_backward.default"] = value_selecting_reduction_backward;
  t["aten.index_select_backward.default"] = index_select_backward;
  t["aten.native_dropout_backward.default"] = dropout_backward;
  t["aten.rrelu_with_noise_backward.default"] = rrelu_backward;
  t["aten._weight_norm_interface_backward.default"] = weight_norm_backward;
  t["aten._cdist_backward.default"] = cdist_backward;
  t["aten.batch_norm_backward.default"] = batch_norm_backward;
}

}  // namespace coil::passes
