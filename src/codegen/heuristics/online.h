// Pairs of reductions that one pass over a row can make together, where each by itself would read the row once.
#pragma once
#include <vector>

#include "codegen/loop_nest.h"

namespace coil::codegen {

struct OnlinePair {
  enum class Kind : std::uint8_t {
    Softmax,  ///< max x, and the sum of exp(x - max)
    Moments,  ///< the sum of x, and the sum of (x - mean)²
  } kind;
  const Statement* first = nullptr;   ///< at one level
  const Statement* second = nullptr;  ///< at the next
};

/// Pairs among the reductions of a row of `length` elements; a statement is in one at most.
std::vector<OnlinePair> online_pairs(const sym::ShapeEnv&, const LoopNest&, Expr length);

}  // namespace coil::codegen
