// Makes a placement smaller by a search.
#pragma once
#include "runtime/plan/arena_problem.h"

namespace coil::runtime {

/// Places the blocks that lie highest anew, with what is around them in time and space, again and again, until the
/// arena is within a 256th of the least or so much was looked at (about a nanosecond for each of `work`). Small
/// programs are searched on to the least itself. The same problem gives the same placement.
void improve_placement(const ArenaProblem&, Placement&, std::uint64_t work);

}  // namespace coil::runtime
