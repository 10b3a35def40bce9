// Losses in terms of element-wise operators, gather and reductions.
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

enum Reduction : std::int64_t { kNone = 0, kMean = 1, kSum = 2 };

Value reduced(Rewriter& r, const Value& each) {
  std::int64_t reduction = r.number("reduction");
  if (reduction == kMean) return r.call("aten.mean.default", {each});
  if (reduction == kSum) return r.call("aten.sum.default", {each});
  return each;
}

Value absolute(Rewriter& r, const Value& x) { return r.call("aten.abs.default", {x}); }

Value mse_loss(Rewriter& r) {
  Value gap = r.sub(r["self"], r["target"]);
  return reduced(r, r.mul(gap, gap));
}

Value l1_loss(Rewriter& r) { return reduced(r, absolute(r, r.sub(r["self"], r["target"]))); }

/// Quadratic within `width` of the target, linear beyond.
Value smooth_l1_loss(Rewriter& r) {
  bool huber = r.node->target == "aten.huber_loss.default";
  double width = r.real(huber ? "delta" : "beta");
  Value gap = absolute(r, r.sub(r["self"], r["target"]));
  if (width == 0) return reduced(r, gap);
  Value square = r.mul(r.mul(gap, gap), huber ? 0.5 : 0.5 / width), line = r.sub(gap, 0.5 * width);
  if (huber) line = r.mul(line, width);
  return reduced(r, r.where(r.call("aten.lt.Scalar", {gap, width}), square, line));
}

Value weighted(Rewriter& r, const Value& each) { return r.has("weight") ? Value(r.mul(each, r["weight"])) : each; }

/// Logarithms are kept above -100, as eager does.
Value binary_cross_entropy(Rewriter& r) {
  const Value &x = r["self"], &target = r["target"];
  auto log = [&](const Value& v, std::string_view op) {
    return r.call("aten.clamp.default", {r.call(op, {v}), -100, None{}});
  };
  Value no = r.mul(r.sub(target, 1), log(r.call("aten.neg.default", {x}), "aten.log1p.default"));
  return reduced(r, weighted(r, r.sub(no, r.mul(target, log(x, "aten.log.default")))));
}

Value binary_cross_entropy_with_logits(Rewriter& r) {
  const Value &x = r["self"], &target = r["target"];
  Value log_sigmoid = r.call("aten.log_sigmoid.default", {x});
  if (r.has("pos_weight")) {
    Value weight = r.add(r.mul(r.sub(r["pos_weight"], 1), target), 1);
    log_sigmoid = r.mul(log_sigmoid, weight);
  }
  Value rest = r.mul(r.call("aten.rsub.Scalar", {target, 1}), x);
  return reduced(r, weighted(r, r.sub(rest, log_sigmoid)));
}

Value kl_div(Rewriter& r) {
  const Value &x = r["self"], &target = r["target"];
  if (r.flag("log_target")) return reduced(r, r.mul(r.call("aten.exp.default", {target}), r.sub(target, x)));
  return reduced(r, r.sub(r.call("aten.xlogy.Tensor", {target, target}), r.mul(target, x)));
}

Value soft_margin_loss(Rewriter& r) {
  Value margin = r.call("aten.exp.default", {r.call("aten.neg.default", {r.mul(r["target"], r["self"])})});
  return reduced(r, r.call("aten.log1p.default", {margin}));
}

/// In the type of the input: of integers the margin is cut to one.
Value hinge_embedding_loss(Rewriter& r) {
  const Value &x = r["self"], &target = r["target"];
  const Value gap = is_integral(r.dtype(x))
                        ? r.sub(r.to(r.full({}, r["margin"], DType::F64, r.device()), r.dtype(x)), x)
                        : Value(r.call("aten.rsub.Scalar", {x, r["margin"]}));
  Value hinge = r.call("aten.clamp.default", {gap, 0, None{}});
  Value far = r.where(r.call("aten.ne.Scalar", {target, 1}), hinge, 0),
        near = r.where(r.call("aten.ne.Scalar", {target, -1}), x, 0);
  return reduced(r, r.add(far, near));
}

struct ClassLoss {
  Value each, total_weight;
};

/// Minus the log-probability of each target class; ignored targets count for nothing.
ClassLoss negative_log_likelihood(Rewriter& r, const Value& log_probabilities, const Value& target) {
  std::int64_t classes = r.rank(log_probabilities) > 1 ? 1 : 0;
  Value kept = r.call("aten.ne.Scalar", {target, r["ignore_index"]}), safe = r.where(kept, target, 0);
  Value x = log_probabilities;
  bool weighted = r.has("weight");
  Value index = r.unsqueeze(safe, classes), picked;
  auto pick = [&](const Value& from) {
    return r.call("aten.squeeze.dims", {r.call("aten.gather.default", {from, classes, index}), dims_value({classes})});
  };
  Value weights;
  if (weighted) {
    Exprs sizes(r.rank(x), 1);
    sizes[static_cast<std::size_t>(classes)] = r.meta(r["weight"]).sizes[0];
    weights = pick(r.expand(r.reshape(r["weight"], sizes), r.meta(x).sizes));
    weights = r.where(kept, weights, 0);
  }
  picked = r.call("aten.neg.default", {pick(x)});
  if (weighted) picked = r.mul(picked, weights);
  Value each = r.where(kept, picked, 0);
  Value total = weighted ? Value(r.call("aten.sum.default", {weights}))
                         : Value(r.to(r.call("aten.sum.default", {kept}), r.dtype(x)));
  return {each, total};
}

Value reduced_by_weight(Rewriter& r, const ClassLoss& loss) {
  std::int64_t reduction = r.number("reduction");
  if (reduction == kNone) return loss.each;
  Value total = r.call("aten.sum.default", {loss.each});
  return reduction == kSum ? total : Value(r.div(total, loss.total_weight));
}

Value nll_loss(Rewriter& r) { return reduced_by_weight(r, negative_log_likelihood(r, r["self"], r["target"])); }

Value nll_loss_forward(Rewriter& r) {
  ClassLoss loss = negative_log_likelihood(r, r["self"], r["target"]);
  Value weight = r.number("reduction") == kNone ? r.full({}, 0, r.result(1).dtype) : loss.total_weight;
  return Values{reduced_by_weight(r, loss), weight};
}

/// Targets are class numbers, or probabilities of the input's sizes; smoothing mixes in all classes evenly.
Value cross_entropy_loss(Rewriter& r) {
  const Value &x = r["self"], &target = r["target"];
  std::int64_t classes = r.rank(x) > 1 ? 1 : 0;
  auto at = static_cast<std::size_t>(classes);
  double smoothing = r.real("label_smoothing");
  Value log = r.call("aten.log_softmax.int", {x, classes});
  auto class_weights = [&] {
    Exprs sizes(r.rank(x), 1);
    sizes[at] = r.meta(x).sizes[at];
    return r.reshape(r["weight"], sizes);
  };
  Expr count = r.meta(x).sizes[at];
  if (is_floating(r.dtype(target)) && r.rank(target) == r.rank(x)) {
    Value share = target;
    if (smoothing > 0) share = r.add(r.mul(target, 1 - smoothing), r.div(r.full({}, smoothing, r.dtype(x)), count));
    Value product = r.mul(log, share);
    if (r.has("weight")) product = r.mul(product, class_weights());
    Value each = r.call("aten.neg.default", {r.sum(product, {classes})});
    if (r.number("reduction") == kNone) return each;
    Value total = r.call("aten.sum.default", {each});
    if (r.number("reduction") == kSum) return total;
    return r.div(total, r.module.env->simplify(sym::floor_div(r.meta(x).numel(), count)));
  }
  ClassLoss loss = negative_log_likelihood(r, log, target);
  Value made = reduced_by_weight(r, loss);
  if (smoothing == 0) return made;
  Value even = r.has("weight") ? Value(r.mul(log, class_weights())) : log;
  Value kept = r.call("aten.ne.Scalar", {target, r["ignore_index"]});
  Value smooth = r.where(kept, r.call("aten.neg.default", {r.sum(even, {classes})}), 0);
  smooth = reduced_by_weight(r, {smooth, loss.total_weight});
  Value share = r.div(r.full({}, smoothing, r.dtype(x)), count);
  return r.add(r.mul(made, 1 - smoothing), r.mul(smooth, share));
}

/// Products over lengths, which are kept above eps.
Value cosine_similarity(Rewriter& r) {
  DType type = r.result().dtype;
  Value a = r.to(r["x1"], type), b = r.to(r["x2"], type), dim = r["dim"];
  // Lengths are those of the vectors as they are broadcast.
  const Exprs sizes = r.meta(r.mul(a, b)).sizes;
  if (r.meta(a).sizes != sizes) a = r.call("aten.expand.default", {a, sizes, false});
  if (r.meta(b).sizes != sizes) b = r.call("aten.expand.default", {b, sizes, false});
  auto unit = [&](const Value& x) {
    Value length = r.call("aten.linalg_vector_norm.default", {x, 2, Values{dim}, true});
    return r.div(x, r.call("aten.clamp.default", {length, r["eps"], None{}}));
  };
  return r.call("aten.sum.dim_IntList", {r.mul(unit(a), unit(b)), Values{dim}});
}

/// exp(x) - target * x, or x - target * log(x + eps); with Stirling's formula where `full`.
Value poisson_nll_loss(Rewriter& r) {
  const Value &x = r["input"], &target = r["target"];
  Value each = r.flag("log_input") ? Value(r.sub(r.call("aten.exp.default", {x}), r.mul(target, x)))
                                   : Value(r.sub(x, r.mul(target, r.call("aten.log.default", {r.add(x, r["eps"])}))));
  if (r.flag("full")) {
    constexpr double kTau = 6.283185307179586;
    Value stirling = r.sub(r.mul(target, r.call("aten.log.default", {target})), target);
    stirling = r.add(stirling, r.mul(r.call("aten.log.default", {r.mul(target, kTau)}), 0.5));
    each = r.add(each, r.where(r.call("aten.le.Scalar", {target, 1}), 0, stirling));
  }
  return reduced(r, each);
}

}  // namespace

void decompose_losses(DecompositionTable& t) {
  t["aten.mse_loss.default"] = mse_loss;
  t["aten.l1_loss.default"] = l1_loss;
  t["aten.smooth_l1_loss.default"] = smooth_l1_loss;
  t["aten.huber_loss.default"] = smooth_l1_loss;
  t["aten.binary_cross_entropy.default"] = binary_cross_entropy;
  t["aten.binary_cross_entropy_with_logits.default"] = binary_cross_entropy_with_logits;
  t["aten.kl_div.default"] = kl_div;
  t["aten.soft_margin_loss.default"] = soft_margin_loss;
  t["aten.hinge_embedding_loss.default"] = hinge_embedding_loss;
  for (std::string_view op : {"aten.nll_loss.default", "aten.nll_loss_nd.default", "aten.nll_loss2d.default"})
    t[op] = nll_loss;
  for (std::string_view op : {"aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default"})
    t[op] = nll_loss_forward;
  t["aten.cross_entropy_loss.default"] = cross_entropy_loss;
  t["aten.poisson_nll_loss.default"] = poisson_nll_loss;
  t["aten.cosine_similarity.default"] = cosine_similarity;
}

}  // namespace coil::passes
