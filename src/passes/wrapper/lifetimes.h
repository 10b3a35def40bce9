// When a buffer's memory is taken, passed on and given back.
#pragma once
#include "wrapper/program.h"

namespace coil::wrapper {

/// Adds Allocate, Reuse and Free lines around the calls: each buffer from its first use to its last, in place where a
/// call allows it and the sizes are equal. Lines of that kind that are there go first.
void plan_lifetimes(Program&);

}  // namespace coil::wrapper
