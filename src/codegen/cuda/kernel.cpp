#include "codegen/cuda/kernel.h"

#include <algorithm>

#include "codegen/cuda/forms.h"
#include "codegen/heuristics/columns.h"
#include "codegen/heuristics/points.h"
#include "codegen/heuristics/scans.h"
#include "codegen/heuristics/scatters.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr int kRun = 8;  // elements that loop orders should find side by side

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

Kernel with(Kernel kernel, std::vector<LaunchConfig> candidates) {
  kernel.candidates = std::move(candidates);
  return kernel;
}

}  // namespace

LoopNest cuda_nest(ir::Graph& graph, const scheduler::Group& group) {
  LoopNest nest = make_loop_nest(graph, group, kRun, true);
  inline_values(graph, nest);
  return nest;
}

Kernel print_cuda_kernel(ir::Graph& graph, const scheduler::Group& group, const target::Target& target,
                         const LaunchRequest& asked) {
  LaunchRequest request = asked;
  if (group.launch_config > 0) request.candidate = group.launch_config;
  return print_cuda_nest(graph, cuda_nest(graph, group), target, request);
}

Kernel print_cuda_nest(ir::Graph& graph, LoopNest nest, const target::Target& target, const LaunchRequest& request) {
  const target::Costs& costs = target.costs;
  auto is = [](Role role) { return [role](const Statement& s) { return s.role == role; }; };
  const bool scatters = std::holds_alternative<ir::Scatter>(nest.statements[0].op->node),
             scans = std::ranges::any_of(nest.statements, is(Role::Scan)),
             pointwise = std::ranges::all_of(nest.statements, is(Role::Outer));
  if (!scatters && !pointwise && !scans)
    if (auto plan = plan_windows(graph, nest, costs, request))
      return with(cuda_windows(graph, *plan), std::move(plan->choice.candidates));
  Body body(graph, std::move(nest));
  const LoopNest& loops = body.nest;
  auto print = [&](Kernel (*emit)(Body&, const LaunchConfig&), std::vector<LaunchConfig> candidates) {
    LaunchChoice choice = choose(std::move(candidates), request);
    return with(emit(body, choice.config), std::move(choice.candidates));
  };
  if (scatters) return print(cuda_scatter, {scatter_config(scatter_facts(graph, loops), target)});
  if (scans && scans_columns(loops)) return print(cuda_scan_columns, {scan_column_config()});
  if (scans) return print(cuda_scan, scan_configs(scan_facts(graph, loops), costs));
  if (pointwise && !loops.tiled) return print(cuda_pointwise, point_configs(point_facts(graph, loops), costs));
  if (pointwise) {
    TilePlan plan = plan_tiles(graph, loops, costs, request);
    return with(cuda_tiles(body, plan), std::move(plan.choice.candidates));
  }
  if (loops.vector == LoopNest::Vector::Outer)
    return print(cuda_columns, column_configs(column_facts(graph, loops), costs));
  RowPlan plan = plan_rows(graph, loops, costs, request);
  return with(cuda_rows(body, plan), std::move(plan.choice.candidates));
}

KernelParts batch_cuda_kernel(KernelParts parts, std::size_t buffers, std::size_t count) {
  COIL_CHECK(parts.parameters.size() > buffers, "a kernel of {} parameters has {} buffers", parts.parameters.size(),
             buffers);
  std::string pointers;
  for (std::size_t k = 0; k < buffers; ++k) {
    const Parameter& p = parts.parameters[k];
    pointers += fmt::format("  {0}{1} {2} = ({0})table.p[blockIdx.y * {3} + {4}];\n", p.type,
                            p.restricted ? " __restrict__" : "", p.name, buffers, k);
  }
  parts.body = pointers + parts.body;
  const auto first = parts.parameters.begin();
  parts.parameters.erase(first, first + static_cast<std::ptrdiff_t>(buffers));
  parts.parameters.insert(parts.parameters.begin(),
                          {fmt::format("const __grid_constant__ c_table<{}>", buffers * count), "table"});
  return parts;
}

Kernel print_cuda_scatter(ir::Graph& graph, const ir::Operation& op, const target::Target& target,
                          const LaunchRequest& request) {
  return print_cuda_nest(graph, make_scatter_nest(graph, op), target, request);
}

}  // namespace coil::codegen
