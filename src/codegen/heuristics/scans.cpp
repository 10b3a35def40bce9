#include "codegen/heuristics/scans.h"

#include <algorithm>

#include "codegen/heuristics/nest_facts.h"
#include "ir/scan_state.h"

namespace coil::codegen {
namespace {

constexpr int kScanThreads = 256;    // of a block, at most, where rows are many
constexpr int kScanTurns = 4;        // vectors of a thread in a chunk, at most
constexpr int kColumnThreads = 128;  // of a block whose threads walk a column each
constexpr int kColumnPoints = 8;     // of a column, that a thread reads before it adds the first

}  // namespace

bool scans_columns(const LoopNest& nest) {
  return nest.vector == LoopNest::Vector::Outer && nest.statements[0].op->outs.size() == 1;
}

ScanFacts scan_facts(ir::Graph& graph, const LoopNest& nest) {
  const auto& env = graph.env();
  const LoopDim& along = nest.inner[0];
  return {.rows = env.hint_or(product_of(nest.outer), 1 << 10),
          .length = env.hint_or(along.size, 4096),
          .vector = widest_vector(graph, nest, along),
          .tiled = nest.statements[0].op->outs.size() > 1};
}

std::vector<LaunchConfig> scan_configs(const ScanFacts& f, const target::Costs& costs) {
  const std::int64_t vectors = (f.length + f.vector - 1) / f.vector;
  const int warp = costs.threads_of_warp;
  int usual = std::max(warp, power_of_two_at_least((vectors + kScanTurns - 1) / kScanTurns, kScanThreads));
  // Few rows: one chunk of more threads rather than several chunks.
  while (!f.tiled && usual < costs.threads_of_block && usual * kScanTurns < vectors &&
         f.rows * usual < costs.threads() / 2)
    usual *= 2;
  auto config = [&](int threads, int turns) {
    return LaunchConfig{.threads = threads, .vector = f.vector, .unroll = turns};
  };
  std::vector<LaunchConfig> out{config(usual, power_of_two_at_least((vectors + usual - 1) / usual, kScanTurns))};
  for (int threads : {usual, usual / 2, usual * 2, usual * 4})
    for (int turns : {1, 2, 4, 8}) {
      const int chunk = threads * turns;
      const bool runs = threads >= warp && threads <= costs.threads_of_block;
      const bool tells = !f.tiled || chunk * f.vector >= ir::ScanState::kSmallest;
      if (runs && tells && chunk < 2 * vectors) add_candidate(out, config(threads, turns));
    }
  return out;
}

std::vector<LaunchConfig> scan_column_configs(const ScanFacts& f, const target::Costs& costs) {
  const int warp = costs.threads_of_warp, most = costs.threads_of_block / warp;
  auto config = [&](int team) {
    return LaunchConfig{
        .threads = team > 1 ? warp * team : kColumnThreads, .unroll = kColumnPoints, .looped = true, .team = team};
  };
  // More threads share a column until the machine is full, or each has but a chunk's points.
  int team = 1;
  while (team < most && f.rows * team < costs.threads() / 2 && f.length > std::int64_t{team} * kColumnPoints) team *= 2;
  std::vector<LaunchConfig> out{config(team)};
  for (int other : {team * 2, team / 2, team / 4, 1})
    if (other >= 1 && other <= most) add_candidate(out, config(other));
  return out;
}

}  // namespace coil::codegen
