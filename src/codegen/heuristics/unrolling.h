// A loop nest of which a thread carries out several points itself: the nest in the order in which it goes through them.
#pragma once
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// A loop of which a thread carries out `run` turns: `var` becomes `var * run + k`, or `var + k` where the last run
/// begins early so as to end with the dimension.
struct Unrolled {
  std::size_t dim = 0;  ///< of the nest's outer or inner dimensions
  int run = 1;
  bool whole = true;  ///< runs divide the dimension
};

/// `steps` results, and for each what it adds up.
class Unrolling {
 public:
  Unrolling(ir::Graph&, const LoopNest&, std::span<const Unrolled> outer, std::span<const Unrolled> inner);

  const LoopNest& nest() const { return nest_; }
  std::size_t steps() const { return steps_; }

  /// Loads that a thread makes, of all that its results need.
  double share_of_loads() const;

 private:
  void add_step(ir::Graph&, const LoopNest&, const Exprs& from, const Exprs& to, std::span<const Unrolled> inner);

  LoopNest nest_;
  std::size_t steps_ = 0;
};

}  // namespace coil::codegen
