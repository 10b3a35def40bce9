// Sums over narrow columns, such as the few channels of a group norm's groups where channels lie innermost.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// On a processor, a sum over many rows and over a few neighbouring columns, beside which lie those of the next result,
/// becomes two: over the rows, a column each, and over the columns. The first walks whole lines of memory in vectors;
/// as one, each result would read the lines that it shares with its neighbours by itself, a few elements at a time.
void sum_narrow_columns(Graph&);

}  // namespace coil::ir
