#include "runtime/plan/output_rooms.h"

#include <algorithm>
#include <random>

namespace coil::runtime {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::uint64_t arena_of(std::span<const Interval> intervals) { return plan_arena(intervals, ArenaEffort::Call).peak; }

TEST(OutputRooms, LargeValuesLieInAResultThatComesLater) {
  // As in a language model: values of a layer, the last one of which the logits are made of.
  const std::vector<Interval> values{{4 * kMiB, 0, 1}, {4 * kMiB, 1, 2}, {kMiB, 2, 3}};
  const std::vector<OutputRoom> rooms{{8 * kMiB, 3}};
  const RoomPlan plan = plan_output_rooms(values, rooms, arena_of(values));
  EXPECT_EQ(plan.arena, kMiB);
  EXPECT_EQ(plan.room_of, (std::vector<std::uint32_t>{0, 0, RoomPlan::kArena}));
  EXPECT_NE(plan.offsets[0], plan.offsets[1]) << "both live at step 1";
}

TEST(OutputRooms, NothingMovesWhereTheArenaWouldNotBeSmaller) {
  const std::vector<Interval> values{{4 * kMiB, 0, 1}, {4 * kMiB, 5, 6}};
  const std::vector<OutputRoom> rooms{{4 * kMiB, 3}, {100, 9}};
  const RoomPlan plan = plan_output_rooms(values, rooms, arena_of(values));
  EXPECT_EQ(plan.arena, 4 * kMiB);
  EXPECT_EQ(std::ranges::count(plan.room_of, RoomPlan::kArena), 2);
  EXPECT_EQ(plan_output_rooms(values, {}, arena_of(values)).arena, 4 * kMiB);
  EXPECT_EQ(plan_output_rooms({}, rooms, 0).arena, 0u);
}

TEST(OutputRooms, NothingOverlapsInRandomPrograms) {
  int moved = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    std::vector<Interval> values(1 + below(100));
    for (Interval& i : values) {
      i.bytes = below(4) == 0 ? below(4u << 20) : below(50'000);
      i.first = below(60);
      i.last = i.first + below(8);
    }
    std::vector<OutputRoom> rooms(below(5));
    for (OutputRoom& r : rooms) r = {below(8u << 20), below(80)};
    const std::uint64_t arena = arena_of(values);
    const RoomPlan plan = plan_output_rooms(values, rooms, arena);
    if (plan.arena == arena) continue;
    ++moved;
    EXPECT_LT(plan.arena, arena);
    for (std::size_t a = 0; a < values.size(); ++a) {
      if (values[a].bytes == 0) continue;
      const bool in_room = plan.room_of[a] != RoomPlan::kArena;
      const std::uint64_t end = plan.offsets[a] + values[a].bytes;
      EXPECT_LE(end, in_room ? rooms[plan.room_of[a]].bytes : plan.arena);
      EXPECT_TRUE(!in_room || values[a].last < rooms[plan.room_of[a]].free_until);
      EXPECT_EQ(plan.offsets[a] % arena_alignment(values[a].bytes), 0u);
      for (std::size_t b = 0; b < a; ++b) {
        const bool together = values[a].first <= values[b].last && values[b].first <= values[a].last;
        if (values[b].bytes == 0 || plan.room_of[a] != plan.room_of[b] || !together) continue;
        EXPECT_TRUE(end <= plan.offsets[b] || plan.offsets[b] + values[b].bytes <= plan.offsets[a]) << a << ", " << b;
      }
    }
  }
  EXPECT_GT(moved, 10);
}

}  // namespace
}  // namespace coil::runtime
