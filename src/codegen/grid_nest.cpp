#include "codegen/grid_nest.h"

#include <algorithm>
#include <unordered_map>

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr int kSideBySide = 8;       // elements that loop orders should find side by side
constexpr std::int64_t kNarrow = 8;  // of a dimension that a thread takes whole

bool computes_in_order(const Statement& s, bool pointwise) {
  return s.role == Role::Inner || (pointwise && s.role == Role::Outer);
}

/// Values of points flow into the bodies that read them at the same point; what is read elsewhere in the row must be in
/// memory.
void inline_values(ir::Graph& graph, LoopNest& nest) {
  bool pointwise = true;
  for (const Statement& s : nest.statements) pointwise = pointwise && s.role == Role::Outer;
  std::unordered_map<ir::BufferId, Statement*> made;
  for (Statement& s : nest.statements) {
    bool updates = false;
    auto value = [&](Scalar l) -> Scalar {
      updates = updates || l->buffer == s.op->outs[0];
      auto it = made.find(l->buffer);
      if (it == made.end()) return nullptr;
      Statement& m = *it->second;
      if (!computes_in_order(m, pointwise)) return nullptr;
      if (l->index[0] == m.store && l->dtype == m.body->dtype)
        return l->mask ? graph.pool().op(ScalarOp::Where, l->mask, m.body, graph.pool().constant(l->dtype, 0)) : m.body;
      m.stored = true;
      return nullptr;
    };
    s.body = graph.pool().replace_loads(s.body, value);
    if (!updates) made[s.op->outs[0]] = &s;
  }
}

/// Squares over a dimension of a few elements are empty for the most part. A thread takes all of them instead, as a
/// vector where they lie side by side, and threads stand along the other dimension.
void take_narrow_whole(LoopNest& nest) {
  if (!nest.tiled) return;
  const auto narrow = [](const LoopDim& d) { return d.size.constant() && *d.size.constant() <= kNarrow; };
  const auto u = nest.outer.begin() + static_cast<std::ptrdiff_t>(*nest.tiled);
  if (!narrow(nest.outer.back()) && !narrow(*u)) return;
  if (!narrow(nest.outer.back())) std::rotate(u, u + 1, nest.outer.end());
  nest.tiled.reset();
}

}  // namespace

LoopNest make_grid_nest(ir::Graph& graph, const scheduler::Group& group) {
  LoopNest nest = make_loop_nest(graph, group, kSideBySide, true);
  inline_values(graph, nest);
  take_narrow_whole(nest);
  return nest;
}

}  // namespace coil::codegen
