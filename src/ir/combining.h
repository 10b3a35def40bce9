// What reductions do to two values, and what changes nothing in them: what every printer of kernels asks.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// What combines two values; of ArgMax and ArgMin, what combines their values.
ScalarOp combining_op(ReductionKind);

/// The value that changes nothing in a reduction: a float where the register type is one, else an integer (of u64 its
/// bits).
struct NeutralValue {
  double real = 0;
  std::int64_t integer = 0;
};
NeutralValue neutral_value(ReductionKind, DType register_type);

}  // namespace coil::ir
