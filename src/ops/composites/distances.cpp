// Distances, and the losses that eager writes in terms of them.
#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

Value norm_last(Steps& s, const Value& x, const Value& p, bool keepdim = false) {
  return s.call("aten.norm.ScalarOpt_dim", {x, p, Steps::list({-1}), keepdim});
}

Value dist(Steps& s) { return s.call("aten.norm.Scalar", {s.sub(s["self"], s["other"]), s["p"]}); }

Value pairwise(Steps& s, const Value& a, const Value& b, const Value& p, const Value& eps, bool keepdim) {
  return norm_last(s, s.add(s.sub(a, b), eps), p, keepdim);
}

Value pairwise_distance(Steps& s) { return pairwise(s, s["x1"], s["x2"], s["p"], s["eps"], s.flag("keepdim")); }

/// Distances of every row to every later one.
Value pdist(Steps& s) {
  const Value& x = s["self"];
  if (s.rank(x) != 2) s.refuse("takes a matrix");
  const Expr n = s.sizes(x)[0], pairs = sym::floor_div(n * (n - 1), 2);
  // Places of a triangle in row-major order: a stable sort puts those that are inside first.
  const Value outside = s.call("aten.ge.Tensor", {s.unsqueeze(s.iota(n), 1), s.iota(n)});
  const Value sorted = s.item(s.call("aten.sort.stable", {s.to(s.reshape(outside, {n * n}), DType::U8)},
                                     {{"stable", true}, {"dim", 0}, {"descending", false}}),
                              1);
  auto rows = [&](const Value& which) { return s.call("aten.index_select.default", {x, 0, which}); };
  const Value place = s.call("aten.index_select.default", {sorted, 0, s.iota(pairs)}), length = sym::max(n, 1);
  const Value row = s.call("aten.div.Tensor_mode", {place, length}, {{"rounding_mode", "floor"}});
  return norm_last(s, s.sub(rows(row), rows(s.sub(place, s.mul(row, length)))), s["p"]);
}

Value clamped(Steps& s, const Value& x) { return s.call("aten.clamp_min.default", {x, 0}); }

Value margin_ranking(Steps& s) {
  return s.reduced(clamped(s, s.add(s.mul(s.unary("neg", s["target"]), s.sub(s["input1"], s["input2"])), s["margin"])));
}

Value triplet_margin(Steps& s) {
  auto distance = [&](const Value& a, const Value& b) { return pairwise(s, a, b, s["p"], s["eps"], false); };
  Value near = distance(s["anchor"], s["positive"]), far = distance(s["anchor"], s["negative"]);
  if (s.flag("swap")) far = s.call("aten.minimum.default", {far, distance(s["positive"], s["negative"])});
  return s.reduced(clamped(s, s.add(s.sub(near, far), s["margin"])));
}

Value cosine_embedding(Steps& s) {
  constexpr double kEps = 1e-12;
  const Value &a = s["input1"], &b = s["input2"], &target = s["target"];
  const auto dim = static_cast<std::int64_t>(s.rank(target));
  auto product = [&](const Value& x, const Value& y) { return s.sum(s.mul(x, y), {dim}); };
  Value lengths = s.mul(s.add(product(a, a), kEps), s.add(product(b, b), kEps));
  Value cosine = s.div(product(a, b), s.unary("sqrt", lengths));
  Value none = s.call("aten.zeros_like.default", {cosine});
  Value alike = s.sub(s.call("aten.ones_like.default", {cosine}), cosine),
        unlike = clamped(s, s.sub(cosine, s["margin"]));
  return s.reduced(s.add(s.where(s.call("aten.eq.Scalar", {target, 1}), alike, none),
                         s.where(s.call("aten.eq.Scalar", {target, -1}), unlike, none)));
}

/// How far every other class comes within the margin of the target's.
Value multi_margin(Steps& s) {
  Value x = s["self"], target = s["target"];
  const std::size_t rank = s.rank(x);
  if (rank < 2) x = s.reshape(x, {1, rank == 0 ? Expr(1) : s.size(x, 0)}), target = s.reshape(target, {1});
  const double p = s.real("p");
  if (p != 1 && p != 2) s.refuse("takes p of 1 or 2");
  Value column = s.unsqueeze(target, 1);
  Value each =
      clamped(s, s.add(s.sub(s["margin"].is<double>() || s["margin"].is<Expr>() ? s.full({}, s["margin"], s.dtype(x))
                                                                                : s["margin"],
                             s.call("aten.gather.default", {x, 1, column})),
                       x));
  if (p == 2) each = s.mul(each, each);
  if (s.has("weight"))
    each = s.mul(each, s.unsqueeze(s.call("aten.index_select.default", {s["weight"], 0, target}), 1));
  Value others = s.call("aten.ne.Tensor", {s.iota(s.size(x, 1)), column});
  Value made = s.div(s.sum(s.where(others, each, s.full({}, 0, s.dtype(x))), {1}), s.size(x, 1));
  if (rank < 2) made = s.reshape(made, {});
  return s.reduced(made);
}

/// How far every class that is no target comes within 1 of each target; targets end at the first negative one.
Values multilabel_margins(Steps& s) {
  Value x = s["self"], target = s["target"];
  const std::size_t rank = s.rank(x);
  const Exprs shape = s.sizes(target);
  if (rank < 2)
    x = s.reshape(x, {1, rank == 0 ? Expr(1) : s.size(x, 0)}), target = s.reshape(target, {1, s.size(x, 1)});
  const DType type = s.dtype(x);
  const Value valid = s.call("aten.cumprod.default", {s.to(s.call("aten.ge.Scalar", {target, 0}), DType::I64), 1});
  const Value place = s.mul(target, valid), held = s.call("aten.gt.Scalar", {valid, 0});
  Value same = s.call("aten.eq.Tensor", {s.unsqueeze(place, 2), s.iota(s.size(x, 1))});
  const Value is_target = s.call("aten.any.dim", {s.call("aten.logical_and.default", {same, s.unsqueeze(held, 2)}), 1});
  Value each =
      clamped(s, s.add(s.sub(s.unsqueeze(x, 1), s.unsqueeze(s.call("aten.gather.default", {x, 1, place}), 2)), 1));
  const Value counted =
      s.call("aten.logical_and.default", {s.unsqueeze(held, 2), s.unsqueeze(s.unary("logical_not", is_target), 1)});
  Value made = s.div(s.sum(s.where(counted, each, s.full({}, 0, type)), {1, 2}), s.size(x, 1));
  if (rank < 2) made = s.reshape(made, {});
  return {s.reduced(made), s.reshape(s.to(is_target, type), shape)};
}

Value multilabel_margin(Steps& s) { return multilabel_margins(s)[0]; }
Value multilabel_margin_forward(Steps& s) { return multilabel_margins(s); }

constexpr Composite kDistances[] = {
    {"aten::dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", dist},
    {"aten::pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> Tensor",
     pairwise_distance},
    {"aten::pdist(Tensor self, float p=2) -> Tensor", pdist},
    {"aten::_pdist_forward(Tensor self, float p=2) -> Tensor", pdist},
    {"aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> "
     "Tensor",
     margin_ranking},
    {"aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float "
     "eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
     triplet_margin},
    {"aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> "
     "Tensor",
     cosine_embedding},
    {"aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int "
     "reduction=1) -> Tensor",
     multi_margin},
    {"aten::multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", multilabel_margin},
    {"aten::multilabel_margin_loss_forward(Tensor self, Tensor target, int reduction) -> (Tensor output, Tensor "
     "is_target)",
     multilabel_margin_forward},
};

}  // namespace

std::span<const Composite> distances() { return kDistances; }

}  // namespace coil::ops::composites
