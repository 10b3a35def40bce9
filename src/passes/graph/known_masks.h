// Attention masks that follow from sizes alone: none where they let everything through, the kernels' own causal form
// where they are the lower triangle.
#pragma once
#include <span>
#include <vector>

#include "passes/graph/fold_constants.h"

namespace coil {

/// Masks of a decomposed module's attention calls that depend on no input, each once, before they were repeated over a
/// batch.
std::vector<fx::Node*> known_masks(const fx::GraphModule&, const IsLowered&);
/// Rewrites the calls whose masks, of these values, say what the calls can say themselves. Leaves the masks to dead
/// code elimination.
void simplify_known_masks(fx::GraphModule&, std::span<fx::Node* const> masks, std::span<const Tensor> values);

}  // namespace coil
