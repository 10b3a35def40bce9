// What an index does from one element of a thread's run to the next: which accesses can move as one.
#pragma once
#include <optional>

#include "sym/shape_env.h"

namespace coil::codegen {

using sym::Expr;

/// A run: `width` neighbours along `var`, the first a multiple of `width`. A power of two.
struct Lanes {
  Expr var;
  int width = 1;
};

/// How far an index moves from one element of a run to the next: 0 (the same everywhere), 1, any constant; nothing
/// where it moves unevenly. Sees through FloorDiv and Mod by multiples of the width, and through comparisons that
/// cannot change inside a run.
std::optional<std::int64_t> lane_stride(const sym::ShapeEnv&, Expr index, const Lanes&);

/// Whether the index is a multiple of the width at a run's first element.
bool run_aligned(const sym::ShapeEnv&, Expr index, const Lanes&);

}  // namespace coil::codegen
