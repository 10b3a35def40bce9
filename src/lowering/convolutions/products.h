// Convolutions as matrix products, where GPU libraries of convolutions have slow kernels: in groups whose windows are
// one place, a product for each group; of sequences, from a window that fits into one vector, or to one channel; of
// images of few channels, by windows that overlap little.
#pragma once
#include "lowering/common.h"
#include "lowering/convolutions/channels.h"

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

/// Whether a convolution of x by a weight of these sizes is one of sequences to one channel, by windows of at most 16
/// places and of channels in whole vectors.
bool is_one_channel_of_products(const TensorBox& x, const std::vector<std::int64_t>& weight);

/// Such a convolution of x [N, C, L]: one product of all places by the weight of each of the window's places, in f32,
/// and a sum of K neighbouring numbers.
TensorBox one_channel_of_products(Context&, const TensorBox& x, const TensorBox& weight,
                                  const std::optional<TensorBox>& bias, std::int64_t stride, std::int64_t padding,
                                  std::int64_t dilation);

/// Whether a convolution in one group is one of a few channels in 32 or 64 bits by windows that read each place a few
/// times at most: the patches of a vision transformer.
bool is_product_of_patches(const Call&);

/// One product by the weight, of rows that each hold what a window reads; channels lie innermost in the result.
TensorBox product_of_patches(Context&, const Call&);

/// Whether the gradient of such a convolution's weight, in 16 bits too, is a product.
bool is_gradient_of_patches(const Call&);

/// That gradient, which `meta` describes. Of the call only what the windows read is looked at.
TensorBox weight_gradient_of_patches(Context&, const Call&, const TensorBox& dy, const sym::TensorMeta& meta);

}  // namespace coil::lowering
