#include "codegen/heuristics/ragged_rows.h"

#include <algorithm>

#include "sym/assumed_multiples.h"

namespace coil::codegen {
namespace {

/// Where rows begin, by each access that moves along them element by element.
Exprs begins_of_rows(std::span<const AccessOfNest> accesses, Expr var) {
  Exprs out;
  for (const AccessOfNest& a : accesses)
    if (const auto l = sym::linear_in(a.index, var))
      if (l->coefficient.is_constant(1) && std::ranges::find(out, l->rest) == out.end()) out.push_back(l->rest);
  return out;
}

}  // namespace

RaggedRows ragged_rows(ir::Graph& graph, const LoopNest& nest) {
  sym::ShapeEnv& env = graph.env();
  RaggedRows best{.along = env.loop_var("along"), .base = env.loop_var("base")};
  const std::vector<AccessOfNest> accesses = accesses_of(graph, nest);
  const Expr var = nest.inner.back().var;
  for (Expr begin : begins_of_rows(accesses, var)) {
    RaggedRows rows = best;
    rows.begin = begin;
    const Expr from[] = {var}, to[] = {rows.place()};
    std::vector<AccessOfNest> shifted = accesses;
    for (AccessOfNest& a : shifted) a.index = sym::substitute(a.index, from, to);
    for (int width = 8; width > 1; width /= 2) {
      sym::AssumedMultiples known(env);
      known.assume(rows.base, width);
      rows.moved = moved_bytes(env, shifted, {rows.along, width});
      if (!moves_in_vectors(rows.moved, width)) continue;
      rows.vector = width;
      break;
    }
    if (rows.vector > 1 && (best.vector == 1 || rows.moved.packed > best.moved.packed)) best = rows;
  }
  return best;
}

}  // namespace coil::codegen
