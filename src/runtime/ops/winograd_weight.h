// The weight of a 3x3 convolution as Winograd's minimal filtering multiplies by it, U = G g Gt.
#pragma once
#include "library_ops/winograd_transforms.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Transforms a weight [results, channels, 3, 3] that lies in `strides` into panels of `width` results (a multiple of
/// sixteen): [terms, panels, channels, width], 0 for results that it does not have. Returns whether the weight is
/// finite.
bool transform_weight(float* to, const float* weight, const Sizes& strides, std::int64_t channels, std::int64_t results,
                      std::int64_t width, const winograd::Transforms&);

/// U[n * i + j, c, o] = (G g Gt)[i, j] for the window g of channels c and o of a weight [O, C, 3, 3] in f32, rounded
/// once. Rows lie an odd number of cache lines apart: those a multiple of a page apart share few sets of the cache.
Tensor transformed_weight(const Tensor& weight, const winograd::Transforms&);

}  // namespace coil::runtime
