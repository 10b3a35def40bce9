#include "codegen/cuda/grid_backend.h"

#include "codegen/grid_nest.h"
#include "codegen/heuristics/alternatives.h"

namespace coil::codegen {

Kernel GridBackend::group(ir::Graph& graph, const scheduler::Group& group) const {
  LaunchRequest request = request_;
  if (group.launch_config > 0) request.candidate = group.launch_config;
  return written(print_cuda_nest(graph, make_grid_nest(graph, group), target_, request, dialect_));
}

Kernel GridBackend::scatter(ir::Graph& graph, const ir::Operation& op) const {
  return kernel(graph, make_scatter_nest(graph, op));
}

std::optional<LoopNest> GridBackend::nest(ir::Graph& graph, const scheduler::Group& group) const {
  return make_grid_nest(graph, group);
}

std::optional<LoopNest> GridBackend::nest(ir::Graph& graph, const ir::Operation& op) const {
  return make_scatter_nest(graph, op);
}

Kernel GridBackend::kernel(ir::Graph& graph, LoopNest nest) const {
  return written(print_cuda_nest(graph, std::move(nest), target_, request_, dialect_));
}

std::vector<KernelAlternative> GridBackend::alternatives(ir::Graph& graph, const scheduler::Group& group,
                                                         const Kernel& usual) const {
  // A kernel that has no candidates is launched in the same way by all ranks.
  if (!has_alternatives_ || request_.candidate > 0 || usual.candidates.empty() || graph.env().symbols().empty())
    return {};
  LaunchRequest request = request_;
  request.candidate = group.launch_config;
  std::vector<KernelAlternative> out;
  for (SizedKernel& sized : sized_kernels(graph, make_grid_nest(graph, group), target_, request)) {
    const AssumedSize assumed(graph.env(), sized.symbol, sized.value);
    Kernel k = written(print_cuda_nest(graph, make_grid_nest(graph, group), target_, sized.request, dialect_));
    const bool alike = k.buffers == usual.buffers && k.written == usual.written && k.may_fail == usual.may_fail;
    if (alike && k.symbol != usual.symbol) out.push_back({sized.when, std::move(k)});
  }
  return out;
}

}  // namespace coil::codegen
