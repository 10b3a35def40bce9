// Attention masks that follow from sizes alone: none where they let everything through, the kernels' own causal form where they are the lower triangle.
#pragma once
#include "compiler/fold_constants.h"

namespace coil {

/// Rewrites the attention calls of a decomposed module whose masks depend on no input. Masks are computed by `run`. Returns how many calls were rewritten.
std::size_t simplify_known_masks(fx::GraphModule&, const RunModule&);

}  // namespace coil
