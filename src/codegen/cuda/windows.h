// Reductions of which neighbouring results read much of the same: convolutions of each channel by itself, pooling, and
// the gradients of such convolutions' weights. A thread makes several results and loads what they share once.
#pragma once
#include <optional>

#include "codegen/cuda/model.h"
#include "codegen/kernel.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// What the tile of results that a thread makes is chosen by.
struct WindowFacts {
  std::int64_t results = 1;        ///< of the whole kernel
  std::int64_t taps = 1;           ///< elements of a window
  std::int64_t near = 1, far = 1;  ///< results along the two dimensions in which windows overlap; 1: there is none
  std::int64_t near_taps = 1;      ///< elements of a window along the nearer one
  int pack = 1;                    ///< results that lie side by side, at most, of which operands do too
  bool near_known = true, far_known = true;  ///< sizes are constants
};

/// Results that a thread makes: `near` by `far` by `pack`.
struct WindowTile {
  int near = 1, far = 1, pack = 1;
  bool operator==(const WindowTile&) const = default;
};

/// Tiles worth trying, the one that a model of the machine takes first.
std::vector<WindowTile> window_tiles(const WindowFacts&, const GpuModel&);
/// How many of `size` results a thread makes best, at most `most`, where windows have so many taps: what is computed
/// twice at the end and what is loaded twice between threads both count.
int window_run(std::int64_t size, std::int64_t taps, int most);

/// The kernel of a nest that has one level of reductions with such windows; nothing where another form suits it better.
std::optional<Kernel> cuda_windows(ir::Graph&, const LoopNest&, const GpuModel&);

}  // namespace coil::codegen
