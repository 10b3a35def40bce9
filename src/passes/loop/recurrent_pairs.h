// Layers of recurrent networks that do not depend on each other, two in a call: a step of one waits for the step
// before it, so that threads gain little by sharing a step, and much by taking a layer each.
#pragma once
#include "ir/ir.h"

namespace coil {

/// Two calls of `recurrent` of one cell in a block, such as the two directions of a layer, become a `recurrent_pair`
/// where the second reads nothing that follows from the first. What does is moved behind the pair.
void pair_recurrences(ir::Graph&);

}  // namespace coil
