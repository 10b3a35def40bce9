// A call that several kernels can carry out, by sizes, as calls of each.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Each alternative of a call (CallKernel::alternatives) becomes a call that is left out where its condition does not
/// hold, and the call itself is left out where one of them holds. The last of the passes that move lines: all others
/// see one call.
void split_alternatives(Program&);

}  // namespace coil::wrapper
