#include "codegen/heuristics/columns.h"

#include <algorithm>

#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

constexpr int kMostDown = 128;       // threads of a column for which narrow vectors are given up
constexpr int kColumnThreads = 256;  // of a block whose threads share nothing
constexpr int kShortColumn = 16;     // points that one thread adds up alone
constexpr int kColumnUnroll = 4;     // points that a thread reads before it adds the first
constexpr int kSector = 32;          // bytes that memory gives at once

/// A block of about so many threads, of which about `down` share a column.
LaunchConfig column_block(const ColumnFacts& f, int vector, int narrowest, int down, int threads,
                          const target::Costs& costs) {
  const std::int64_t bytes = static_cast<std::int64_t>(f.accumulator_bytes) * vector;
  while (threads > 64 && bytes * threads > costs.declared_shared_bytes) threads /= 2;
  down = std::min(down, std::max(1, threads / narrowest));
  const std::int64_t vectors = (f.along + vector - 1) / vector;
  int across = std::min(power_of_two_at_least(vectors, threads), threads / down);
  if (across < threads / down && f.length > kShortColumn)
    down = std::min<int>(threads / across, power_of_two_at_least(f.length, threads));
  // A block of few columns, each one thread's, takes those of several outer points.
  int rows = 1;
  if (down == 1)
    rows = std::max(1, threads / across);
  else if (across * down < costs.threads_of_warp)
    across = costs.threads_of_warp / down;
  return {.threads = across * down * rows,
          .vector = vector,
          .unroll = kColumnUnroll,
          .looped = true,
          .team = down,
          .rows = rows};
}

}  // namespace

ColumnFacts column_facts(ir::Graph& graph, const LoopNest& nest) {
  const auto& env = graph.env();
  const LoopDim& v = nest.outer.back();
  ColumnFacts f{.columns = env.hint_or(product_of(nest.outer), 1 << 16),
                .along = env.hint_or(v.size, 1024),
                .length = env.hint_or(env.simplify(product_of(nest.inner)), 1024),
                .vector = widest_vector(graph, nest, v)};
  for (const Statement& s : nest.statements)
    if (s.role == scheduler::Role::Reduce) f.accumulator_bytes += 2 * size_of(s.body->dtype);
  return f;
}

std::vector<LaunchConfig> column_configs(const ColumnFacts& f, const target::Costs& costs) {
  // A short column is one thread's; a long one is shared so that the machine is full.
  int vector = f.vector;
  const std::int64_t most_down = std::min<std::int64_t>(f.length / kShortColumn + 1, kMostDown);
  while (vector > 1 && f.columns / vector * most_down < costs.threads() / 8) vector /= 2;
  // Threads side by side touch whole sectors of memory at least.
  const std::int64_t vectors = (f.along + vector - 1) / vector;
  const int narrowest = power_of_two_at_least(std::min<std::int64_t>(vectors, kSector / vector), costs.threads_of_warp);
  int down = f.length <= kShortColumn ? 1 : 8;
  while (down * narrowest < costs.threads_of_block && f.length / down > kShortColumn &&
         f.columns / vector * down < costs.threads() / 2)
    down *= 2;
  auto block = [&](int team, int threads) { return column_block(f, vector, narrowest, team, threads, costs); };
  std::vector<LaunchConfig> out{block(down, std::max(kColumnThreads, down * narrowest))};
  for (int team : {down, down * 2, down / 2, down * 4, down / 4})
    for (int threads : {256, 512, 1024, 128})
      if (team >= 1 && team * narrowest <= threads && (team == 1 || f.length / team >= 4))
        add_candidate(out, block(team, threads));
  return out;
}

}  // namespace coil::codegen
