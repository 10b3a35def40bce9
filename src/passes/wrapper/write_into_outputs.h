// Values that results take over are made in the results' memory, and products are added to what they are added to.
#pragma once
#include "target/target.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Where a call may write a result over a temporary of the same number of bytes that nothing reads later
/// (CallKernel::in_place), the temporary is the result's memory from the start, and so is what it was made in place of
/// in turn: the arena does without it, and the results take no more than before. So is what a product or a convolution
/// adds to its result (a residual), be that a result of the program or a temporary: the library adds to the memory that
/// holds it. In the final order of the calls, before lifetimes are planned; not in programs with branches or loops,
/// where a call may run twice.
void write_into_outputs(Program&, const target::Target&);

}  // namespace coil::wrapper
