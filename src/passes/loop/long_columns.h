// Sums over long columns, cut once layouts are known.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A reduction over many rows for a few neighbouring columns becomes two on a device whose blocks share such work: over
/// chunks of the rows, then over the chunks. Lowering cuts most of them, by the layouts that it expects; this finds
/// those that walk columns since layouts were chosen, of which a few blocks would do the work of all.
void split_long_columns(Graph&);

}  // namespace coil::ir
