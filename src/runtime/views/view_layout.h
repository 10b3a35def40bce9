// How views lie in memory, as the libraries ask it.
#pragma once
#include "runtime/views/bound_view.h"

namespace coil::runtime {

/// Whether elements lie on one another because a dimension of several has a stride of 0.
bool has_zero_stride(const BoundView&);
/// Dense, the channels (dimension 1) innermost, the first dimension outermost.
BoundView channels_last(DType, const Sizes&);

}  // namespace coil::runtime
