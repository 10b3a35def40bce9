// Results whose bits do not depend on the size of the batch that they are computed in (deterministic=batch).
#pragma once
#include "ir/ir.h"

namespace coil {

/// Marks every call that takes a batch of rows or images, so that libraries compute each as if it were alone. Throws
/// Error on a call that cannot be computed so.
void keep_rows_apart(ir::Graph&);

}  // namespace coil
