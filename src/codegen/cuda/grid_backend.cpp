#include "codegen/cuda/grid_backend.h"

#include "codegen/grid_nest.h"
#include "codegen/heuristics/alternatives.h"
#include "codegen/heuristics/whole_vectors.h"

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
  if (alternatives_ == Alternatives::Off || request_.candidate > 0 || usual.candidates.empty() ||
      graph.env().symbols().empty())
    return {};
  LaunchRequest request = request_;
  request.candidate = group.launch_config;
  std::vector<KernelAlternative> out;
  const auto whole =
      whole_vectors(graph, make_grid_nest(graph, group), target_, request, alternatives_ == Alternatives::Sizes);
  const Expr when = whole ? whole->when(graph.env()) : 0;
  if (whole) {
    sym::AssumedMultiples known(graph.env());
    whole->assume(known);
    add_alternatives(graph, group, usual, when, request_, sym::Range::kMax, out);
    Expr others = when;
    for (const KernelAlternative& a : out) others = sym::logical_and(others, sym::logical_not(a.when));
    add_alternative(graph, group, usual, others, request_, out);
  }
  // Longer ragged rows are read twice in vectors sooner than once element by element.
  constexpr std::int64_t kShortRagged = 256;
  const std::int64_t longest = usual.candidates[0].ragged ? kShortRagged : sym::Range::kMax;
  add_alternatives(graph, group, usual, sym::logical_not(when), request, longest, out);
  std::erase_if(out, [&](const KernelAlternative& a) { return graph.env().simplify(a.when).is_constant(0); });
  return out;
}

void GridBackend::add_alternative(ir::Graph& graph, const scheduler::Group& group, const Kernel& usual, Expr when,
                                  const LaunchRequest& request, std::vector<KernelAlternative>& out) const {
  Kernel k = written(print_cuda_nest(graph, make_grid_nest(graph, group), target_, request, dialect_));
  const bool alike = k.buffers == usual.buffers && k.written == usual.written && k.may_fail == usual.may_fail;
  if (alike && k.symbol != usual.symbol) out.push_back({when, std::move(k)});
}

void GridBackend::add_alternatives(ir::Graph& graph, const scheduler::Group& group, const Kernel& usual, Expr where,
                                   const LaunchRequest& request, std::int64_t longest,
                                   std::vector<KernelAlternative>& out) const {
  if (alternatives_ != Alternatives::Sizes) return;
  for (SizedKernel& sized : sized_kernels(graph, make_grid_nest(graph, group), target_, request)) {
    if (sized.request.longest_row.value_or(sym::Range::kMax) > longest) continue;
    const AssumedSize assumed(graph.env(), sized.symbol, sized.value);
    add_alternative(graph, group, usual, sym::logical_and(where, sized.when), sized.request, out);
  }
}

}  // namespace coil::codegen
