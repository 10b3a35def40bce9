// Matrix products, and values that they read in a form that suits the device's library.
#pragma once
#include "lowering/lowering.h"

namespace coil::lowering {

/// x[B.., K] weight[N, K]^T + bias[N], which `meta` describes.
TensorBox linear_product(Context&, const TensorBox& x, const TensorBox& weight, const std::optional<TensorBox>& bias,
                         const sym::TensorMeta& meta);

/// Called after each node is lowered. Where a large product reads the value and the library wants its rows in whole
/// vectors, the value is put into memory that way at once, and whoever else reads it does so from there: made by its
/// first product, it would have been stored for the others already, and be copied.
void store_for_products(Context&, const fx::Node&, const TensorBox&);

/// Columns of memory for the rows of a value that is stored in parts: as many as it has, or up to whole vectors where
/// nothing but large products of such a library reads it. Those beyond its own are never written nor read.
Expr columns_for_products(const Context&, const fx::Node&);

}  // namespace coil::lowering
