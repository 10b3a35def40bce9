// Convolutions in groups whose windows are one place, as a matrix product for each group: GPU libraries of convolutions
// have slow kernels for them.
#pragma once
#include "lowering/common.h"

namespace coil::lowering {

/// Whether a convolution of x [N, C, ...] by a weight of sizes [O, C / groups, ...] (transposed: [C, O / groups, ...])
/// is one: windows of one place, step 1, no padding, and channels of a group in whole vectors.
bool is_product_of_groups(const TensorBox& x, const Exprs& weight, std::int64_t groups,
                          const std::vector<std::int64_t>& stride, const std::vector<std::int64_t>& padding);

/// The node's result, with channels innermost.
TensorBox product_of_groups(Context&, const TensorBox& x, const TensorBox& weight, const std::optional<TensorBox>& bias,
                            std::int64_t groups, bool transposed);

/// The gradient of the weight, which `meta` describes, of a convolution of x that is not transposed.
TensorBox weight_gradient_of_groups(Context&, const TensorBox& x, const TensorBox& dy, std::int64_t groups,
                                    const sym::TensorMeta& meta);

}  // namespace coil::lowering
