// Pointwise kernels: how many neighbouring points a thread takes.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "codegen/heuristics/nest_facts.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct PointFacts {
  std::int64_t points = 1;  ///< of the kernel: known, or a hint
  int vector = 1;           ///< widest along the last dimension
  /// Widest of results that lie as their points do, whatever the last dimension's size is; 1 where a result lies
  /// otherwise.
  int flat_vector = 1;
  int least_vector = 1;  ///< narrower ones move no less between ranks
};

PointFacts point_facts(ir::Graph&, const LoopNest&);

/// A thread takes `unroll` vectors, a block apart. Flat ones where no vector fits the last dimension.
std::vector<LaunchConfig> point_configs(const PointFacts&, const target::Costs&);

/// What moves as vectors where they are flat.
MovedBytes moved_flat(ir::Graph&, const LoopNest&);

/// The points of the nest in row-major order, as an index.
Expr flat_index(ir::Graph&, const LoopNest&);

}  // namespace coil::codegen
