// A checker of scheduled graphs, for debug builds and tests.
#pragma once
#include "scheduler/schedule.h"

namespace coil::scheduler {

/// Each operation runs once, after what it reads was written and after the symbols that it needs got their values; and
/// the free symbols that each says it has are those that its text and the layouts of its buffers name. Throws Error
/// (COIL_CHECK) naming the operation.
void verify(const ir::Graph&, const Schedule&);

}  // namespace coil::scheduler
