// Attention written out is recognised from its softmax: up through mask and scale to query times key, down to the
// product with the values. Between these lie views that only merge or split batch dimensions, copies, and casts around
// the whole in half precision.
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "fx/infer.h"
#include "ops/shapes/einsum.h"
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;
using sym::Expr;
using sym::Exprs;
using sym::TensorMeta;

Node* tensor_argument(const Node& n, std::size_t i) {
  auto* a = i < n.args.size() ? n.args[i].get_if<Node*>() : nullptr;
  return a && (*a)->is_tensor() ? *a : nullptr;
}

const Exprs& sizes(const Node& n) { return n.tensor().sizes; }
Expr from_back(const Node& n, std::size_t i) { return sizes(n)[sizes(n).size() - 1 - i]; }

/// The literal number that an argument is.
std::optional<double> literal(const Value& v) {
  if (auto* d = v.get_if<double>()) return *d;
  if (auto* e = v.get_if<Expr>(); e && e->is_constant()) return static_cast<double>(*e->constant());
  return {};
}

/// The number in a tensor of one element, of the types that scores have.
std::optional<double> only_number(const Tensor& t) {
  if (t.numel() != 1 || !t.device().is_host()) return {};
  if (t.dtype == DType::F32) return *t.data<float>();
  if (t.dtype == DType::F64) return *t.data<double>();
  if (t.dtype == DType::BF16) return std::bit_cast<float>(static_cast<std::uint32_t>(*t.data<std::uint16_t>()) << 16);
  return {};
}

/// A tensor of one repeated number.
std::optional<double> uniform(const fx::GraphModule& m, const Value& v) {
  if (auto number = literal(v)) return number;
  auto* p = v.get_if<Node*>();
  if (!p) return {};
  const Node& n = **p;
  if (n.opcode == fx::Opcode::GetAttr && m.is_constant(n.target)) {
    const auto held = m.attributes.find(n.target);
    return held == m.attributes.end() ? std::nullopt : only_number(held->second);
  }
  if (n.is_call({"aten.scalar_tensor.default"})) return literal(n.args[0]);
  if (n.is_call({"aten.full.default", "aten.full_like.default", "aten.fill.Scalar"})) return literal(n.args[1]);
  if (n.is_call({"aten.zeros.default", "aten.zeros_like.default"})) return 0.0;
  if (n.is_call({"aten.expand.default", "aten.view.default", "aten.clone.default", "aten.lift_fresh_copy.default",
                 "aten._to_copy.default"}))
    return uniform(m, n.args[0]);
  return {};
}

/// The operand of a view or copy that keeps the matrices in the last two dimensions and the order of the batch; null
/// for other nodes.
Node* same_matrices(const Node& n) {
  if (!n.is_call({"aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.expand.default",
                  "aten.clone.default", "aten.contiguous.default", "aten.unsqueeze.default", "aten.squeeze.dim",
                  "aten.alias.default", "aten.dropout.default"}))
    return nullptr;
  if (n.target == "aten.dropout.default" && n.arg("train") != Value(false)) return nullptr;
  Node* input = tensor_argument(n, 0);
  if (!input || input->tensor().rank() < 2 || n.tensor().rank() < 2) return nullptr;
  bool kept = from_back(*input, 0) == from_back(n, 0) && from_back(*input, 1) == from_back(n, 1) &&
              input->tensor().numel() == n.tensor().numel();
  return kept ? input : nullptr;
}

/// Heads repeated by unsqueeze, expand and a copy: [b, h, l, e] -> [b, h, 1, l, e] -> [b, h, g, l, e] -> [b, h*g, l,
/// e].
Node* unrepeated(Node* n, Expr& group) {
  if (n->tensor().rank() != 4) return nullptr;
  Node* at = n;
  while (at && at->tensor().rank() == 4) at = same_matrices(*at);
  while (at && at->tensor().rank() == 5 && at->is_call({"aten.clone.default", "aten.contiguous.default"}))
    at = tensor_argument(*at, 0);
  if (!at || at->tensor().rank() != 5 || !at->is_call({"aten.expand.default"})) return nullptr;
  Node* one = tensor_argument(*at, 0);
  if (!one || one->tensor().rank() != 5 || !sizes(*one)[2].is_constant(1)) return nullptr;
  for (std::size_t i : {0, 1, 3, 4})
    if (sizes(*one)[i] != sizes(*at)[i]) return nullptr;
  if (!one->is_call({"aten.unsqueeze.default"}) || tensor_argument(*one, 0)->tensor().rank() != 4) return nullptr;
  std::int64_t d = one->args[1].as_int().constant().value_or(9);
  group = sizes(*at)[2];
  return d == 2 || d == -3 ? tensor_argument(*one, 0) : nullptr;
}

/// The operand of a product (or quotient) with a literal number.
Node* scaled(const Node& n, double& factor) {
  if (!n.is_call({"aten.mul.Scalar", "aten.mul.Tensor", "aten.div.Scalar", "aten.div.Tensor"})) return nullptr;
  auto number = literal(n.args[1]);
  Node* input = tensor_argument(n, 0);
  if (!number || !input || input->tensor().dtype != n.tensor().dtype) return nullptr;
  factor = n.target.starts_with("aten.mul") ? *number : 1.0 / *number;
  return input;
}

/// The operand of a transposition of the last two dimensions.
Node* transposed(const Node& n) {
  Node* input = tensor_argument(n, 0);
  if (!input) return nullptr;
  const auto rank = static_cast<std::int64_t>(input->tensor().rank());
  auto dim = [&](const Value& v) {
    std::int64_t d = v.as_int().constant().value_or(-rank - 1);
    return d < 0 ? d + rank : d;
  };
  if (n.is_call({"aten.mT.default"}) || (rank == 2 && n.is_call({"aten.t.default"}))) return input;
  if (n.is_call({"aten.transpose.int"})) {
    std::int64_t a = dim(n.args[1]), b = dim(n.args[2]);
    return std::min(a, b) == rank - 2 && std::max(a, b) == rank - 1 ? input : nullptr;
  }
  if (!n.is_call({"aten.permute.default"})) return nullptr;
  const Values& order = n.args[1].as_list();
  for (std::int64_t i = 0; i < rank; ++i) {
    std::int64_t wanted = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
    if (dim(order.at(static_cast<std::size_t>(i))) != wanted) return nullptr;
  }
  return input;
}

/// A matrix product of matrices in the last two dimensions.
bool is_matmul(const Node& n) {
  if (!n.is_call({"aten.bmm.default", "aten.matmul.default"})) return false;
  Node *a = tensor_argument(n, 0), *b = tensor_argument(n, 1);
  return a && b && a->tensor().rank() >= 3 && a->tensor().rank() == b->tensor().rank();
}

/// The lowest finite number of a type of scores, where f64 may take f32's.
double lowest_of(DType d) {
  if (d == DType::F16) return -65504.0;
  return d == DType::BF16 ? -0x1.fep127 : -static_cast<double>(std::numeric_limits<float>::max());
}

/// Scores that are replaced by a low number.
struct Hiding {
  Node* condition = nullptr;
  bool where_true = false;  ///< hides where the condition holds, else where it does not
  double number = 0;
};

struct Attention {
  Node *query = nullptr, *key = nullptr, *value = nullptr;
  Value mask;  ///< None, bool, or added to the scores
  std::optional<Hiding> hiding;
  bool causal = false;
  bool grouped = false;  ///< keys and values have fewer heads than queries
  double scale = 1;
  Node* result = nullptr;  ///< what the fused call replaces
  DType dtype = DType::F32;
};

class Matcher {
 public:
  Matcher(const fx::GraphModule& m, Node* softmax) : module_(m), softmax_(softmax) {}

  std::optional<Attention> match() {
    scores_ = tensor_argument(*softmax_, 0);
    const auto rank = static_cast<std::int64_t>(scores_ ? scores_->tensor().rank() : 0);
    if (rank != 3 && rank != 4) return {};
    if (Expr dim = softmax_->args[1].as_int(); dim != Expr(-1) && dim != Expr(rank - 1)) return {};
    if (softmax_->target == "aten._softmax.default" && softmax_->args[2] != Value(false)) return {};
    if (softmax_->target == "aten.softmax.int" && !softmax_->args[2].is_none()) return {};
    safe_ = softmax_->target == "aten._safe_softmax.default";
    Node* weights = guarded(softmax_);
    if (!weights || !product_with_values(weights) || !scores()) return {};
    half_precision();
    // A number of f16 that is added is not so low that the scores beside it vanish.
    if (found_.hiding && std::isfinite(found_.hiding->number) && found_.dtype == DType::F16) return {};
    grouped_heads();
    return found_;
  }

 private:
  /// The guard against rows without any unmasked score: where(no score is above -inf, 0, softmax). Null when the
  /// weights are used otherwise too.
  Node* guarded(Node* weights) {
    for (Node* user : weights->users()) {
      if (!user->is_call({"aten.where.self"}) || user->args[2] != Value(weights) || uniform(user->args[1]) != 0.0)
        continue;
      const Node* none = tensor_argument(*user, 0);
      const Node* some = none && none->is_call({"aten.logical_not.default"}) ? tensor_argument(*none, 0) : nullptr;
      const Node* above =
          some && some->is_call({"aten.any.dim"}) && some->args[2] == Value(true) ? tensor_argument(*some, 0) : nullptr;
      const Node* equal = above && above->is_call({"aten.logical_not.default"}) ? tensor_argument(*above, 0) : nullptr;
      if (!equal || !equal->is_call({"aten.eq.Scalar"}) || equal->args[0] != Value(scores_) ||
          literal(equal->args[1]) != -std::numeric_limits<double>::infinity())
        continue;
      for (Node* other : weights->users())
        if (other != user && !(other->is_call({"aten.full_like.default", "aten.zeros_like.default"}))) return nullptr;
      safe_ = true;
      return user;
    }
    return weights;
  }

  /// Down from the weights to the product with the values.
  bool product_with_values(Node* weights) {
    Node* at = weights;
    for (;;) {
      if (at->users().size() != 1) return false;
      Node* user = at->users()[0];
      if (is_matmul(*user)) {
        if (user->args[0] != Value(at)) return false;
        found_.result = user;
        break;
      }
      if (same_matrices(*user) != at) return false;
      at = user;
    }
    double unit = 1;
    found_.value = operand(tensor_argument(*found_.result, 1), from_back(*scores_, 0), unit, false);
    if (!found_.value || unit != 1) return false;
    // On to the view that splits the batch again.
    Exprs wanted(sizes(*scores_).begin(), sizes(*scores_).end() - 1);
    wanted.push_back(from_back(*found_.result, 0));
    while (sizes(*found_.result) != wanted) {
      if (found_.result->users().size() != 1) return false;
      Node* user = found_.result->users()[0];
      if (same_matrices(*user) != found_.result) return false;
      found_.result = user;
    }
    return true;
  }

  /// The scores of which the node replaces some, noted in `hiding`; null for other nodes. Numbers this low leave no
  /// weight beside others, so that the number which is added in their place may be lower still.
  Node* shown(const Node& n) {
    constexpr double kLow = -1e9;
    const auto take = [&](const Value& scores, const Value& condition, const Value& number, bool where_true) -> Node* {
      std::optional<double> low = uniform(number);
      if (low && *low < lowest_of(n.tensor().dtype)) low = -std::numeric_limits<double>::infinity();
      Node* const* tensor = scores.get_if<Node*>();
      Node* const* chosen = condition.get_if<Node*>();
      if (!low || *low > kLow || n.tensor().dtype == DType::F16 || !tensor || !chosen || sizes(**tensor) != sizes(n))
        return nullptr;
      if ((*tensor)->tensor().dtype != n.tensor().dtype || (std::isinf(*low) && !safe_)) return nullptr;
      found_.hiding = {.condition = *chosen, .where_true = where_true, .number = *low};
      return *tensor;
    };
    if (n.is_call({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}))
      return take(n.args[0], n.args[1], n.args[2], true);
    if (!n.is_call({"aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf"})) return nullptr;
    if (Node* scores = take(n.args[1], n.args[0], n.args[2], false)) return scores;
    return take(n.args[2], n.args[0], n.args[1], true);
  }

  /// Up from the softmax through mask and scale to query times key.
  bool scores() {
    Node* at = scores_;
    if (Node* before = shown(*at)) {
      at = before;
    } else if (at->is_call({"aten.add.Tensor"}) && at->arg("alpha") == Value(1)) {
      Node *a = tensor_argument(*at, 0), *b = tensor_argument(*at, 1);
      if (!a || !b) return false;
      if (!product(a)) std::swap(a, b);
      if (sizes(*a) != sizes(*at) || at->tensor().dtype != a->tensor().dtype) return false;
      if (!mask(b)) return false;
      at = a;
    }
    Node* p = product(at);
    if (!p) return false;
    found_.query = operand(tensor_argument(*p, 0), from_back(*scores_, 1), found_.scale, false);
    found_.key = operand(tensor_argument(*p, 1), from_back(*scores_, 0), found_.scale, true);
    if (!found_.query || !found_.key) return false;
    for (double f : factors_) found_.scale *= f;
    return true;
  }

  /// The matrix product that scores are, with factors noted on the way.
  Node* product(Node* at) {
    factors_.clear();
    for (;;) {
      if (is_matmul(*at)) return at;
      double factor = 1;
      Node* up = same_matrices(*at);
      if (!up && (up = scaled(*at, factor))) factors_.push_back(factor);
      if (!up) return nullptr;
      at = up;
    }
  }

  /// An operand with the batch dimensions of the scores, as far up as views, copies and factors go.
  Node* operand(Node* at, Expr rows, double& scale, bool must_transpose) {
    Exprs wanted(sizes(*scores_).begin(), sizes(*scores_).end() - 2);
    bool turned = !must_transpose;
    Node* best = nullptr;
    double best_scale = 1, so_far = 1;
    while (at) {
      bool fits = turned && at->tensor().rank() == scores_->tensor().rank() && from_back(*at, 1) == rows &&
                  std::equal(wanted.begin(), wanted.end(), sizes(*at).begin());
      if (fits) best = at, best_scale = so_far;
      double factor = 1;
      Node* up = same_matrices(*at);
      if (!up && (up = scaled(*at, factor))) so_far *= factor;
      if (!up && !turned && (up = transposed(*at))) turned = true;
      at = up;
    }
    scale *= best_scale;
    return best;
  }

  bool mask(Node* m) {
    const TensorMeta& t = m->tensor();
    if (t.rank() > scores_->tensor().rank()) return false;
    // The fused operator gives zeros where every score is masked; written out without a guard, that is NaN.
    if (m->is_call({"aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"})) {
      auto yes = uniform(m->args[1]), no = uniform(m->args[2]);
      if (no && *no < lowest_of(t.dtype)) no = -std::numeric_limits<double>::infinity();
      Node* condition = tensor_argument(*m, 0);
      bool infinite = no == -std::numeric_limits<double>::infinity();
      if (yes == 0.0 && infinite && safe_ && condition && sizes(*condition) == sizes(*m)) {
        if (is_causal(*condition))
          found_.causal = true;
        else
          found_.mask = condition;
        return true;
      }
      if (yes && no && std::isfinite(*yes) && std::isfinite(*no)) {
        found_.mask = m;
        return true;
      }
    }
    if (!safe_) return false;
    found_.mask = m;
    return true;
  }

  /// `key <= query` over positions counted from 0, and perhaps `and True`.
  static bool is_causal(const Node& c) {
    if (c.is_call({"aten.logical_and.default", "aten.bitwise_and.Tensor"})) {
      const Node *a = tensor_argument(c, 0), *b = tensor_argument(c, 1);
      auto is_true = [](const Node* n) { return n && n->is_call({"aten.full.default"}) && n->args[1] == Value(true); };
      if (a && is_true(b)) return sizes(*a) == sizes(c) && is_causal(*a);
      if (b && is_true(a)) return sizes(*b) == sizes(c) && is_causal(*b);
      return false;
    }
    const Node* difference =
        c.is_call({"aten.le.Scalar"}) && literal(c.args[1]) == 0.0 ? tensor_argument(c, 0) : nullptr;
    if (!difference || !difference->is_call({"aten.sub.Tensor"}) || difference->arg("alpha") != Value(1)) return false;
    auto positions = [](const Node* n, std::int64_t dim) {
      if (!n || !n->is_call({"aten.unsqueeze.default"}) || n->tensor().rank() != 2) return false;
      std::int64_t d = n->args[1].as_int().constant().value_or(9);
      const Node* range = tensor_argument(*n, 0);
      if ((d < 0 ? d : d - 2) != dim || !range) return false;
      if (range->is_call({"aten.arange.default"})) return true;
      bool by_one = !range->is_call({"aten.arange.start_step"}) || range->arg("step") == Value(1);
      return range->is_call({"aten.arange.start", "aten.arange.start_step"}) && by_one && range->args[0] == Value(0);
    };
    return positions(tensor_argument(*difference, 0), -2) && positions(tensor_argument(*difference, 1), -1);
  }

  /// Half precision in and out, with f32 between, is how the fused operator computes anyway.
  void half_precision() {
    found_.dtype = found_.query->tensor().dtype;
    auto narrow = [&](Node* n) -> Node* {
      if (!n->is_call({"aten._to_copy.default", "aten.to.dtype"}) || n->tensor().dtype != DType::F32) return nullptr;
      Node* input = tensor_argument(*n, 0);
      return input && (input->tensor().dtype == DType::BF16 || input->tensor().dtype == DType::F16) ? input : nullptr;
    };
    Node *q = narrow(found_.query), *k = narrow(found_.key), *v = narrow(found_.value);
    if (!q || !k || !v || found_.result->users().size() != 1) return;
    const DType half = q->tensor().dtype;
    Node* back = found_.result->users()[0];
    if (k->tensor().dtype != half || v->tensor().dtype != half ||
        !back->is_call({"aten._to_copy.default", "aten.to.dtype"}) || back->tensor().dtype != half)
      return;
    if (auto* m = found_.mask.get_if<Node*>(); m && (*m)->tensor().dtype != DType::Bool && (*m)->tensor().dtype != half)
      return;
    found_.query = q, found_.key = k, found_.value = v, found_.result = back, found_.dtype = half;
  }

  void grouped_heads() {
    Expr of_keys = 0, of_values = 0;
    Node *k = unrepeated(found_.key, of_keys), *v = unrepeated(found_.value, of_values);
    if (!k || !v || of_keys != of_values) return;
    found_.key = k, found_.value = v, found_.grouped = true;
  }

  std::optional<double> uniform(const Value& v) const { return passes::uniform(module_, v); }

  const fx::GraphModule& module_;
  Node* softmax_;
  Node* scores_ = nullptr;
  bool safe_ = false;
  std::vector<double> factors_;
  Attention found_;
};

/// Gives a node other strides, and recomputes metadata downstream of it. Puts all back and says no when a result of the
/// graph would change or a view would become impossible.
bool relay(fx::GraphModule& m, Node* replaced, Node* by) {
  std::unordered_map<Node*, Value> before;
  std::unordered_map<const Node*, std::size_t> order;
  const std::vector<Node*> nodes = m.graph.nodes().all();
  for (std::size_t i = 0; i < nodes.size(); ++i) order[nodes[i]] = i;
  std::set<std::size_t> pending;
  for (Node* user : replaced->users()) pending.insert(order.at(user));
  const Value original = replaced->meta.value;
  replaced->meta.value = by->meta.value;
  bool good = true;
  while (good && !pending.empty()) {
    Node* n = nodes[*pending.begin()];
    pending.erase(pending.begin());
    if (n->opcode == fx::Opcode::Output) {
      good = false;
      break;
    }
    Value now;
    try {
      now = fx::infer(*n, *m.env);
    } catch (const Error&) {
      good = false;
      break;
    }
    if (now == n->meta.value) continue;
    before.emplace(n, std::exchange(n->meta.value, std::move(now)));
    for (Node* user : n->users()) pending.insert(order.at(user));
  }
  if (!good)
    for (auto& [n, value] : before) n->meta.value = value;
  replaced->meta.value = original;
  return good;
}

/// `permute, clone, permute back` gives a tensor other strides; the last of the three, when that is what follows.
Node* relaid(Node* n) {
  if (n->users().size() != 1) return nullptr;
  Node* there = n->users()[0];
  if (!there->is_call({"aten.permute.default"}) || there->users().size() != 1) return nullptr;
  Node* copy = there->users()[0];
  if (!copy->is_call({"aten.clone.default"}) || copy->users().size() != 1) return nullptr;
  Node* back = copy->users()[0];
  if (!back->is_call({"aten.permute.default"})) return nullptr;
  const Values &p = there->args[1].as_list(), &q = back->args[1].as_list();
  for (std::size_t i = 0; i < q.size(); ++i) {
    Expr j = q[i].as_int();
    if (!j.is_constant() || *j.constant() < 0 ||
        p.at(static_cast<std::size_t>(*j.constant())) != Value(static_cast<std::int64_t>(i)))
      return nullptr;
  }
  return back;
}

/// The mask that the fused operator takes: where a number is -inf of bool, which gives 0 where every score is hidden,
/// else of numbers that are added.
Value mask_of(fx::GraphModule& m, const Attention& a) {
  if (!a.hiding) return a.mask;
  const Node* from = a.result;
  const auto& [condition, where_true, number] = *a.hiding;
  if (std::isinf(number)) return where_true ? make_call(m, from, "aten.logical_not.default", {condition}) : condition;
  const TensorMeta& like = a.query->tensor();
  const auto constant = [&](double value) {
    return make_call(m, from, "aten.full.default", {Values{}, value}, {{"dtype", like.dtype}, {"device", like.device}});
  };
  const double lowest =
      like.dtype == DType::BF16 ? -0x1.fep127 : -static_cast<double>(std::numeric_limits<float>::max());
  Node *low = constant(lowest), *none = constant(0.0);
  return make_call(m, from, "aten.where.self",
                   where_true ? Values{condition, low, none} : Values{condition, none, low});
}

void fuse(fx::GraphModule& m, const Attention& a) {
  fx::InsertBefore here(a.result);
  const Node* from = a.result;
  const bool flat = a.query->tensor().rank() == 3;
  auto four = [&](Node* n) -> Node* { return flat ? make_call(m, from, "aten.unsqueeze.default", {n, 0}) : n; };
  std::vector<std::pair<std::string, Value>> named;
  Expr width = from_back(*a.query, 0);
  bool usual = width.is_constant() && std::fabs(a.scale * std::sqrt(static_cast<double>(*width.constant())) - 1) < 1e-6;
  if (!usual) named.emplace_back("scale", a.scale);
  if (a.grouped) named.emplace_back("enable_gqa", true);
  Node* fused = make_call(m, from, "aten.scaled_dot_product_attention.default",
                          {four(a.query), four(a.key), four(a.value), mask_of(m, a), 0.0, a.causal}, named);
  if (flat) fused = make_call(m, from, "aten.squeeze.dim", {fused, 0});
  if (Node* other = relaid(a.result); other && relay(m, other, fused)) return other->replace_all_uses_with(fused);
  if (fused->tensor() == a.result->tensor() || relay(m, a.result, fused)) return a.result->replace_all_uses_with(fused);
  // A result of the graph, in other strides: dense ones are a copy away.
  Node* dense = make_call(m, from, "aten.clone.default", {fused}, {{"memory_format", ops::MemoryFormat::Contiguous}});
  if (dense->tensor() == a.result->tensor()) a.result->replace_all_uses_with(dense);
}

Node* permuted(fx::GraphModule& m, const Node* from, Node* x, const std::vector<std::size_t>& order) {
  if (std::ranges::is_sorted(order)) return x;
  Values dims;
  for (std::size_t d : order) dims.push_back(static_cast<std::int64_t>(d));
  return make_call(m, from, "aten.permute.default", {x, dims});
}

/// An einsum that multiplies matrices, as a matmul of permuted operands.
void multiply_matrices(fx::GraphModule& m, Node* n) {
  const auto product = ops::shapes::matrix_product(n->args[0].as_string());
  const Values& operands = n->args[1].as_list();
  if (!product || operands.size() != 2) return;
  Node *a = operands[0].as_node(), *b = operands[1].as_node();
  if (a->tensor().rank() != product->left.size() || b->tensor().rank() != product->right.size()) return;
  const std::size_t of_left = product->left.back(),
                    of_right = product->right[product->right.size() - 2 + product->turned];
  if (sizes(*a)[of_left] != sizes(*b)[of_right]) return;  // one that is repeated
  fx::InsertBefore here(n);
  Node *left = permuted(m, n, a, product->left), *right = permuted(m, n, b, product->right);
  if (product->turned) right = make_call(m, n, "aten.transpose.int", {right, -2, -1});
  Node* result = permuted(m, n, make_call(m, n, "aten.matmul.default", {left, right}), product->result);
  if (result->tensor() == n->tensor() || relay(m, n, result)) n->replace_all_uses_with(result);
}

void multiply_matrices(fx::GraphModule& m) {
  for (Node* n : m.graph.nodes())
    if (n->is_call({"aten.einsum.default"})) multiply_matrices(m, n);
  m.graph.eliminate_dead_code();
}

bool is_softmax(const Node* n) {
  return n->is_call({"aten._softmax.default", "aten.softmax.int", "aten._safe_softmax.default"});
}

/// Keys and values whose heads were repeated for attention are given to it as they were before.
void share_keys(Node* n) {
  constexpr std::size_t kKey = 1, kValue = 2, kGrouped = 7;
  const bool of_cpu = n->is_call({"aten._scaled_dot_product_flash_attention_for_cpu.default"});
  if (!of_cpu && !n->is_call({"aten.scaled_dot_product_attention.default"})) return;
  if (!of_cpu && n->args[kGrouped] == Value(true)) return;
  Expr of_keys = 0, of_values = 0;
  Node *k = unrepeated(tensor_argument(*n, kKey), of_keys), *v = unrepeated(tensor_argument(*n, kValue), of_values);
  if (!k || !v || of_keys != of_values) return;
  n->set_arg(kKey, k);
  n->set_arg(kValue, v);
  if (!of_cpu) n->set_arg(kGrouped, true);  // the CPU's own operator takes fewer heads as they are
}

/// Products in 16 bits stay where a GPU's library has no fused kernel for heads of their size: attention would be
/// computed in f32.
bool has_kernel(const target::Target& target, const Attention& a) {
  if (!target.has(target::Feature::Attention) || (a.dtype != DType::BF16 && a.dtype != DType::F16)) return true;
  return std::ranges::all_of(std::array{a.query, a.value}, [&](const Node* n) {
    const auto head = from_back(*n, 0).constant();
    return !head || target.takes_attention_head(*head);
  });
}

}  // namespace

void fuse_attention(fx::GraphModule& m, const target::Target& target) {
  for (auto& [name, sub] : m.subgraphs) fuse_attention(*sub, target);
  for (Node* n : m.graph.nodes()) share_keys(n);
  if (std::ranges::none_of(m.graph.nodes().all(), is_softmax)) {
    m.graph.eliminate_dead_code();
    return;
  }
  multiply_matrices(m);
  for (Node* n : m.graph.nodes())
    if (is_softmax(n))
      if (auto found = Matcher(m, n).match(); found && has_kernel(target, *found)) fuse(m, *found);
  m.graph.eliminate_dead_code();
}

}  // namespace coil::passes
