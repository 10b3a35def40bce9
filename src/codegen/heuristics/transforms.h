// Fourier transforms by kernels: in which factors, how many sequences to a block, by how many threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/heuristics/launch_config.h"

namespace coil::codegen {

struct TransformFacts {
  std::int64_t points = 2;    ///< that library_ops::fourier::has_kernel
  std::size_t bytes = 4;      ///< of a number
  bool side_by_side = false;  ///< points of neighbouring sequences lie side by side in memory
};

struct TransformPlan {
  LaunchConfig config;       ///< `rows` is the sequences of a block
  std::vector<int> factors;  ///< one for each pass, 16 at most
};

TransformPlan plan_transform(const TransformFacts&);

}  // namespace coil::codegen
