// Matrix products by kernels of Coil's own in place of the library's, which take in all that follows element by
// element.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "ir/ir.h"

namespace coil {

/// The call of `blocked_matmul` that gives what this call of `linear` or `matmul` gives; nothing where the target has
/// no kernel of these operands: of 16 bits, with rows (of b, rows or columns) that begin on 16 bytes.
std::optional<ir::Extern> as_own_product(const ir::Graph&, const ir::Operation&);

/// Into how many parts the sums of a product go that becomes the call `own`; 0: the product is left to the library.
using PartsOfProduct = std::function<std::int64_t(const ir::Operation&, const ir::Extern& own)>;

/// Whether the kernel of few rows (device/cuda/thin_products.cuh) is at least as fast as the library at this call of
/// `blocked_matmul`, by measurements on an H200.
bool gains_as_few_rows(const ir::Graph&, const ir::Extern& own);

/// Every product that has such a form takes it, in as many parts as `parts` says (passes/loop/product_parts.h). Runs
/// before post-operations are fused.
void take_own_products(ir::Graph&, const PartsOfProduct& parts);

/// The value of the setting `cuda.products`: `library`, `own` or `auto`.
bool is_products_choice(std::string_view);

}  // namespace coil
