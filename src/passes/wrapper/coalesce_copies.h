// Copies between buffers that can be one: a write in place is computed as a new value and copied to where it belongs,
// and most often it can be made there.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Lets the two sides of a copy (CallKernel::copies) share memory, and drops the line, wherever every reader still sees
/// the value it means: nothing that reads the one's value may run after the other is written, and a call that does both
/// must be able to (CallKernel::in_place). Before lifetimes are planned.
void coalesce_copies(Program&);

}  // namespace coil::wrapper
