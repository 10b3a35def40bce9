#include "runtime/device/overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace coil::runtime {
namespace {

using Steps = std::vector<std::vector<Touch>>;

bool conflict(const std::vector<Touch>& a, const std::vector<Touch>& b) {
  for (const Touch& x : a)
    for (const Touch& y : b)
      if ((x.writes || y.writes) && std::max(x.begin, y.begin) < std::min(x.end, y.end)) return true;
  return false;
}

/// For each step, the steps that are done before it begins.
std::vector<std::vector<bool>> done_before(const std::vector<StepOrder>& orders) {
  std::vector<std::vector<bool>> before(orders.size(), std::vector<bool>(orders.size(), false));
  auto behind = [&](std::size_t s, std::size_t d) {
    before[s][d] = true;
    for (std::size_t k = 0; k < d; ++k)
      if (before[d][k]) before[s][k] = true;
  };
  for (std::size_t s = 0; s < orders.size(); ++s) {
    for (std::size_t d = 0; d < s; ++d)
      if (orders[d].lane == orders[s].lane) behind(s, d);
    for (std::uint32_t d : orders[s].after) behind(s, d);
  }
  return before;
}

TEST(Overlap, StepsThatShareBytesKeepTheirOrder) {
  std::mt19937_64 random(20261122);
  auto below = [&](std::uint64_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    Steps steps(1 + below(30));
    for (auto& touches : steps)
      for (std::uint64_t k = below(4); k-- > 0;) {
        const std::uintptr_t begin = below(60);
        touches.push_back({begin, begin + below(20), below(3) == 0});
      }
    for (std::uint32_t lanes : {1u, 2u, 4u}) {
      const auto orders = order_steps(steps, lanes);
      const auto before = done_before(orders);
      for (std::size_t s = 0; s < steps.size(); ++s) {
        ASSERT_LT(orders[s].lane, lanes);
        for (std::uint32_t d : orders[s].after) {
          ASSERT_LT(d, s);
          ASSERT_NE(orders[d].lane, orders[s].lane);
          ASSERT_TRUE(orders[d].awaited);
        }
        for (std::size_t d = 0; d < s; ++d)
          ASSERT_TRUE(before[s][d] || !conflict(steps[d], steps[s]))
              << "step " << s << " does not wait for " << d << " (round " << round << ", " << lanes << " lanes)";
      }
    }
  }
}

TEST(Overlap, ThreeProductsOfOneInputRunSideBySide) {
  const Touch x{0, 100, false}, q{100, 200, true}, k{200, 300, true}, v{300, 400, true}, out{400, 500, true};
  auto reading = [](Touch t) { return Touch{t.begin, t.end, false}; };
  const auto orders =
      order_steps(Steps{{{0, 100, true}}, {x, q}, {x, k}, {x, v}, {reading(q), reading(k), reading(v), out}}, 4);
  EXPECT_EQ(orders[1].lane, orders[0].lane);
  EXPECT_EQ((std::vector{orders[1].lane, orders[2].lane, orders[3].lane}), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(orders[2].after, std::vector<std::uint32_t>{0});
  EXPECT_EQ(orders[4].lane, orders[3].lane);  // behind the latest
  EXPECT_EQ(orders[4].after, (std::vector<std::uint32_t>{2, 1}));
}

TEST(Overlap, AChainStaysOnOneLane) {
  Steps steps;
  for (std::uintptr_t s = 0; s < 50; ++s)
    steps.push_back({{100 * s, 100 * (s + 1), false}, {100 * (s + 1), 100 * (s + 2), true}});
  for (const StepOrder& o : order_steps(steps, 4)) {
    EXPECT_EQ(o.lane, 0);
    EXPECT_TRUE(o.after.empty());
    EXPECT_FALSE(o.awaited);
  }
}

TEST(Overlap, MemoryThatIsTakenOverIsNotWrittenWhileItIsRead) {
  // Step 1 reads what step 0 wrote; step 2 writes other values to the same bytes.
  const auto orders = order_steps(Steps{{{0, 64, true}}, {{0, 64, false}, {64, 128, true}}, {{32, 96, true}}}, 4);
  EXPECT_EQ(orders[2].lane, orders[1].lane);
}

}  // namespace
}  // namespace coil::runtime
