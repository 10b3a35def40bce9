// Concatenations that are parts of longer ones lie in those: a dense block has each of its values once.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A buffer that is put together of parts, all of which a longer concatenation has side by side as well, becomes a
/// window of the longest such one. Each part is stored once, where the first of the two was given it, and loops that
/// read the buffer read the window. Not where anything but loops reads it, nor where rows of the window would begin on
/// worse addresses than the buffer's own, or its dimensions lie in another order.
void nest_concatenations(Graph&);

}  // namespace coil::ir
