// What a run of a plan has in memory at its fullest, of an allocator that gives outputs and takes inputs while it
// lasts.
#pragma once
#include <map>

#include "runtime/plan/plan.h"
#include "support/going_memory.h"

namespace coil::runtime {

/// Bytes of temporaries, outputs and those inputs that go with the last step that uses them; without scratch memory of
/// library calls, which only the device knows.
struct PlannedPeaks {
  std::uint64_t least = 0;    ///< what is live at the fullest step
  std::uint64_t pieces = 0;   ///< with temporaries in pieces (arena_pieces.h)
  std::uint64_t whole = 0;    ///< with one arena from the first step to the last
  std::uint64_t outputs = 0;  ///< of all outputs, which are there at the end
  std::uint64_t arena = 0;    ///< of the plan, for temporaries
  std::uint64_t kept = 0;     ///< of the inputs that go: what was there before
  std::size_t count = 0;      ///< of pieces
};

/// `going`: inputs by their places. Sizes are those of the shape program where they are constant, and 0 elsewhere.
PlannedPeaks planned_peaks(const Plan&, const std::map<std::uint32_t, GoingMemory>& going);

}  // namespace coil::runtime
