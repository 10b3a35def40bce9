// How operands of convolutions are shown to cuDNN.
#pragma once
#include "runtime/library.h"

namespace coil::runtime::cuda {

/// One spatial dimension becomes two: cuDNN's engines want them.
BoundView widened(BoundView);
/// What belongs to spatial dimensions, one before the first where there is only one.
Sizes widened(Sizes, std::int64_t first);
/// Whether elements lie dense with the channels innermost (and not row-major as well).
bool is_channels_last(const BoundView&);

}  // namespace coil::runtime::cuda
