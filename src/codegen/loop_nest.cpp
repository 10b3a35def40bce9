#include "codegen/loop_nest.h"

#include "support/error.h"

namespace coil::codegen {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

std::vector<sym::LoopVar> LoopNest::vars() const {
  std::vector<sym::LoopVar> out;
  for (const LoopDim& d : outer) out.push_back({d.var, d.size});
  for (const LoopDim& d : inner) out.push_back({d.var, d.size});
  return out;
}

namespace {

/// Every index expression of a nest, loads, stores and index values alike.
std::vector<Expr> all_indices(const LoopNest& nest) {
  std::vector<Expr> out;
  std::unordered_set<Expr> seen;
  auto take = [&](Expr e) {
    if (!e.is_constant() && seen.insert(e).second) out.push_back(e);
  };
  for (const Statement& s : nest.statements) {
    std::vector<Scalar> roots = s.indirect;
    roots.push_back(s.body);
    for (Scalar n : ir::topological(roots))
      for (Expr e : n->index) take(e);
    take(s.store);
    take(s.position);
  }
  return out;
}

class Builder {
 public:
  Builder(ir::Graph& graph, LoopNest& nest) : graph_(graph), nest_(nest) {}

  /// Loads by the layouts' strides, index expressions simplified under the loops' extents.
  Scalar linear(Scalar body) {
    const auto vars = nest_.vars();
    return graph_.pool().replace_loads(body, [&](Scalar l) -> Scalar {
      const ir::Layout& layout = graph_.buffer(l->buffer).layout;
      Expr index = l->op == ScalarOp::Load ? ir::linear_index(layout, l->index) : l->index[0];
      index = graph_.env().simplify(index, vars);
      return graph_.pool().linear_load(l->buffer, layout.dtype, index, l->args, l->mask);
    });
  }

  /// Orders dimensions by how far apart their neighbours lie in memory, farthest outermost, so that the last is the contiguous one.
  void order(std::vector<LoopDim>& dims) {
    std::vector<std::pair<double, std::size_t>> keys;
    for (std::size_t k = 0; k < dims.size(); ++k) keys.push_back({distance(dims[k].var), k});
    std::stable_sort(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.first > b.first; });
    std::vector<LoopDim> sorted;
    for (auto& [key, k] : keys) sorted.push_back(dims[k]);
    dims = std::move(sorted);
  }

  /// Merges neighbours that every index walks as one.
  void merge(std::vector<LoopDim>& dims) {
    for (std::size_t k = dims.size(); k-- > 1;) {
      if (!mergeable(dims[k - 1], dims[k])) continue;
      const LoopDim a = dims[k - 1], b = dims[k];
      rewrite({a.var, b.var}, {0, b.var});
      dims[k - 1] = {b.var, graph_.env().simplify(a.size * b.size)};
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  void drop_ones(std::vector<LoopDim>& dims) {
    Exprs from;
    std::erase_if(dims, [&](const LoopDim& d) {
      if (d.size.is_constant(1)) from.push_back(d.var);
      return d.size.is_constant(1);
    });
    if (!from.empty()) rewrite(from, Exprs(from.size(), 0));
  }

  void choose_vector(int lanes, bool scans) {
    const double inner = nest_.inner.empty() || scans ? -1e30 : fitness(nest_.inner.back(), lanes);
    const double outer = nest_.outer.empty() ? -1e30 : fitness(nest_.outer.back(), lanes);
    if (inner <= -1e30 && outer <= -1e30) nest_.vector = LoopNest::Vector::None;
    else nest_.vector = inner >= outer ? LoopNest::Vector::Inner : LoopNest::Vector::Outer;
  }

  void choose_tile() {
    if (nest_.vector != LoopNest::Vector::Outer || !nest_.inner.empty() || nest_.outer.size() < 2) return;
    const Expr vector = nest_.outer.back().var;
    double best = 0;
    for (std::size_t k = 0; k + 1 < nest_.outer.size(); ++k) {
      double gain = 0;
      for_each_access([&](ir::BufferId b, Expr index, bool) {
        if (!sym::contains(index, vector)) return;
        auto along = sym::linear_in(index, nest_.outer[k].var);
        if (along && along->coefficient.is_constant(1)) gain += weight(b);
      });
      if (gain > best) best = gain, nest_.tiled = k;
    }
  }

 private:
  double weight(ir::BufferId b) { return static_cast<double>(graph_.env().hint_or(sym::product(graph_.buffer(b).layout.sizes), 1 << 12)) * static_cast<double>(size_of(graph_.buffer(b).layout.dtype)); }

  template <class F>
  void for_each_access(F f) {
    for (const Statement& s : nest_.statements) {
      for (Scalar n : ir::topological(std::span(&s.body, 1)))
        if (n->op == ScalarOp::LinearLoad) f(n->buffer, n->index[0], n->args.empty());
      if (s.stored) f(s.op->outs[0], s.store, true);
    }
  }

  /// Elements between neighbours along a variable, weighted over the accesses that move with it; big accesses decide.
  double distance(Expr var) {
    double sum = 0, total = 0;
    for_each_access([&](ir::BufferId b, Expr index, bool) {
      if (!sym::contains(index, var)) return;
      auto linear = sym::linear_in(index, var);
      const double step = linear ? std::abs(static_cast<double>(graph_.env().hint_or(linear->coefficient, 1 << 20))) : 2;
      sum += weight(b) * step;
      total += weight(b);
    });
    return total > 0 ? sum / total : 1e18;
  }

  bool mergeable(const LoopDim& a, const LoopDim& b) {
    for (Expr e : all_indices(nest_)) {
      const bool has_a = sym::contains(e, a.var), has_b = sym::contains(e, b.var);
      if (!has_a && !has_b) continue;
      auto la = sym::linear_in(e, a.var), lb = sym::linear_in(e, b.var);
      if (!la || !lb || !(la->coefficient == lb->coefficient * b.size)) return false;
    }
    return true;
  }

  void rewrite(const Exprs& from, const Exprs& to) {
    auto same = [](Expr e) { return e; };
    for (Statement& s : nest_.statements) {
      s.body = graph_.pool().substitute(s.body, from, to, same);
      for (Scalar& x : s.indirect) x = graph_.pool().substitute(x, from, to, same);
      s.store = sym::substitute(s.store, from, to);
      s.position = sym::substitute(s.position, from, to);
    }
  }

  /// How well vectors along a dimension suit the accesses: contiguous ones count for, strided and indirect ones against, weighted by bytes.
  double fitness(const LoopDim& dim, int lanes) {
    double sum = 0, total = 0;
    for_each_access([&](ir::BufferId b, Expr index, bool direct) {
      const double w = weight(b);
      total += w;
      if (!sym::contains(index, dim.var)) {
        sum += direct ? 0.25 * w : -0.5 * w;
        return;
      }
      auto linear = sym::linear_in(index, dim.var);
      sum += linear && linear->coefficient.is_constant(1) ? w : -w;
    });
    const double filled = std::min(1.0, static_cast<double>(graph_.env().hint_or(dim.size, 64)) / lanes);
    const double score = total > 0 ? sum / total : 0;
    return score > 0 ? score * filled : score / std::max(filled, 0.05);
  }

  ir::Graph& graph_;
  LoopNest& nest_;
};

}  // namespace

LoopNest make_loop_nest(ir::Graph& graph, const scheduler::Group& group, int lanes) {
  LoopNest nest;
  for (std::size_t d = 0; d < group.outer.size(); ++d) nest.outer.push_back({graph.ivar(d), group.outer[d]});
  for (std::size_t d = 0; d < group.inner.size(); ++d) nest.inner.push_back({graph.rvar(d), group.inner[d]});
  Builder builder(graph, nest);
  bool scans = false;
  for (const scheduler::Member& m : group.members) {
    const ir::Operation& op = graph.operations()[m.op];
    Statement s{.op = &op, .role = m.role, .level = m.level};
    s.body = builder.linear(scheduler::body_in_group(graph, group, m));
    s.store = graph.env().simplify(ir::linear_index(graph.buffer(op.outs[0]).layout, scheduler::store_in_group(graph, group, m)), nest.vars());
    s.stored = !group.internal.contains(op.outs[0]);
    Expr position = 0;
    for (std::size_t d = 0; d < m.rvars.size(); ++d) position = position * op.reduced()[d] + m.rvars[d];
    if (auto* r = std::get_if<ir::Reduction>(&op.node); r && (r->kind == ir::ReductionKind::ArgMax || r->kind == ir::ReductionKind::ArgMin)) s.position = position;
    scans = scans || m.role == Role::Scan;
    nest.levels = std::max(nest.levels, m.level + 1);
    nest.statements.push_back(std::move(s));
  }
  builder.drop_ones(nest.outer);
  if (!scans) builder.drop_ones(nest.inner);
  builder.order(nest.outer);
  builder.order(nest.inner);
  builder.merge(nest.outer);
  builder.merge(nest.inner);
  builder.choose_vector(lanes, scans);
  builder.choose_tile();
  return nest;
}

LoopNest make_scatter_nest(ir::Graph& graph, const ir::Operation& op) {
  const auto& scatter = std::get<ir::Scatter>(op.node);
  LoopNest nest;
  for (std::size_t d = 0; d < scatter.sizes.size(); ++d) nest.inner.push_back({graph.ivar(d), scatter.sizes[d]});
  Builder builder(graph, nest);
  Statement s{.op = &op, .role = Role::Inner};
  s.body = builder.linear(scatter.body);
  for (Scalar x : scatter.indirect) s.indirect.push_back(builder.linear(x));
  s.store = graph.env().simplify(ir::linear_index(graph.buffer(op.outs[0]).layout, scatter.index), nest.vars());
  nest.statements.push_back(std::move(s));
  return nest;
}

}  // namespace coil::codegen
