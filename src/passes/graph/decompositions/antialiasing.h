// Interpolation of images with a filter that widens as they shrink.
#pragma once
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

/// _upsample_bilinear2d_aa, _upsample_bicubic2d_aa and _upsample_lanczos2d_aa with sizes
/// (ATen/native/cpu/UpSampleKernel.cpp).
Value decompose_antialiased(Rewriter&);

}  // namespace coil::passes
