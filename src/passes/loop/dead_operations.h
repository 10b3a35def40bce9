// Operations that nothing needs.
#pragma once
#include <cstddef>

#include "ir/ir.h"

namespace coil::ir {

/// Removes operations that nothing reads, and whose buffers are no outputs. Returns how many.
std::size_t eliminate_dead_operations(Graph&);

}  // namespace coil::ir
