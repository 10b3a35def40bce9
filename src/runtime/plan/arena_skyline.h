// A placement in one pass, from the lowest address upwards.
#pragma once
#include "runtime/plan/arena_problem.h"

namespace coil::runtime {

/// Which of the blocks that could lie next at the lowest free address is taken.
enum class Preference : std::uint8_t { Longest, LargestArea, Largest };

/// The skyline is the lowest free address of each clique, a row of level stretches. The lowest stretch gets, again and
/// again, the preferred block of those that live within it, or is raised to its lower neighbour where there is none.
/// About n log n.
Placement place_by_skyline(const ArenaProblem&, Preference);

}  // namespace coil::runtime
