// Sizes that data tell, found out at compile time: the parts of a program that compute them are run on its example
// inputs, so that measurements are made at sizes that occur.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "autotune/sizes.h"
#include "passes/graph/fold_constants.h"

namespace coil {

struct SampledSizes {
  autotune::ToldSizes told;  ///< unbacked symbols of the graph by name
  std::string text;          ///< a line for each, and for each that is taken for a number
};

/// The unbacked symbols of a graph on example inputs, which are read alone. What is computed for them on this machine's
/// CPU is less than `most` elements in all; without inputs, beyond that, and of sizes inside of branches and loops
/// nothing is told.
SampledSizes sizes_on_samples(const fx::GraphModule&, const std::optional<std::vector<Tensor>>& inputs,
                              const IsLowered&, const RunModuleOn&, std::int64_t most = std::int64_t{1} << 24);

}  // namespace coil
