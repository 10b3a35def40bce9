// Kernels for rows that are whole numbers of vectors: where sizes are free, what would have to be a multiple of what,
// so that a kernel moves more of its bytes as vectors.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "sym/assumed_multiples.h"
#include "target/target.h"

namespace coil::codegen {

struct WholeVectors {
  std::vector<std::pair<Expr, std::int64_t>> multiples;  ///< sizes and steps between rows, and what divides them

  void assume(sym::AssumedMultiples& known) const {
    for (const auto& [e, divisor] : multiples) known.assume(e, divisor);
  }
  /// The condition. Ask while it is not taken for granted.
  Expr when(const sym::ShapeEnv&) const;
};

/// Nothing where a kernel for all sizes moves as much at once. `usual` is how that one is written; `in_registers`: of
/// whole vectors there will be kernels that keep a row in registers, which ragged rows do not.
std::optional<WholeVectors> whole_vectors(ir::Graph&, const LoopNest&, const target::Target&,
                                          const LaunchRequest& usual, bool in_registers = false);

}  // namespace coil::codegen
