// Copies between buffers that can be one: a write in place is computed as a new value and copied to where it belongs,
// and most often it can be made there.
#pragma once
#include <vector>

#include "wrapper/program.h"

namespace coil::wrapper {

/// A line that copies all of a buffer, unchanged and each element to the same place, to another.
struct Copy {
  std::size_t line = 0;
  BufferId from = 0, to = 0;
};

/// Lets the two sides of a copy share memory, and drops the line, wherever every reader still sees the value it means:
/// nothing that reads the one's value may run after the other is written, and a call that does both must be able to
/// (CallKernel::in_place). Before lifetimes are planned.
void coalesce_copies(Program&, const std::vector<Copy>&);

}  // namespace coil::wrapper
