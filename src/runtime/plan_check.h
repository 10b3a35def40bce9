// Refuses plans that would make the executor reach outside of its own tables: a package may come from anywhere.
#pragma once
#include "runtime/plan.h"

namespace coil::runtime {

/// Throws Error on an index out of range, a shape instruction that reads a later one, a chain of shared buffers that
/// does not end in memory of its own, or an unknown operation. What kernels do with their pointers is beyond it.
void check_plan(const Plan&);

/// The buffer whose memory `id` lives in.
BufferId memory_of(const Plan&, BufferId id);

}  // namespace coil::runtime
