// Values that a kernel compares, which must be the same numbers wherever they are computed.
#pragma once
#include <unordered_set>

#include "codegen/loop_nest.h"

namespace coil::codegen {

/// Products of f32 and f64, but for those by powers of two, below what the nest compares, or takes the largest or
/// smallest of for others to see, also through values that it makes itself. A product that becomes a part of a fused
/// multiply-add in one place and not in another gives two numbers for one value, and gradients of the largest of values
/// find its places by comparing all with it.
std::unordered_set<ir::Scalar> compared_products(const LoopNest&);

}  // namespace coil::codegen
