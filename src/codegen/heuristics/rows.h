// Reductions along rows: how many threads take a row (part of a warp, a warp, a block, or a cluster of blocks), and
// what of it stays in their registers from one pass over it to the next.
#pragma once
#include <span>

#include "codegen/heuristics/kept_values.h"
#include "codegen/heuristics/online.h"
#include "codegen/heuristics/ragged_rows.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct RowFacts {
  std::int64_t length = 1, rows = 1;  ///< known, or hints
  bool known = false;                 ///< the length is a constant, or no row is longer
  int vector = 1;                     ///< widest along a row
  int cut_vector = 1;                 ///< widest where the last vector of a row may end before its width
  int ragged_vector = 1;              ///< widest where rows may begin and end anywhere
  bool once = false;                  ///< one pass over a row is enough
  bool pairs = false;                 ///< some reductions of two levels are made together
};

/// A row has `team` threads in `cluster` blocks. Each takes `unroll` vectors of the row, which may stay in its
/// registers; where it is `looped`, as many as there are, `unroll` at a time. `cluster`: as of LaunchRequest.
std::vector<LaunchConfig> row_configs(const RowFacts&, const target::Costs&, int cluster = 0);

struct RowPlan {
  LaunchChoice choice;
  std::vector<LoopDim> outer;  ///< in the order in which rows come one after another
  std::vector<KeptValue> kept;
  RaggedRows ragged;               ///< where the config is ragged
  std::vector<OnlinePair> pairs;   ///< reductions to be made together
  std::vector<ir::Scalar> coarse;  ///< values of which 16 bits are enough, such as a softmax's exponentials
};

RowPlan plan_rows(ir::Graph&, const LoopNest&, const target::Costs&, const LaunchRequest&);

/// How many loads, of so many bytes of a vector each, a thread has under way for `unroll` vectors before it uses the
/// first, as registers hold.
std::size_t loads_under_way(std::span<const int> bytes, int unroll);

}  // namespace coil::codegen
