// Operands of reductions in the order that the reductions walk.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Copies large operands that a reduction, among operands that lie along its rows, would read across them: each element
/// would take a sector of memory, where a kernel that copies turns squares of them. All that reads the operand so reads
/// the copy. For devices with grids of threads.
void turn_operands(Graph&);

}  // namespace coil::ir
