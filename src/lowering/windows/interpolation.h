// Where interpolation reads: positions and weights of each dimension, which forward gathers by and backward scatters
// by.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "lowering/common.h"

namespace coil::lowering {

/// Sizes of one resampled dimension, its loop variable and the scale that the caller gave for it, if any.
struct Axis {
  Expr in, out, i;
  std::optional<double> factor;
  /// Where the output is as large as the input, or twice as large, nearest positions follow from that and not from the
  /// factor (nearest_idx in aten/src/ATen/native/UpSample.h).
  bool sizes_first = false;
};

enum class Interpolation : std::uint8_t { Nearest, NearestExact, Linear, Cubic };

/// The input positions that output position `i` reads, in range, with their weights: one, two or four. Positions are
/// I64, weights of type `t`.
std::vector<std::pair<Element, Element>> interpolation_taps(Context&, const Axis&, Interpolation, DType t,
                                                            bool align_corners);

}  // namespace coil::lowering
