// The library operation `complex_parts`: complex numbers as pairs of real ones, pairs as complex numbers, or complex
// numbers in another place, bit for bit.
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

/// The copy of real numbers that a call is.
struct RealViews {
  BoundView from, to;
};
/// Throws Error where operands do not fit.
RealViews real_views(std::span<const BoundView> inputs, std::span<const BoundView> outputs);

}  // namespace coil::runtime
