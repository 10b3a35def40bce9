// Keeps NaN through post-operations in which oneDNN loses it (relu, clip), and where it is through convolutions in
// tiles (passes/loop/winograd.h), at the cost of a few looks at the data.
//
// A product or convolution whose operands are finite and bounded gives no NaN before it reaches 1e37, so that nothing
// can be lost. Bounds are carried from operation to operation (a convolution with constant weights multiplies by their
// largest sum of magnitudes, a clip resets them); where nothing is known, or the bound has grown too far, an
// `all_bounded` call looks at the operand itself. All such calls feed one flag, which the products and convolutions
// read: while it holds they run in oneDNN's fast form, else in an exact one (runtime/ops/nan_guard.h).
#pragma once
#include "ir/ir.h"

namespace coil {

/// For a graph on the CPU, with layouts chosen and weights not yet packed.
/// `looks`: whether data may be looked at; without, all calls that are not safe keep NaN by themselves.
void add_nan_guards(ir::Graph&, bool looks = true);

}  // namespace coil
