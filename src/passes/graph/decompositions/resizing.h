// Interpolation of images with a filter that widens as they shrink, and of images of bytes
// (ATen/native/cpu/UpSampleKernel.cpp).
#pragma once
#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

/// _upsample_bilinear2d_aa, _upsample_bicubic2d_aa and _upsample_lanczos2d_aa with sizes.
Value decompose_antialiased(Rewriter&);

/// upsample_bilinear2d and upsample_bicubic2d with sizes: of bytes on a CPU; others stay as they are.
Value decompose_resized(Rewriter&);

}  // namespace coil::passes
