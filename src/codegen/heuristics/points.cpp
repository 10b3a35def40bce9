#include "codegen/heuristics/points.h"

#include <algorithm>

#include "codegen/heuristics/nest_facts.h"
#include "ir/comm_buffers.h"

namespace coil::codegen {
namespace {

constexpr std::int64_t kUnknownPoints = 1 << 24;  // of a kernel whose sizes have no hint: many
constexpr int kPointThreads = 256;                // of a block

/// Vectors narrow enough that an eighth of the threads which the machine holds have work.
int filling_vector(std::int64_t points, int widest, int least, const target::Costs& costs) {
  int width = widest;
  while (width > least && points / width < costs.threads() / 8) width /= 2;
  return width;
}

/// Elements that go to other ranks at once, of what a kernel adds up over them; else 1.
int exchanged_vector(const ir::Graph& graph, const LoopNest& nest) {
  constexpr std::size_t kExchangedBytes = 8;
  for (const Statement& s : nest.statements)
    for (ir::Scalar l : ir::loads(s.body))
      if (ir::is_peer_sum(graph, l->buffer))
        return static_cast<int>(kExchangedBytes / size_of(graph.buffer(l->buffer).layout.dtype));
  return 1;
}

int flat_vector(ir::Graph& graph, const LoopNest& nest) {
  if (nest.outer.empty()) return 1;
  const Expr flat = flat_index(graph, nest);
  const auto vars = nest.vars();
  std::size_t widest = 2;
  for (const Statement& s : nest.statements) {
    if (!s.stored) continue;
    if (!(s.store == flat) && !graph.env().simplify(s.store - flat, vars).is_constant(0)) return 1;
    widest = std::max(widest, size_of(graph.buffer(s.op->outs[0]).layout.dtype));
  }
  int width = static_cast<int>(16 / widest);
  const auto last = nest.outer.back().size.constant();
  if (!last) return moves_in_vectors(moved_flat(graph, nest), width) ? width : 1;
  // No vector has points of more than two rows of a known length.
  while (width > 1 && *last < width) width /= 2;
  return width;
}

std::vector<LaunchConfig> flat_configs(int vector) {
  std::vector<LaunchConfig> out;
  for (int threads : {kPointThreads, kPointThreads / 2, kPointThreads * 2})
    out.push_back({.threads = threads, .vector = vector, .partial_vectors = true, .flat = true});
  return out;
}

}  // namespace

Expr flat_index(ir::Graph& graph, const LoopNest& nest) {
  Expr flat = 0;
  for (const LoopDim& d : nest.outer) flat = flat * d.size + d.var;
  return graph.env().simplify(flat, nest.vars());
}

MovedBytes moved_flat(ir::Graph& graph, const LoopNest& nest) {
  MovedBytes out;
  const Expr flat = flat_index(graph, nest);
  const auto vars = nest.vars();
  for (const AccessOfNest& a : accesses_of(graph, nest)) {
    if (a.index == flat || graph.env().simplify(a.index - flat, vars).is_constant(0)) {
      out.packed += a.bytes;
      out.narrowest = std::min(out.narrowest, a.bytes);
    } else if (sym::contains(a.index, nest.outer.back().var)) {
      out.loose += a.bytes;
    }
  }
  return out;
}

PointFacts point_facts(ir::Graph& graph, const LoopNest& nest) {
  PointFacts f;
  f.points = graph.env().hint_or(graph.env().simplify(product_of(nest.outer)), kUnknownPoints);
  if (!nest.outer.empty()) f.vector = widest_vector(graph, nest, nest.outer.back());
  f.flat_vector = flat_vector(graph, nest);
  f.least_vector = exchanged_vector(graph, nest);
  return f;
}

std::vector<LaunchConfig> point_configs(const PointFacts& f, const target::Costs& costs) {
  const int width = filling_vector(f.points, f.vector, f.least_vector, costs);
  if (width == 1)
    if (const int flat = filling_vector(f.points, f.flat_vector, f.least_vector, costs); flat > 1)
      return flat_configs(flat);
  // Narrow accesses: several points a thread, so that enough bytes are under way.
  const LaunchConfig usual{.threads = f.points / width < costs.threads() / 4 ? 128 : kPointThreads,
                           .vector = width,
                           .unroll = width == 1 && f.points > 4 * costs.threads() ? 4 : 1};
  std::vector<LaunchConfig> out{usual};
  auto add = [&](int vector, int threads, int unroll) {
    const std::int64_t block = std::int64_t{threads} * unroll;
    if (unroll == 1 || f.points / vector >= block * costs.multiprocessors)
      add_candidate(out, {.threads = threads, .vector = vector, .unroll = unroll});
  };
  for (int threads : {128, 256, 512})
    for (int unroll : {1, 2, 4}) add(width, threads, unroll);
  if (width > 1) {
    add(width / 2, usual.threads, 1);
    add(width / 2, usual.threads, 2);
  }
  if (width < f.vector) add(width * 2, usual.threads, 1);
  return out;
}

}  // namespace coil::codegen
