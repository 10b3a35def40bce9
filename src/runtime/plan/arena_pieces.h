// Temporaries in several arenas, each of which is there only while something in it is live: for runs whose outputs
// come, and whose inputs go, while they last, with memory of an allocator that others take from as well.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/arena_planner.h"

namespace coil::runtime {

/// Steps from `first` to `last`.
struct StepRange {
  std::uint32_t first = 0, last = 0;
};

/// `bytes` that are allocated before step `first` and given back after step `last`.
struct ArenaPiece {
  std::uint64_t bytes = 0;
  std::uint32_t first = 0, last = 0;
};

struct ArenaPieces {
  std::vector<ArenaPiece> pieces;         ///< in the order of their first steps; none: one arena for all is as good
  std::vector<std::uint32_t> piece_of;    ///< for each interval, its piece; empty intervals have 0
  std::vector<std::uint64_t> offsets;     ///< for each interval, in its piece
  std::vector<std::uint32_t> scratch_of;  ///< for each step, the piece with its scratch memory; 0 where it needs none
  std::uint64_t peak = 0;                 ///< the most bytes at one step, with those beside
  std::uint64_t whole = 0;  ///< the same with one arena and one block of scratch memory, there at all steps
  std::uint64_t least = 0;  ///< no pieces have less: the most that is live at one step
};

/// Pieces for intervals beside which other memory comes and goes, `beside` bytes of it at each step; `scratch` are the
/// bytes that each step needs for itself alone, in pieces of their own. Time is cut into a few spans, each with an
/// arena for what lives within it and one block of scratch memory; what lives across a cut is a piece by itself, small
/// values together with others that begin about then and end in the same span.
///
/// `blocks`, in order, are steps that memory comes and goes with only as a whole, loops and branches: what lives within
/// one is a piece, and no piece begins or ends inside.
///
/// Of several numbers of spans the one with the lowest peak is taken, fewer where that costs less than a hundredth; one
/// arena for all where that is within 64 KiB of the lowest, or a 128th of it. Equal arguments give equal pieces.
ArenaPieces plan_pieces(std::span<const Interval> intervals, std::span<const std::uint64_t> scratch,
                        std::span<const std::uint64_t> beside, std::span<const StepRange> blocks = {});

}  // namespace coil::runtime
