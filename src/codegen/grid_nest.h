// The loops that a kernel over a grid of threads is written from, in any language.
#pragma once
#include "codegen/loop_nest.h"
#include "support/extension_api.h"

namespace coil::codegen {

/// Values of points stand inside of the bodies that read them at the same point; what is read elsewhere in its row is
/// stored.
COIL_EXTENSION_API LoopNest make_grid_nest(ir::Graph&, const scheduler::Group&);

}  // namespace coil::codegen
