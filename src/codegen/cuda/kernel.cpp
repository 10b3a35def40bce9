#include "codegen/cuda/kernel.h"

#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr int kRun = 8;  // elements that loop orders should find side by side

bool computes_in_order(const Statement& s, bool pointwise) { return s.role == Role::Inner || (pointwise && s.role == Role::Outer); }

/// Values of points flow into the bodies that read them at the same point; what is read elsewhere in the row must be in memory.
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
      if (l->index[0] == m.store && !l->mask && l->dtype == m.body->dtype) return m.body;
      m.stored = true;
      return nullptr;
    };
    s.body = graph.pool().replace_loads(s.body, value);
    if (!updates) made[s.op->outs[0]] = &s;
  }
}

}  // namespace

Kernel print_cuda_kernel(ir::Graph& graph, const scheduler::Group& group) {
  LoopNest nest = make_loop_nest(graph, group, kRun);
  inline_values(graph, nest);
  bool pointwise = true, scans = false;
  for (const Statement& s : nest.statements) pointwise = pointwise && s.role == Role::Outer, scans = scans || s.role == Role::Scan;
  Body body(graph, std::move(nest));
  const GpuModel gpu;
  if (scans) return cuda_scan(body, gpu);
  if (pointwise) return body.nest.tiled ? cuda_tiles(body, gpu) : cuda_pointwise(body, gpu);
  return body.nest.vector == LoopNest::Vector::Outer ? cuda_columns(body, gpu) : cuda_rows(body, gpu);
}

Kernel print_cuda_scatter(ir::Graph& graph, const ir::Operation& op) {
  Body body(graph, make_scatter_nest(graph, op));
  return cuda_scatter(body, {});
}

}  // namespace coil::codegen
