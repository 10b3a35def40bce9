// Where a mask is true, what repeats how often, which rows are distinct: by running totals and scattered stores, for
// devices whose libraries do not tell (on the CPU runtime/ops/selection.cpp does).
#pragma once
#include "lowering/common.h"

namespace coil::lowering {

/// Row-major positions of the mask's true elements, the first `count` of them in order; -1 behind the last.
TensorBox positions_by_kernels(Context&, const TensorBox& mask, Expr count);

/// For each of `count` results, which entry of `repeats` it repeats; `count` is their sum. The kernel fails where one
/// is negative.
TensorBox repeats_by_kernels(Context&, const TensorBox& repeats, Expr count);

/// The distinct rows of a matrix, where each row of it went, how often each occurs.
struct Distinct {
  TensorBox rows, inverse, counts;
};

/// In order (as they come, where only neighbours are compared), NaN last and no NaN equal to another; their number is
/// what `count` is from here on.
Distinct distinct_by_kernels(Context&, const TensorBox& matrix, bool consecutive, Expr count);

}  // namespace coil::lowering
