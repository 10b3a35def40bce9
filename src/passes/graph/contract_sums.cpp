// Sums over products of values that are repeated against each other, `(a[:, :, None] * b[:, None]).sum(-1)`, multiply
// matrices: each element of the one meets many of the other. State space models, the gradients of broadcasts and
// comparisons of all pairs are written so. As loops they read all operands anew for every result, or worse, the product
// of all with all goes through memory; libraries multiply matrices ten times as fast.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ops/shapes/strides.h"
#include "passes/graph/decompositions/rewriter.h"
#include "passes/graph/passes.h"
#include "passes/graph/repeats.h"

namespace coil::passes {

namespace {

using fx::Node;

constexpr std::size_t kMostFactors = 4;
/// Multiplications for each element that is read or written, below which a loop is as fast: both are bound by memory.
constexpr double kLeastReuse = 6;
/// Multiplications below which a call of a library costs more than it saves: on a processor, and on a machine with
/// grids of threads, where a loop goes on thousands of threads at once.
constexpr double kLeastWork = 1 << 17, kLeastWorkOfGrids = 1 << 21;

/// A set of dimensions of the product that is summed.
using Dims = std::vector<bool>;

/// What is multiplied, and the dimensions in which it is not one thing repeated.
struct Factor {
  Node* node;
  Dims has;
};

/// The dimensions by what they are to the product of matrices: of both and kept, of one and kept, of both and summed.
struct Roles {
  std::vector<std::size_t> batch, left, right, summed;
};

bool is_number(const Value& v) { return v.is<double>() || v.is<Expr>(); }

/// Whether a node is a tensor of this type.
bool is_of(const Value& v, DType dtype) {
  return v.is<Node*>() && v.as_node()->is_tensor() && v.as_node()->tensor().dtype == dtype;
}

/// Whether a node multiplies two tensors of its own type.
bool multiplies(const Node& n) {
  return n.is_call("aten.mul.Tensor") && is_of(n.args[0], n.tensor().dtype) && is_of(n.args[1], n.tensor().dtype);
}

/// Whether a node multiplies a tensor of its own type with a number, or divides it by one.
bool scales(const Node& n) {
  constexpr std::string_view kTargets[] = {"aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar"};
  return std::ranges::any_of(kTargets, [&](std::string_view target) { return n.is_call(target); }) &&
         is_of(n.args[0], n.tensor().dtype) && is_number(n.args[1]);
}

class Contraction {
 public:
  Contraction(fx::GraphModule& m, Repeats& repeats, Node* sum, const target::Target& target)
      : m_(m),
        repeats_(repeats),
        sum_(sum),
        target_(target),
        product_(sum->args[0].as_node()),
        sizes_(product_->tensor().sizes) {}

  /// What replaces the sum; null where it stays.
  Node* rewritten() {
    if (!find_summed() || !collect(product_)) return nullptr;
    const std::optional<std::size_t> split = best_split();
    if (!split) return nullptr;
    const Roles roles = *roles_of(*split);
    fx::InsertBefore here(sum_);
    Rewriter r(m_, sum_, target_);
    const Value left = operand(r, *split, true, {&roles.batch, &roles.left, &roles.summed});
    const Value right = operand(r, *split, false, {&roles.batch, &roles.summed, &roles.right});
    const Value made = back(r, r.call("coil.contraction.default", {left, right}), roles);
    if (r.meta(made) == sum_->tensor()) return made.as_node();
    Node* dense = in_order_of_strides(r, made).as_node();
    return dense->tensor() == sum_->tensor() ? dense : nullptr;
  }

 private:
  bool find_summed() {
    const auto rank = static_cast<std::int64_t>(sizes_.size());
    summed_.assign(sizes_.size(), false);
    if (!sum_->args[1].is<Values>()) return false;
    for (const Value& dim : sum_->args[1].as_list()) {
      const auto d = dim.as_int().constant();
      if (!d || *d < -rank || *d >= rank) return false;
      summed_[static_cast<std::size_t>((*d + rank) % rank)] = true;
    }
    return true;
  }

  /// Takes products of broadcasts apart into what they multiply; false for too many.
  bool collect(Node* n) {
    const bool may_go = n == product_ || n->users().size() == 1;
    if (may_go && scales(*n)) {
      scales_.push_back(n);
      return collect(n->args[0].as_node());
    }
    const auto is_spread = [&] {
      return n == product_ || count(*n) > 2 * std::max(count(*n->args[0].as_node()), count(*n->args[1].as_node()));
    };
    if (may_go && multiplies(*n) && is_spread()) return collect(n->args[0].as_node()) && collect(n->args[1].as_node());
    n = repeats_.once(n);
    const Exprs& own = n->tensor().sizes;
    Factor factor{n, Dims(sizes_.size(), false)};
    for (std::size_t d = 0; d < own.size(); ++d) factor.has[sizes_.size() - own.size() + d] = !own[d].is_constant(1);
    factors_.push_back(std::move(factor));
    return factors_.size() <= kMostFactors;
  }

  double count(const Exprs& sizes) const {
    double n = 1;
    for (const Expr& size : sizes) n *= static_cast<double>(m_.env->hint_or(size, 0));
    return n;
  }
  double count(const Node& n) const { return count(n.tensor().sizes); }
  double count(const std::vector<std::size_t>& dims) const {
    double n = 1;
    for (std::size_t d : dims) n *= static_cast<double>(m_.env->hint_or(sizes_[d], 0));
    return n;
  }

  /// Whether a factor is on the left where bit k of `split` is set for factor k; the first one always is.
  static bool is_left(std::size_t split, std::size_t factor) { return split >> factor & 1; }

  Dims dims_of(std::size_t split, bool left) const {
    Dims has(sizes_.size(), false);
    for (std::size_t f = 0; f < factors_.size(); ++f)
      for (std::size_t d = 0; d < has.size(); ++d)
        if (is_left(split, f) == left && factors_[f].has[d]) has[d] = true;
    return has;
  }

  /// None where one side alone, or what is one thing repeated, is summed.
  std::optional<Roles> roles_of(std::size_t split) const {
    const Dims left = dims_of(split, true), right = dims_of(split, false);
    Roles roles;
    for (std::size_t d = 0; d < sizes_.size(); ++d) {
      if (summed_[d] && !sizes_[d].is_constant(1) && !(left[d] && right[d])) return std::nullopt;
      if (!left[d] && !right[d]) continue;
      auto& to = summed_[d] ? roles.summed : left[d] && right[d] ? roles.batch : left[d] ? roles.left : roles.right;
      to.push_back(d);
    }
    return roles;
  }

  /// Multiplications for each element that a split reads or writes; 0 where it is no product of matrices.
  double reuse(const Roles& r) const {
    const double batch = count(r.batch), left = count(r.left), right = count(r.right), terms = count(r.summed);
    const double least = target_.has(target::Feature::ThreadGrids) ? kLeastWorkOfGrids : kLeastWork;
    if (left < 2 || right < 2 || terms < 2 || batch * left * right * terms < least) return 0;
    return 1 / (1 / left + 1 / right + 1 / terms);
  }

  std::optional<std::size_t> best_split() const {
    std::optional<std::size_t> best;
    double most = kLeastReuse;
    for (std::size_t split = 1; split < (std::size_t{1} << factors_.size()) - 1; split += 2)
      if (const auto roles = roles_of(split); roles && reuse(*roles) >= most) {
        most = reuse(*roles);
        best = split;
      }
    return best;
  }

  /// The factors of one side, multiplied, with the dimensions of each group as one but those of the batch.
  Value operand(Rewriter& r, std::size_t split, bool left,
                std::array<const std::vector<std::size_t>*, 3> groups) const {
    Value made;
    for (std::size_t f = 0; f < factors_.size(); ++f)
      if (is_left(split, f) == left) made = made.is_none() ? Value(factors_[f].node) : r.mul(made, factors_[f].node);
    if (left) made = scaled(r, made);
    const std::size_t missing = sizes_.size() - r.rank(made);
    const auto step = [&](const std::vector<std::size_t>& group) {
      return m_.env->hint_or(r.meta(made).strides[group.back() - missing], 0);
    };
    // Matrices whose batch takes one step are what libraries of GPUs take. Others are copied as their rows lie.
    const bool flat = target_.has(target::Feature::ThreadGrids), turned = flat && step(*groups[1]) < step(*groups[2]);
    if (turned) std::swap(groups[1], groups[2]);
    std::vector<std::int64_t> order;
    for (const auto* group : groups)
      for (std::size_t d : *group) order.push_back(static_cast<std::int64_t>(d - missing));
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(r.rank(made)); ++d)  // of size 1
      if (std::ranges::find(order, d) == order.end()) order.push_back(d);
    Exprs sizes = flat ? Exprs{number_of(*groups[0])} : sizes_of(*groups[0]);
    for (const auto* group : {groups[1], groups[2]}) sizes.push_back(number_of(*group));
    const Value dense = r.reshape(r.permute(made, order), sizes);
    return turned ? r.permute(dense, {0, 2, 1}) : dense;
  }

  /// What the numbers that the product is multiplied with, and the mean, make of one side.
  Value scaled(Rewriter& r, Value made) const {
    for (const Node* n : scales_) made = r.call(n->target, {made, n->args[1]});
    if (!sum_->is_call("aten.mean.dim")) return made;
    Expr terms = 1;
    for (std::size_t d = 0; d < sizes_.size(); ++d)
      if (summed_[d]) terms = terms * sizes_[d];
    return r.call("aten.div.Tensor", {made, m_.env->simplify(terms)});
  }

  Expr number_of(const std::vector<std::size_t>& dims) const { return m_.env->simplify(sym::product(sizes_of(dims))); }
  Exprs sizes_of(const std::vector<std::size_t>& dims) const {
    Exprs sizes;
    for (std::size_t d : dims) sizes.push_back(sizes_[d]);
    return sizes;
  }

  /// The product of matrices in the sizes of the sum.
  Value back(Rewriter& r, const Value& product, const Roles& roles) const {
    std::vector<std::size_t> dims;
    for (const auto* group : {&roles.batch, &roles.left, &roles.right})
      dims.insert(dims.end(), group->begin(), group->end());
    std::vector<std::int64_t> order(dims.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<std::int64_t>(k);
    std::ranges::sort(order, {}, [&](std::int64_t k) { return dims[static_cast<std::size_t>(k)]; });
    const bool keeps = sum_->tensor().rank() == sizes_.size();
    Exprs once;
    for (std::size_t d = 0; d < sizes_.size(); ++d)
      if (!summed_[d])
        once.push_back(std::ranges::find(dims, d) == dims.end() ? Expr(1) : sizes_[d]);
      else if (keeps)
        once.push_back(1);
    return r.expand(r.reshape(r.permute(r.reshape(product, sizes_of(dims)), order), once), sum_->tensor().sizes);
  }

  /// A copy whose dimensions lie in memory in the order that those of the sum do.
  Value in_order_of_strides(Rewriter& r, const Value& made) const {
    const std::vector<std::int64_t> order = ops::shapes::memory_order(*m_.env, sum_->tensor().strides);
    return r.permute(r.contiguous(r.permute(made, order)), ops::shapes::inverse_order(order));
  }

  fx::GraphModule& m_;
  Repeats& repeats_;
  Node* sum_;
  const target::Target& target_;
  Node* product_;
  const Exprs& sizes_;
  Dims summed_;
  std::vector<Factor> factors_;
  std::vector<const Node*> scales_;
};

/// A sum or mean of a product that nothing else reads, in the product's type.
bool may_contract(const Node& n) {
  if (!(n.is_call("aten.sum.dim_IntList") || n.is_call("aten.mean.dim")) || !n.is_tensor()) return false;
  const Node* product = n.args[0].as_node();
  return is_floating(n.tensor().dtype) && is_of(n.args[0], n.tensor().dtype) &&
         (multiplies(*product) || scales(*product)) && product->users().size() == 1;
}

}  // namespace

void contract_sums(fx::GraphModule& m, const target::Target& target) {
  for (auto& [name, sub] : m.subgraphs) contract_sums(*sub, target);
  Repeats repeats(m, target);
  bool looked = false;
  for (Node* n : m.graph.nodes()) {
    if (!may_contract(*n)) continue;
    looked = true;
    if (Node* made = Contraction(m, repeats, n, target).rewritten()) n->replace_all_uses_with(made);
  }
  if (looked) m.graph.eliminate_dead_code();
}

}  // namespace coil::passes
