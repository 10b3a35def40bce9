// Placement of blocks of memory in one arena as a problem over cliques: sets of blocks that are live together.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/plan/arena_planner.h"

namespace coil::runtime {

/// An interval in cliques. Two blocks are live together if and only if they share one.
struct ArenaBlock {
  std::uint64_t bytes = 0;  ///< a multiple of the smallest alignment
  std::uint64_t alignment = 0;
  std::uint32_t first = 0, last = 0;  ///< cliques, both included
  std::uint32_t steps = 0;            ///< that it lives through
};

/// The largest sets of intervals that are live at one step, in the order of time; smaller ones are parts of them and
/// say nothing more.
struct ArenaProblem {
  std::vector<ArenaBlock> blocks;    ///< of the intervals that are not empty
  std::vector<std::size_t> of;       ///< which interval each block is
  std::vector<std::uint64_t> bytes;  ///< live in each clique
  std::uint64_t least = 0;           ///< no arena is smaller: the most bytes that are live at once
};

/// Throws Error where the sizes do not fit in 64 bits together.
ArenaProblem arena_problem(std::span<const Interval>);

constexpr std::uint64_t kNoPeak = std::numeric_limits<std::uint64_t>::max();

/// A placement of a problem's blocks.
struct Placement {
  std::vector<std::uint64_t> offsets;
  std::uint64_t peak = kNoPeak;  ///< bytes of the arena
};

inline std::uint64_t aligned(std::uint64_t at, std::uint64_t alignment) {
  return (at + alignment - 1) & ~(alignment - 1);
}

}  // namespace coil::runtime
