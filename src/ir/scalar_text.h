// The text form of what loops compute: `add(load(buf0, [i0, i1]), 1.0)`.
//
// Constants without a type are f32, i64 or bool; others say theirs: `f64(0.5)`, `i32(3)`. A load of a buffer as another
// type than the buffer's own says so: `linear_load(buf0 as i32, [4*i0])`. In a large expression, values that are used
// several times have names: `t0 = exp(load(buf0, [i0])); mul(t0, t0)`.
#pragma once
#include <functional>
#include <string>

#include "ir/scalar.h"
#include "ir/text_parts.h"

namespace coil::ir {

/// What a buffer's own type is.
using StoredType = std::function<DType(BufferId)>;

std::string to_string(Scalar, const StoredType&);
/// The value that stands here, exactly as it was: nothing is folded. Faults where operands do not fit their operation.
Scalar read_scalar(LineCursor&, const PartReader&, ScalarPool&, const StoredType&);

}  // namespace coil::ir
