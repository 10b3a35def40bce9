// A bounded search for the order of a few steps.
#pragma once
#include <optional>

#include "scheduler/peak.h"

namespace coil::scheduler {

/// The most steps that one search takes.
inline constexpr std::size_t kWindow = 64;

struct Search {
  std::optional<std::vector<StepId>> steps;  ///< of the window, anew; nothing where no better order was found
  std::size_t expanded = 0;                  ///< states that were gone on from
};

/// The steps [first, first + count) of an order anew, so that the most that is live among them is less than it was. It
/// goes step by step through the sets of steps that may have run, keeps `states` of them, the best by peak and by what
/// is live, and is exact as long as there are no more.
Search improve(const MemoryProgram&, std::span<const StepId> order, std::size_t first, std::size_t count,
               std::size_t states);

}  // namespace coil::scheduler
