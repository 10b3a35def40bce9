// Reductions down columns: threads side by side along a contiguous outer dimension, several of them on a column.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct ColumnFacts {
  std::int64_t columns = 1;           ///< of the kernel: known, or a hint
  std::int64_t along = 1;             ///< of them, those that lie side by side
  std::int64_t length = 1;            ///< points of a column
  int vector = 1;                     ///< widest along the columns that lie side by side
  std::size_t accumulator_bytes = 0;  ///< of one column's reductions, in shared memory
};

ColumnFacts column_facts(ir::Graph&, const LoopNest&);

/// `team` threads share a column, `threads / (team * rows)` stand side by side, and a block of few columns takes those
/// of `rows` outer points.
std::vector<LaunchConfig> column_configs(const ColumnFacts&, const target::Costs&);

}  // namespace coil::codegen
