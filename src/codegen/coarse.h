// Where a kernel need not compute to the last bit of f32, and pairs of operations that one function does better.
#pragma once
#include <functional>
#include <optional>
#include <unordered_set>

#include "codegen/loop_nest.h"

namespace coil::codegen {

/// The f32 values of a nest that end in floats of 16 or 8 bits without anything on the way that makes relative errors
/// larger, as a difference may: functions that are right to some 2^-16 of the value will do for these.
std::unordered_set<ir::Scalar> coarse_values(const ir::Graph&, const LoopNest&);

/// A function of the device text that does the work of two operations.
struct Together {
  const char* function;
  ir::Scalar argument;
};

/// 1 + erf(x) and 1 + tanh(x), which gelu is made of: cheaper together, and right where the sum is small.
std::optional<Together> together(ir::Scalar);

/// The values that computing this one needs, operands first, without itself; of those that are `known` nothing below.
std::vector<ir::Scalar> needed_for(ir::Scalar, const std::function<bool(ir::Scalar)>& known);

}  // namespace coil::codegen
