// Pointwise kernels over two dimensions whose accesses disagree on which of them is contiguous: squares that pass
// through shared memory, so that reads and writes both touch memory in long pieces.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct TileFacts {
  std::int64_t v = 1, u = 1;        ///< sizes of the dimension that results mostly lie along, and of the other
  std::vector<std::size_t> across;  ///< bytes of an element of each access that lies along u
};

/// A load or a store of the nest.
struct TileAccess {
  ir::Scalar load = nullptr;
  const Statement* store = nullptr;
  DType dtype{};
  Expr index;
};

struct TilePlan {
  LaunchChoice choice;            ///< `vector` is along v
  std::vector<TileAccess> tiles;  ///< what passes through shared memory
  int across_vector = 1;          ///< elements along u that a thread moves at once between memory and tiles
};

/// Squares of `tile` elements a side, the larger ones first where they fit.
std::vector<LaunchConfig> tile_configs(const TileFacts&, const target::Costs&);
/// Which of the accesses along u have room in shared memory, as squares of this side.
std::vector<bool> accesses_in_tiles(const TileFacts&, int side, const target::Costs&);

/// `nest.tiled` says which dimension is u; v is the last.
TilePlan plan_tiles(ir::Graph&, const LoopNest&, const target::Costs&, const LaunchRequest&);

}  // namespace coil::codegen
