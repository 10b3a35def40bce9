// Ways to lay an operation's loops over a group's: the candidates that fusion checks.
#pragma once
#include <vector>

#include "scheduler/schedule.h"

namespace coil::scheduler {

/// A group's space after an operation joined it, and the operation's place in it. `old_outer` and `old_inner` express
/// the group's former variables over the new ones.
struct Placement {
  Exprs outer{}, inner{};
  Exprs old_outer{}, old_inner{};
  Role role = Role::Outer;
  Exprs ivars{}, rvars{};
};

/// Every placement worth trying, best first: by equal row-major spaces, then by an access that both make to one buffer
/// (which finds permuted loops).
std::vector<Placement> placements(ir::Graph&, const Group&, const ir::Operation&);

/// Accesses of a loop operation: loads of its body (and of its scatter indices), once each.
std::vector<ir::Scalar> loads_of(const ir::Operation&);

}  // namespace coil::scheduler
