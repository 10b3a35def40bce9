// Operands of reductions in the order that the reductions walk.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Copies large operands that a reduction, among operands that lie along its rows, would read across them: each element
/// would take a sector of memory, where a kernel that copies turns squares of them. All that reads the operand so reads
/// the copy, on devices with grids of threads. On a processor, where vectors go along the innermost dimension of a
/// reduction's result, operands that lie along the reduction and are read many times over are copied: each vector would
/// be gathered from as many lines as it has elements.
void turn_operands(Graph&);

}  // namespace coil::ir
