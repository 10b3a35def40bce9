#include "codegen/heuristics/scatters.h"

#include <algorithm>

#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

constexpr int kScatterThreads = 256;       // of a block
constexpr std::size_t kScatterBytes = 16;  // that a thread writes at once

/// The widest vector of iterations along the last dimension that write side by side.
int scattered_vector(ir::Graph& graph, const LoopNest& nest) {
  const Statement& s = nest.statements[0];
  const LoopDim& last = nest.inner.back();
  if (std::any_of(s.indirect.begin(), s.indirect.end(),
                  [&](ir::Scalar i) { return depends_on(i, std::span(&last.var, 1)); }))
    return 1;
  const Lanes lanes{last.var, widest_vector(graph, nest, last)};
  const bool side_by_side = lane_stride(graph.env(), s.store, lanes) == 1 && run_aligned(graph.env(), s.store, lanes);
  return side_by_side ? lanes.width : 1;
}

}  // namespace

ScatterFacts scatter_facts(ir::Graph& graph, const LoopNest& nest) {
  const Statement& s = nest.statements[0];
  const auto& scatter = std::get<ir::Scatter>(s.op->node);
  const DType d = graph.buffer(s.op->outs[0]).layout.dtype;
  ScatterFacts f{.iterations = graph.env().hint_or(graph.env().simplify(product_of(nest.inner)), 1 << 24),
                 .element_bytes = size_of(d)};
  f.adds = scatter.mode == ir::StoreMode::Add && (d == DType::F32 || d == DType::BF16 || d == DType::F16);
  const bool in_pieces = scatter.piece != 0;
  if (in_pieces) f.iterations = std::max<std::int64_t>(1, f.iterations / scatter.piece);
  const bool in_vectors = in_pieces || (!scatter.sorted && (f.adds || scatter.mode == ir::StoreMode::Assign));
  if (in_vectors && !nest.inner.empty()) f.vector = scattered_vector(graph, nest);
  return f;
}

LaunchConfig scatter_config(const ScatterFacts& f, const target::Target& target) {
  const LaunchConfig alone{.threads = kScatterThreads};
  const int whole = static_cast<int>(kScatterBytes / f.element_bytes);
  // What is read may be narrower than what is written, and then more of it lies side by side.
  const int vector = std::min(f.vector, whole);
  // An addition is of a whole vector; what is only written may be less of one.
  if (vector == 1 || (f.adds && (vector != whole || !target.has(target::Feature::VectorAtomics)))) return alone;
  if (f.iterations / vector < target.costs.threads() / 8) return alone;
  return {.threads = kScatterThreads, .vector = vector};
}

}  // namespace coil::codegen
