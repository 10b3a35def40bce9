// Places temporaries in one arena: the compiler calls it for fixed sizes, the executor when sizes are bound.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace coil::runtime {

/// `bytes` of memory needed from step `first` to step `last`, both included.
struct Interval {
  std::uint64_t bytes = 0;
  std::uint32_t first = 0, last = 0;
};

struct ArenaPlan {
  std::vector<std::uint64_t> offsets;  ///< one for each interval; 0 for empty ones
  std::uint64_t peak = 0;              ///< bytes of the arena
};

/// Alignment of a block in the arena: a cache line, or a page from 1 MiB on.
std::uint64_t arena_alignment(std::uint64_t bytes);

/// Offsets such that no two intervals that are live at one step overlap. Greedy best fit, the largest first (Pisarchyk
/// and Lee, "Efficient memory management for deep neural net inference", 2020, give the family); ties go to the earlier
/// interval, so that equal inputs give equal plans. About n log n for programs whose values mostly live briefly.
ArenaPlan plan_arena(std::span<const Interval> intervals);

}  // namespace coil::runtime
