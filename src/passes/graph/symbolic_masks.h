// Attention masks of free sizes: none where they let everything through, causal where they are the lower triangle,
// shown from what an element is as an expression of its indices.
#pragma once
#include "fx/graph.h"

namespace coil {

/// Rewrites attention calls of a decomposed module whose masks say what the calls can say themselves. Leaves the masks
/// to dead code elimination. (Masks of fixed sizes are looked at: passes/graph/known_masks.h.)
void simplify_symbolic_masks(fx::GraphModule&);

}  // namespace coil
