#include "runtime/plan/output_rooms.h"

#include <algorithm>
#include <numeric>

namespace coil::runtime {
namespace {

constexpr std::uint64_t kLeast = 1 << 16;  // bytes of a room that is looked at, and of what is saved
constexpr std::size_t kMostRooms = 16, kMostIntervals = 512;

/// Blocks that share one room.
class Room {
 public:
  explicit Room(const OutputRoom& room) : room_(room) {}

  /// The lowest place that is free while the interval lives; false where there is none.
  bool place(const Interval& interval, std::uint64_t& at) {
    if (interval.last >= room_.free_until || interval.bytes > room_.bytes) return false;
    std::vector<const Block*> beside;
    for (const Block& b : blocks_)
      if (b.interval.first <= interval.last && interval.first <= b.interval.last) beside.push_back(&b);
    std::ranges::sort(beside, {}, [](const Block* b) { return b->offset; });
    const std::uint64_t alignment = arena_alignment(interval.bytes);
    at = 0;
    for (const Block* b : beside) {
      if (at + interval.bytes <= b->offset) break;
      at = std::max(at, (b->offset + b->interval.bytes + alignment - 1) / alignment * alignment);
    }
    if (at + interval.bytes > room_.bytes) return false;
    blocks_.push_back({interval, at});
    return true;
  }

 private:
  struct Block {
    Interval interval;
    std::uint64_t offset;
  };
  OutputRoom room_;
  std::vector<Block> blocks_;
};

template <class Key>
std::vector<std::uint32_t> largest(std::size_t count, std::size_t most, Key&& bytes) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater<>(), bytes);
  if (order.size() > most) order.resize(most);
  return order;
}

}  // namespace

RoomPlan plan_output_rooms(std::span<const Interval> intervals, std::span<const OutputRoom> rooms,
                           std::uint64_t arena) {
  RoomPlan plan;
  plan.room_of.assign(intervals.size(), RoomPlan::kArena);
  plan.offsets.assign(intervals.size(), 0);
  plan.arena = arena;
  std::vector<Interval> rest(intervals.begin(), intervals.end());
  const auto ordered = largest(intervals.size(), kMostIntervals, [&](std::uint32_t k) { return intervals[k].bytes; });
  for (std::uint32_t r : largest(rooms.size(), kMostRooms, [&](std::uint32_t k) { return rooms[k].bytes; })) {
    if (rooms[r].bytes < kLeast) break;
    Room room(rooms[r]);
    for (std::uint32_t k : ordered) {
      if (rest[k].bytes == 0 || !room.place(rest[k], plan.offsets[k])) continue;
      plan.room_of[k] = r;
      rest[k] = {};
    }
  }
  const ArenaPlan smaller = plan_arena(rest, ArenaEffort::Call);
  if (smaller.peak + std::max(arena / 64, kLeast) >= arena) {
    plan.room_of.assign(intervals.size(), RoomPlan::kArena);
    return plan;
  }
  for (std::size_t k = 0; k < intervals.size(); ++k)
    if (plan.room_of[k] == RoomPlan::kArena) plan.offsets[k] = smaller.offsets[k];
  plan.arena = smaller.peak;
  return plan;
}

}  // namespace coil::runtime
