// How operands of convolutions are shown to cuDNN.
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime::cuda {

/// One spatial dimension becomes two: cuDNN's engines want them.
BoundView widened(BoundView);
/// What belongs to spatial dimensions, one before the first where there is only one.
Sizes widened(Sizes, std::int64_t first);
/// The two layouts in which cuDNN is shown operands: dense, channels-last or row-major. Its engines take other strides,
/// and operands that differ in their order, and then read some from wrong places.
BoundView shown_as(const BoundView&, bool last);
/// Bytes of the operands that do not lie as they are shown.
std::size_t copied_bytes(std::span<const BoundView* const>, bool last);
/// Whether to show operands channels-last copies fewer bytes than to show them row-major. So are pictures of one place
/// under a window of one place, which lie in both: with the strides of rows, where those of channels and of places are
/// 1, engines of cuDNN 9.19 that add an activation write results to wrong places.
bool lie_channels_last(std::span<const BoundView* const>);

}  // namespace coil::runtime::cuda
