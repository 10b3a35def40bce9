// Interval arithmetic on inclusive 64-bit bounds in which the extreme values mean "no bound".
#pragma once
#include "sym/shape_env.h"

namespace coil::sym {

Range interval_add(Range, Range);
Range interval_mul(Range, Range);
Range interval_square(Range);
/// The divisor is taken not to be 0; one that is never negative is thus positive.
Range interval_floor_div(Range, Range);
Range interval_ceil_div(Range, Range);
Range interval_mod(Range, Range);
Range interval_union(Range, Range);
Range interval_intersect(Range, Range);

}  // namespace coil::sym
