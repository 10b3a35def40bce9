#include "runtime/plan/arena_planner.h"

#include <algorithm>

#include "runtime/plan/arena_search.h"
#include "runtime/plan/arena_skyline.h"

namespace coil::runtime {
namespace {

constexpr std::uint64_t kWorkOfBlock = 120'000, kMostWork = 40'000'000, kWorkOfCall = 50'000;
constexpr std::size_t kSome = 1024, kMany = 4096;   // blocks, of which looks at all are long, or one is
constexpr std::uint64_t kLong = 64;                 // cliques that a block lives in, in the mean
constexpr std::uint64_t kWorkOfPasses = 1'000'000;  // after which no further preference is tried
constexpr std::size_t kMostPasses = 40, kBlocksOfPasses = 20'000;

/// So that all together takes at most a tenth of a second, or little more.
std::uint64_t work_of_search(const ArenaProblem& problem) {
  const std::size_t count = problem.blocks.size();
  if (count <= kSome) return std::min(count * kWorkOfBlock, kMostWork);
  if (count > kMany) return kMostWork / 16;
  std::uint64_t cliques = 0;
  for (const ArenaBlock& b : problem.blocks) cliques += b.last - b.first + 1;
  return cliques > kLong * count ? kMostWork / 4 : kMostWork * 3 / 4;
}

}  // namespace

std::uint64_t arena_alignment(std::uint64_t bytes) { return bytes >= (1u << 20) ? 4096 : 64; }

ArenaPlan plan_arena(std::span<const Interval> intervals, ArenaEffort effort) {
  const ArenaProblem problem = arena_problem(intervals);
  Placement best;
  const std::size_t count = std::max<std::size_t>(problem.blocks.size(), 1);
  std::uint64_t work = 0;
  for (Preference p : {Preference::Longest, Preference::LargestArea, Preference::Largest}) {
    if (best.peak != kNoPeak && best.peak - problem.least <= problem.least / 256) break;
    if (work > kWorkOfPasses || (work > 0 && effort == ArenaEffort::Call && count > kMany)) break;
    if (Placement now = place_by_skyline(problem, p, work); now.peak < best.peak) best = std::move(now);
  }
  // The longer search begins where the short one ends, so that it is never behind it.
  improve_placement(problem, best, kWorkOfCall);
  if (effort == ArenaEffort::Compile) {
    best = place_again(problem, std::move(best), std::clamp(kBlocksOfPasses / count, std::size_t{1}, kMostPasses));
    improve_placement(problem, best, work_of_search(problem));
  }
  ArenaPlan plan{std::vector<std::uint64_t>(intervals.size(), 0), best.peak, problem.least};
  for (std::size_t b = 0; b < problem.blocks.size(); ++b) plan.offsets[problem.of[b]] = best.offsets[b];
  return plan;
}

}  // namespace coil::runtime
