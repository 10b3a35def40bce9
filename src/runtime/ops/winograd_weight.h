// The weight of a 3x3 convolution as Winograd's minimal filtering multiplies by it.
#pragma once
#include "library_ops/winograd_transforms.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// U[n * i + j, c, o] = (G g Gt)[i, j] for the window g of channels c and o of a weight [O, C, 3, 3] in f32, rounded
/// once. Rows lie an odd number of cache lines apart: those a multiple of a page apart share few sets of the cache.
Tensor transformed_weight(const Tensor& weight, const winograd::Transforms&);

}  // namespace coil::runtime
