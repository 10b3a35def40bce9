// Matrix products by kernels of Coil's own in place of the library's, which take in all that follows element by
// element.
#pragma once
#include <functional>
#include <optional>

#include "ir/ir.h"

namespace coil {

/// The call of `blocked_matmul` that gives what this call of `linear` or `matmul` gives; nothing where the target has
/// no kernel of these operands: of 16 bits, with rows (of b, rows or columns) that begin on 16 bytes.
std::optional<ir::Extern> as_own_product(const ir::Graph&, const ir::Operation&);

/// Every product that has such a form and is `wanted` takes it. Runs before post-operations are fused.
void take_own_products(ir::Graph&, const std::function<bool(const ir::Operation&)>& wanted);

/// The value of the setting `cuda.products`: `library`, `own` or `auto`.
bool is_products_choice(std::string_view);

}  // namespace coil
