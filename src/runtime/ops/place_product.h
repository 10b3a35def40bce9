// Convolutions of single places, whose windows are 1, as products of rows of channels.
#pragma once
#include "runtime/ops/convolution.h"
#include "runtime/ops/gemm.h"

namespace coil::runtime {

/// The product [places, C] [C, O] that the convolution is, with places as rows where they lie; nothing where windows
/// are larger or padded, in groups, or where channels do not lie innermost.
std::optional<GemmProblem> product_of_places(const ConvolutionProblem&);

}  // namespace coil::runtime
