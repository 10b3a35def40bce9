#include "codegen/cuda/kernel.h"

#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

struct Emit {
  KernelBuilder& body;
  Kernel operator()(const PointPlan& p) const { return cuda_pointwise(body, p.choice.config); }
  Kernel operator()(const TilePlan& p) const { return cuda_tiles(body, p); }
  Kernel operator()(const RowPlan& p) const { return cuda_rows(body, p); }
  Kernel operator()(const ColumnPlan& p) const { return cuda_columns(body, p.choice.config); }
  Kernel operator()(const WindowPlan& p) const { return cuda_windows(body.graph, p, body.dialect); }
  Kernel operator()(const ScanPlan& p) const { return cuda_scan(body, p.choice.config); }
  Kernel operator()(const ScanColumnPlan& p) const { return cuda_scan_columns(body, p.choice.config); }
  Kernel operator()(const ScatterPlan& p) const { return cuda_scatter(body, p.choice.config); }
};

}  // namespace

Kernel print_cuda_nest(ir::Graph& graph, LoopNest nest, const target::Target& target, const LaunchRequest& request,
                       const Dialect& dialect) {
  KernelBuilder body(graph, std::move(nest), dialect);
  const KernelPlan plan = plan_kernel(graph, body.nest, target, request);
  Kernel kernel = std::visit(Emit{body}, plan);
  // All ranks launch a kernel that adds up over them in the same way, and none launches it alone to measure it.
  if (!body.adds_up_over_ranks()) kernel.candidates = choice_of(plan).candidates;
  return kernel;
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

}  // namespace coil::codegen
