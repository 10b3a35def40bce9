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
  std::uint64_t least = 0;             ///< no arena is smaller: the most bytes that are live at one step
};

/// Alignment of a block in the arena: a cache line, or a page from 1 MiB on.
std::uint64_t arena_alignment(std::uint64_t bytes);

/// How long it may take: once for a program, or in every call with new sizes.
enum class ArenaEffort : std::uint8_t { Compile, Call };

/// Offsets such that no two intervals that are live at one step overlap; equal inputs give equal plans. Placed from the
/// lowest address upwards in one pass (arena_skyline.h), of n log n, by each of three preferences until an arena is
/// nearly the least; where none is, a search improves the best (arena_search.h), for at most a tenth of a second, or a
/// thousandth of that in a call. Throws Error where the sizes do not fit in 64 bits together.
ArenaPlan plan_arena(std::span<const Interval> intervals, ArenaEffort effort = ArenaEffort::Compile);

}  // namespace coil::runtime
