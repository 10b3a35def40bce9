#include "runtime/plan/arena_planner.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "support/error.h"

namespace coil::runtime {
namespace {

std::uint64_t most_live_at_once(const std::vector<Interval>& intervals) {
  std::uint64_t most = 0;
  for (const Interval& at : intervals) {
    std::uint64_t live = 0;
    for (const Interval& i : intervals)
      if (i.first <= at.first && at.first <= i.last) live += i.bytes;
    most = std::max(most, live);
  }
  return most;
}

TEST(ArenaPlanner, NoTwoLiveIntervalsOverlap) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    std::vector<Interval> intervals(1 + random() % 120);
    std::uint64_t sum = 0;
    for (Interval& i : intervals) {
      i.bytes = random() % 8 == 0 ? 0 : random() % (random() % 4 == 0 ? 4u << 20 : 5000u);
      i.first = random() % 100;
      i.last = i.first + random() % (random() % 5 == 0 ? 60 : 5);
      if (i.bytes)
        sum += (i.bytes + arena_alignment(i.bytes) - 1) / arena_alignment(i.bytes) * arena_alignment(i.bytes);
    }
    const ArenaPlan plan = plan_arena(intervals);
    EXPECT_LE(plan.peak, sum + 4096 * intervals.size());
    EXPECT_GE(plan.peak, most_live_at_once(intervals));
    for (std::size_t a = 0; a < intervals.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % arena_alignment(intervals[a].bytes), 0u);
      EXPECT_LE(plan.offsets[a] + intervals[a].bytes, plan.peak);
      for (std::size_t b = 0; b < a; ++b) {
        const bool together = intervals[a].first <= intervals[b].last && intervals[b].first <= intervals[a].last;
        const bool apart = plan.offsets[a] + intervals[a].bytes <= plan.offsets[b] ||
                           plan.offsets[b] + intervals[b].bytes <= plan.offsets[a];
        EXPECT_TRUE(!together || apart) << a << " and " << b;
      }
    }
  }
}

TEST(ArenaPlanner, AChainNeedsTwoBlocks) {
  std::vector<Interval> chain;
  for (std::uint32_t i = 0; i < 1000; ++i) chain.push_back({4096, i, i + 1});
  EXPECT_EQ(plan_arena(chain).peak, 2u * 4096);
}

TEST(ArenaPlanner, EqualInputsGiveEqualPlans) {
  std::vector<Interval> intervals;
  for (std::uint32_t i = 0; i < 50; ++i) intervals.push_back({64 * (i % 3 + 1), i, i + 2});
  EXPECT_EQ(plan_arena(intervals).offsets, plan_arena(intervals).offsets);
}

/// A rectangle of time and memory cut up until it has `count` pieces: they fit without a gap, if one finds out how.
std::vector<Interval> cut_up(std::size_t count, std::uint32_t steps, std::uint64_t units, std::mt19937& random) {
  struct Piece {
    std::uint32_t first, end;
    std::uint64_t low, high;
  };
  std::vector<Piece> pieces{{0, steps, 0, units}};
  while (pieces.size() < count) {
    const std::size_t k = random() % pieces.size();
    const Piece p = pieces[k];
    if (random() % 2 == 0 && p.end - p.first > 1) {
      const auto at = p.first + 1 + static_cast<std::uint32_t>(random() % (p.end - p.first - 1));
      pieces[k].end = at;
      pieces.push_back({at, p.end, p.low, p.high});
    } else if (p.high - p.low > 1) {
      const std::uint64_t at = p.low + 1 + random() % (p.high - p.low - 1);
      pieces[k].high = at;
      pieces.push_back({p.first, p.end, at, p.high});
    }
  }
  std::ranges::shuffle(pieces, random);
  std::vector<Interval> intervals;
  for (const Piece& p : pieces) intervals.push_back({(p.high - p.low) * 1024, p.first, p.end - 1});
  return intervals;
}

/// Forward values that the backward pass reads, the last ones first, and what lives briefly beside them.
std::vector<Interval> training(std::uint32_t layers, std::mt19937& random) {
  const std::uint32_t steps = 4 * layers;
  std::vector<Interval> intervals;
  for (std::uint32_t k = 0; k < layers; ++k) {
    intervals.push_back({64 * (1 + random() % 3000), 2 * k, steps - 1 - 2 * k});
    intervals.push_back({64 * (1 + random() % 4000), 2 * k, 2 * k + 2});
    intervals.push_back({64 * (1 + random() % 4000), steps - 3 - 2 * k, steps - 1 - 2 * k});
  }
  return intervals;
}

/// Values that live for two steps mostly, some for longer, few for long.
std::vector<Interval> inference(std::uint32_t count, std::mt19937& random) {
  std::vector<Interval> intervals;
  for (std::uint32_t k = 0; k < count; ++k) {
    std::uint32_t length = random() % 10 < 7 ? 2 : 2 + random() % 11;
    if (random() % 50 == 0) length = 12 + random() % 190;
    intervals.push_back({64 * (1 + random() % 4096), k, k + length});
  }
  return intervals;
}

double gap(const ArenaPlan& plan) { return static_cast<double>(plan.peak) / static_cast<double>(plan.least) - 1; }

TEST(ArenaPlanner, IsWithinAHundredthOfTheLeastInProgramsOfTenThousandBuffers) {
  for (unsigned seed = 1; seed <= 3; ++seed)
    for (std::uint32_t count : {30u, 300u, 3000u, 9999u}) {
      SCOPED_TRACE(fmt::format("seed {}, {} buffers", seed, count));
      std::mt19937 random(seed);
      EXPECT_LE(gap(plan_arena(training(count / 3, random))), 0.01);
      EXPECT_LE(gap(plan_arena(inference(count, random))), 0.01);
    }
}

TEST(ArenaPlanner, FindsHowPiecesFitWithoutAGap) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    EXPECT_LE(gap(plan_arena(cut_up(30, 30, 4096, random))), 0.01);
  }
}

TEST(ArenaPlanner, TheSearchGoesBelowWhatOnePassFinds) {
  double passes = 0, searched = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    const std::vector<Interval> intervals = cut_up(100, 100, 4096, random);
    const ArenaPlan call = plan_arena(intervals, ArenaEffort::Call), compile = plan_arena(intervals);
    EXPECT_EQ(call.least, 4096u * 1024);
    EXPECT_LE(compile.peak, call.peak) << "seed " << seed;
    passes += gap(call) / 10;
    searched += gap(compile) / 10;
  }
  EXPECT_LE(searched, passes / 2);
}

TEST(ArenaPlanner, SizesThatDoNotFitInSixtyFourBitsTogetherAreRefused) {
  const std::vector<Interval> intervals{{std::uint64_t{1} << 63, 0, 3}, {std::uint64_t{1} << 63, 2, 5}};
  EXPECT_THROW(plan_arena(intervals), Error);
  EXPECT_THROW(plan_arena(std::vector<Interval>{{UINT64_MAX, 0, 0}}), Error);
}

TEST(ArenaPlanner, GrowsNoWorseThanNLogN) {
  auto seconds = [](std::uint32_t n) {
    std::vector<Interval> chain;
    for (std::uint32_t i = 0; i < n; ++i) chain.push_back({64 + i % 7 * 1024, i, i + 2});
    const auto start = std::chrono::steady_clock::now();
    plan_arena(chain);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1000);
  const double small = seconds(10000), large = seconds(80000);
  EXPECT_LT(large, 40 * small + 0.05);  // 8 times the length; a quadratic planner takes 64 times as long
}

}  // namespace
}  // namespace coil::runtime
