// Which convolutions kernels of Coil's own carry out, where a device's library has slow ones.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "target/target.h"
#include "tensor/dtype.h"

namespace coil::lowering {

/// What the choice looks at; sizes that are not known are absent.
struct ConvolutionFacts {
  DType dtype = DType::F32;
  std::optional<std::int64_t> in_per_group, out_per_group;  ///< channels of one group
  std::optional<std::int64_t> taps;                         ///< elements of a window
};

/// How windows of two dimensions lie.
struct ConvolutionSteps {
  std::vector<std::int64_t> window, stride, dilation;
  std::int64_t groups = 1;
};

/// Whether a convolution is a sum over windows, with no product of matrices in it that is worth a library's kernels:
/// each group has one channel of the input, and few of the result.
bool computes_by_windows(const ConvolutionFacts&);

/// Whether a convolution in two dimensions is one for the matrix units, group by group: groups have so few channels,
/// and windows so few places, that a warp holds the weights of eight results in registers (src/device/cuda/
/// convolutions.cuh), and what a square of places reads lies in a block's shared memory.
/// `of_weights`: the gradient of its weight.
bool computes_by_groups(const ConvolutionFacts&, const ConvolutionSteps&, bool of_weights);

/// Parts in which the gradient of such a convolution's weight is summed: so many that the machine is full, while what
/// they come to stays small beside the operands. `rows`: of the result, each of `columns` places.
std::int64_t weight_gradient_parts(std::int64_t rows, std::int64_t columns, std::int64_t channels, std::int64_t taps);

/// Parts in which the gradient of the weight of a convolution in groups is summed on matrix units: a multiprocessor has
/// two blocks, each of some channels and a share of the rows.
std::int64_t group_gradient_parts(std::int64_t rows, std::int64_t channels, const target::Costs&);

}  // namespace coil::lowering
