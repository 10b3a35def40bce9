// Channels in whole vectors, for libraries that are slow at others: the three of an image, the one of a recording.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "lowering/common.h"

namespace coil::lowering {

/// A convolution by a weight of known sizes as it will be called.
struct Call {
  TensorBox x, weight;
  std::optional<TensorBox> bias;
  std::vector<std::int64_t> weight_sizes, stride, dilation, before, after;  ///< before, after: zeros around x
  bool transposed = false;
  std::int64_t step = 1;  ///< the library wants channels in multiples of it

  std::size_t spatial() const { return stride.size(); }
  std::size_t of_x() const { return transposed ? 0 : 1; }  ///< the weight's dimension of the input's channels
  std::size_t of_y() const { return transposed ? 1 : 0; }
};

/// Elements of a vector, whole numbers of which a library wants channels to be in: 1 where it wants nothing.
std::int64_t channel_step(const Context&, DType, std::int64_t groups);

/// Gives the input whole vectors of channels: with zeros, or with those of neighbouring places, by which the
/// convolution becomes one of smaller windows. Both cost a pass over the input and the weight.
void widen_input(Context&, Call&);

/// Gives the result whole vectors of channels, those beyond its own by weights of zeros.
void widen_result(Context&, Call&);

}  // namespace coil::lowering
