#include "codegen/heuristics/unrolling.h"

#include <unordered_set>

namespace coil::codegen {
namespace {

std::vector<LoopDim> rolled(std::vector<LoopDim> dims, std::span<const Unrolled> unrolled) {
  for (const Unrolled& u : unrolled) {
    Expr& size = dims[u.dim].size;
    size = u.whole ? sym::floor_div(size, u.run) : size - (u.run - 1);
  }
  return dims;
}

Exprs variables_of_runs(const std::vector<LoopDim>& dims, std::span<const Unrolled> unrolled) {
  Exprs out;
  for (const Unrolled& u : unrolled) out.push_back(dims[u.dim].var);
  return out;
}

/// What the variables of unrolled loops become, for each turn; the last moves fastest.
std::vector<Exprs> turns_of(const std::vector<LoopDim>& dims, std::span<const Unrolled> unrolled) {
  std::vector<Exprs> all{{}};
  for (const Unrolled& u : unrolled) {
    std::vector<Exprs> longer;
    for (const Exprs& begin : all)
      for (int k = 0; k < u.run; ++k) {
        const Expr var = dims[u.dim].var;
        longer.push_back(begin);
        longer.back().push_back(dims[u.dim].size.is_constant(u.run) ? Expr(k) : u.whole ? var * u.run + k : var + k);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

Unrolling::Unrolling(ir::Graph& graph, const LoopNest& nest, std::span<const Unrolled> outer,
                     std::span<const Unrolled> inner) {
  nest_.vector = nest.vector;
  nest_.levels = nest.levels;
  nest_.outer = rolled(nest.outer, outer);
  nest_.inner = rolled(nest.inner, inner);
  std::erase_if(nest_.inner, [](const LoopDim& d) { return d.size.is_constant(1); });
  const Exprs from = variables_of_runs(nest.outer, outer);
  for (const Exprs& to : turns_of(nest.outer, outer)) add_step(graph, nest, from, to, inner);
}

void Unrolling::add_step(ir::Graph& graph, const LoopNest& nest, const Exprs& from, const Exprs& to,
                         std::span<const Unrolled> inner) {
  const auto loops = nest_.vars();
  const auto simplify = [&](Expr e) { return graph.env().simplify(e, loops); };
  auto add = [&](const Statement& s, const Exprs& variables, const Exprs& values) {
    Statement copy = s;
    copy.body = graph.pool().substitute(s.body, variables, values, simplify);
    copy.store = simplify(sym::substitute(s.store, variables, values));
    nest_.statements.push_back(std::move(copy));
  };
  const Exprs along = variables_of_runs(nest.inner, inner);
  for (const Statement& s : nest.statements) {
    if (s.role != scheduler::Role::Reduce) {
      add(s, from, to);
      continue;
    }
    for (const Exprs& point : turns_of(nest.inner, inner)) {
      Exprs variables = from, values = to;
      variables.insert(variables.end(), along.begin(), along.end());
      values.insert(values.end(), point.begin(), point.end());
      add(s, variables, values);
    }
  }
  ++steps_;
}

double Unrolling::share_of_loads() const {
  std::size_t all = 0;
  std::unordered_set<ir::Scalar> distinct;
  for (const Statement& s : nest_.statements) {
    if (s.role != scheduler::Role::Reduce) continue;
    for (ir::Scalar l : ir::loads(s.body)) {
      ++all;
      distinct.insert(l);
    }
  }
  return all == 0 ? 1 : static_cast<double>(distinct.size()) / static_cast<double>(all);
}

}  // namespace coil::codegen
