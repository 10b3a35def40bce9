#include "codegen/cuda/grid_backend.h"

#include "codegen/grid_nest.h"

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

}  // namespace coil::codegen
