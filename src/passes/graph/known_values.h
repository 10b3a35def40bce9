// Values that depend on no input, computed while the program is compiled.
#pragma once
#include "passes/graph/fold_constants.h"

namespace coil {

/// Attention masks that follow from sizes alone are said by name (known_masks.h), and constants worth folding become
/// attributes (fold_constants.h). One run computes both.
void compute_known_values(fx::GraphModule&, const IsLowered&, std::int64_t few_rows, const RunModule&);

}  // namespace coil
