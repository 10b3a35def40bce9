// A convolution taken apart into convolutions whose results lie evenly and whose taps all apply: one, but for
// transposed ones, which have one for each remainder of a result's place by the stride (runtime/ops/panel/windows.h).
#pragma once
#include <array>

#include "runtime/ops/convolution.h"

namespace coil::runtime::panels {

inline constexpr std::size_t kDims = 3;  ///< spatial ones; what a convolution lacks comes first, of size 1

struct Tap {
  std::int64_t kernel = 0;  ///< place in the kernel
  std::int64_t offset = 0;  ///< from the place in x where a result's window begins
};

/// One dimension of a phase: results `start + step * q` for q below `count` read x at `from_step * q` plus each tap's
/// offset.
struct PhaseAxis {
  std::int64_t start = 0, step = 1, count = 1, from_step = 1;
  std::vector<Tap> taps = {{}};  ///< by offset, ascending
};

struct Phase {
  std::array<PhaseAxis, kDims> axes;
  std::int64_t taps() const {
    std::int64_t count = 1;
    for (const PhaseAxis& axis : axes) count *= static_cast<std::int64_t>(axis.taps.size());
    return count;
  }
};

using Places = std::array<std::int64_t, kDims>;

Places spatial_sizes(const BoundView&);

/// Whether every operand is f32, and so is the result.
bool is_f32(const ConvolutionProblem&);

/// A post-operation's operand has one value for each channel, or one for all.
bool is_of_channels(const BoundView&);

/// Every phase that the strides have, those without results among them: they depend on no size of x.
std::vector<Phase> phases_of(const ConvolutionProblem&);

}  // namespace coil::runtime::panels
