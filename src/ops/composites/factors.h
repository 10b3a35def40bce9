// Steps with factored matrices that several composite operators take.
#pragma once
#include "ops/composites/steps.h"

namespace coil::ops::composites {

/// [.., M, N] -> [.., min(M, N)], largest first.
Value singular_values(Steps&, const Value& matrices);
/// The inverse of square matrices; the run fails where one is singular.
Value checked_inverse(Steps&, const Value& matrices);

}  // namespace coil::ops::composites
