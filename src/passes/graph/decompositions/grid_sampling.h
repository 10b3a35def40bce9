// Sampling an image or a volume at positions that are data.
#pragma once
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

/// grid_sampler_2d and grid_sampler_3d, in every mode that eager has (ATen/native/GridSampler.h).
Value decompose_grid_sampler(Rewriter&);

}  // namespace coil::passes
