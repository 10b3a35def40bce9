#include "codegen/heuristics/kernel_plan.h"

#include <algorithm>

#include "codegen/heuristics/columns.h"
#include "codegen/heuristics/points.h"
#include "codegen/heuristics/scans.h"
#include "codegen/heuristics/scatters.h"
#include "ir/comm_buffers.h"

namespace coil::codegen {
namespace {

using scheduler::Role;

/// Kernels over windows read their operands as they lie.
bool adds_up_over_ranks(const ir::Graph& graph, const LoopNest& nest) {
  return std::ranges::any_of(nest.statements, [&](const Statement& s) {
    return std::ranges::any_of(ir::loads(s.body), [&](ir::Scalar l) { return ir::is_peer_sum(graph, l->buffer); });
  });
}

KernelPlan plan_reductions(ir::Graph& graph, const LoopNest& nest, const target::Costs& costs,
                           const LaunchRequest& request) {
  if (!adds_up_over_ranks(graph, nest))
    if (auto windows = plan_windows(graph, nest, costs, request)) return std::move(*windows);
  if (nest.vector == LoopNest::Vector::Outer)
    return ColumnPlan{choose(column_configs(column_facts(graph, nest), costs), request)};
  return plan_rows(graph, nest, costs, request);
}

}  // namespace

KernelPlan plan_kernel(ir::Graph& graph, const LoopNest& nest, const target::Target& target,
                       const LaunchRequest& request) {
  const target::Costs& costs = target.costs;
  if (std::holds_alternative<ir::Scatter>(nest.statements[0].op->node))
    return ScatterPlan{choose({scatter_config(scatter_facts(graph, nest), target)}, request)};
  if (std::ranges::any_of(nest.statements, [](const Statement& s) { return s.role == Role::Scan; })) {
    if (scans_columns(nest))
      return ScanColumnPlan{choose(scan_column_configs(scan_facts(graph, nest), costs), request)};
    return ScanPlan{choose(scan_configs(scan_facts(graph, nest), costs), request)};
  }
  if (!std::ranges::all_of(nest.statements, [](const Statement& s) { return s.role == Role::Outer; }))
    return plan_reductions(graph, nest, costs, request);
  if (nest.tiled) return plan_tiles(graph, nest, costs, request);
  return PointPlan{choose(point_configs(point_facts(graph, nest), costs), request)};
}

const LaunchChoice& choice_of(const KernelPlan& plan) {
  return std::visit([](const auto& form) -> const LaunchChoice& { return form.choice; }, plan);
}

}  // namespace coil::codegen
