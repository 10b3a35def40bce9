// Operators on complex tensors, among the casts.
#pragma once

namespace coil::ops::shapes {

void register_complex();

}  // namespace coil::ops::shapes
