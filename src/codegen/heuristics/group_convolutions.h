// Convolutions in groups of few channels, in 16 bits on the matrix units: which groups, places and results a block and
// its warps take.
#pragma once
#include <array>
#include <cstdint>

#include "target/target.h"

namespace coil::codegen {

struct GroupConvolutionFacts {
  std::int64_t in = 8, out = 8;  ///< channels of a group: multiples of 8
  std::int64_t groups = 1;
  std::array<std::int64_t, 2> window = {1, 1}, step = {1, 1}, dilation = {1, 1};
  std::array<std::int64_t, 2> sizes = {1, 1};  ///< of the result, known or hints
  bool gradient = false;                       ///< of the weights
};

struct GroupConvolutionConfig {
  int groups = 1;          ///< of a block
  int high = 8, wide = 8;  ///< the square of the result that a block has at once
  int each = 1;            ///< of a warp: eights of results; of the weights' gradient: eights of a window's channels
  int parts = 1;           ///< warps that share the places of a square
  int threads = 32;
  int min_blocks = 1;  ///< that a multiprocessor holds at once
  std::int64_t shared_bytes = 0;
};

/// The config for a convolution that `lowering/convolutions/choice.h` gives to such kernels.
GroupConvolutionConfig group_convolution_config(const GroupConvolutionFacts&, const target::Costs&);

}  // namespace coil::codegen
