// Reductions of which neighbouring results read much of the same: convolutions of each channel by itself, pooling, and
// the gradients of such convolutions' weights. A thread makes several results and loads what they share once.
#pragma once
#include <optional>

#include "codegen/heuristics/launch_config.h"
#include "codegen/heuristics/unrolling.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

/// What the tile of results that a thread makes is chosen by.
struct WindowFacts {
  std::int64_t results = 1;        ///< of the whole kernel
  std::int64_t side_by_side = 1;   ///< of them, along the last dimension
  std::int64_t taps = 1;           ///< elements of a window
  std::int64_t near = 1, far = 1;  ///< results along the two dimensions in which windows overlap; 1: there is none
  std::int64_t near_taps = 1;      ///< elements of a window along the nearer one
  int vector = 1;                  ///< results that lie side by side, at most, of which operands do too
  bool near_known = true, far_known = true;  ///< sizes are constants
};

/// A thread makes `near` by `far` by `vector` results. `threads / (team * rows)` threads stand side by side; those
/// behind them, of one block, take places further along the far dimension (`rows`), or parts of a long sum (`team`).
std::vector<LaunchConfig> window_configs(const WindowFacts&, const target::Costs&);
/// How many of `size` results a thread makes best, at most `most`, where windows have so many taps: what is computed
/// twice at the end and what is loaded twice between threads both count.
int window_run(std::int64_t size, std::int64_t taps, int most);

struct WindowPlan {
  LaunchChoice choice;
  LoopNest nest;                       ///< unrolled
  std::size_t steps = 1;               ///< results of a thread that the nest's statements make, one after another
  std::vector<LoopDim> sizes;          ///< the outer dimensions as they were before
  std::vector<Unrolled> outer, inner;  ///< what is unrolled; the last of `outer` is the near dimension
  std::size_t sums_at_once = 1;        ///< of a team, that shared memory has room for
};

/// For a nest that has one level of reductions with such windows; nothing where another form suits it better.
std::optional<WindowPlan> plan_windows(ir::Graph&, const LoopNest&, const target::Costs&, const LaunchRequest&);

}  // namespace coil::codegen
