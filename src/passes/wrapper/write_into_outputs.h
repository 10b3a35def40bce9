// Values that results take over are made in the results' memory.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Where a call may write a result over a temporary of the same number of bytes that nothing reads later
/// (CallKernel::in_place), the temporary is the result's memory from the start, and so is what it was made in place of
/// in turn: the arena does without it, and the results take no more than before. In the final order of the calls,
/// before lifetimes are planned; not in programs with branches or loops, where a call may run twice.
void write_into_outputs(Program&);

}  // namespace coil::wrapper
