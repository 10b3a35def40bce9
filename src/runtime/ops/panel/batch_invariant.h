// Products whose elements are each the sum over k in one order, whatever the number of rows, columns and matrices: a
// row has the same bits in every batch.
#pragma once
#include "runtime/ops/gemm.h"

namespace coil::runtime::panels {

/// By panels (runtime/ops/panel/gemm.h) where the machine has them, with what is not packed rearranged in each call;
/// else by plain loops. On one machine both kinds of call exist for different types alone.
std::unique_ptr<PreparedCall> make_batch_invariant_gemm(const GemmProblem&);

}  // namespace coil::runtime::panels
