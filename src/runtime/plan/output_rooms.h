// Temporaries in the memory of outputs that nothing has been written to yet.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/arena_planner.h"

namespace coil::runtime {

/// The memory of an output until the first step that touches the output.
struct OutputRoom {
  std::uint64_t bytes = 0;
  std::uint32_t free_until = 0;  ///< that step
};

struct RoomPlan {
  static constexpr std::uint32_t kArena = UINT32_MAX;
  std::vector<std::uint32_t> room_of;  ///< for each interval; kArena: it lies in the arena
  std::vector<std::uint64_t> offsets;  ///< for each interval, in its room or the arena
  std::uint64_t arena = 0;             ///< bytes of the arena
};

/// Intervals that end before an output begins, the largest first, are placed in its memory where that makes the arena
/// smaller than `arena` bytes by more than a 64th, or 64 KiB; else nothing is. Equal arguments give equal plans.
RoomPlan plan_output_rooms(std::span<const Interval> intervals, std::span<const OutputRoom> rooms, std::uint64_t arena);

}  // namespace coil::runtime
