// What eager asks of a call's arguments beyond their kinds: element types, ranks, ranges of numbers, tensors that go
// together. The schema does not say it, tracing does not always ask it, and shape functions take it for granted.
#pragma once
#include "ops/registry.h"

namespace coil::ops {

/// Throws Error, naming the operator, where eager would refuse a call's arguments. Says nothing of operators that the
/// tables in requirements_table.h do not have.
void check_requirements(const Call&);

/// Whether torch takes a number for this operator's tensors (`add.Tensor(x, 1)`), as it does for a few.
bool takes_numbers_for_tensors(std::string_view target);

}  // namespace coil::ops
