// Launches of one kernel on different memory, put together into one launch: the many small tensors of an optimizer
// step, or equal layers side by side.
#pragma once
#include "codegen/backend.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Before lifetimes are planned. A launch joins an earlier one of the same kernel and grid when nothing between them
/// orders the two; or a later one, where it makes a result of the program of little: the last sums of all layers'
/// gradients become one launch. Where the backend has no such launches nothing changes.
void batch_launches(Program&, const codegen::Backend&);

}  // namespace coil::wrapper
