// A placement in one pass, from the lowest address upwards.
#pragma once
#include "runtime/plan/arena_problem.h"

namespace coil::runtime {

/// Which of the blocks that could lie next at the lowest free address is taken.
enum class Preference : std::uint8_t { Longest, LargestArea, Largest };

/// The skyline is the lowest free address of each clique, a row of level stretches. The lowest stretch gets, again and
/// again, the preferred block of those that live within it, or is raised to its lower neighbour where there is none.
/// About n log n; `work` grows by the cliques and blocks that were looked at.
Placement place_by_skyline(const ArenaProblem&, Preference, std::uint64_t& work);

/// Places by skyline again and again, each time with blocks preferred that lay too high before (squeaky wheel
/// optimization, Joslin and Clements 1999): first by their lengths where most bytes are live, then more by how far
/// above the least they ended. Gives the best of the two placements, `best` or what was found, when it is within a
/// 256th of the least or after `passes`, fewer where passes are long.
Placement place_again(const ArenaProblem&, Placement best, std::size_t passes);

}  // namespace coil::runtime
