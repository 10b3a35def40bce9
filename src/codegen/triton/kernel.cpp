#include "codegen/triton/kernel.h"

#include "codegen/heuristics/nest_facts.h"
#include "codegen/triton/forms.h"

namespace coil::codegen {
namespace {

struct Emit {
  ir::Graph& graph;
  const LoopNest& nest;

  TritonBody body(bool two) const { return {graph, nest, two}; }
  std::optional<std::int64_t> length() const { return graph.env().simplify(product_of(nest.inner)).constant(); }
  Kernel reductions(const std::vector<LoopDim>& outer, const BlockShape& block) const {
    TritonBody b = body(true);
    return triton_reductions(b, outer, block);
  }
  Kernel scan(const BlockShape& block) const {
    TritonBody b = body(true);
    return triton_scan(b, block);
  }
  Kernel points(const LaunchConfig& config) const {
    TritonBody b = body(false);
    return triton_points(b, point_block(config));
  }

  Kernel operator()(const PointPlan& p) const { return points(p.choice.config); }
  Kernel operator()(const TilePlan& p) const {
    if (p.choice.config.tile == 0) return points(p.choice.config);
    TritonBody b = body(true);
    return triton_tiles(b, tile_block(p.choice.config));
  }
  Kernel operator()(const RowPlan& p) const {
    TritonBody b = body(true);
    for (ir::Scalar n : p.coarse) b.make_coarse(n);
    return triton_reductions(b, p.outer, row_block(p.choice.config, length()), p.pairs);
  }
  Kernel operator()(const ColumnPlan& p) const {
    return reductions(nest.outer, column_block(p.choice.config, length()));
  }
  Kernel operator()(const WindowPlan& p) const {
    return reductions(nest.outer, window_block(p.choice.config, length()));
  }
  Kernel operator()(const ScanPlan& p) const { return scan(scan_block(p.choice.config, length())); }
  Kernel operator()(const ScanColumnPlan& p) const { return scan(scan_column_block(p.choice.config, length())); }
  Kernel operator()(const ScatterPlan& p) const {
    TritonBody b = body(false);
    return triton_scatter(b, point_block(p.choice.config));
  }
};

}  // namespace

std::variant<Kernel, std::string> print_triton_nest(ir::Graph& graph, const LoopNest& nest,
                                                    const target::Target& target, const LaunchRequest& request) {
  if (auto why = not_in_triton(graph, nest)) return *why;
  const ir::Operation& first = *nest.statements[0].op;
  if (std::holds_alternative<ir::Scatter>(first.node))
    if (auto why = no_triton_scatter(graph, first)) return *why;
  const KernelPlan plan = plan_kernel(graph, nest, target, request);
  Kernel kernel = std::visit(Emit{graph, nest}, plan);
  kernel.candidates = choice_of(plan).candidates;
  kernel.language = "Triton";
  return kernel;
}

}  // namespace coil::codegen
