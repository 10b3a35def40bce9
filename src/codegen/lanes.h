// What an index does from one element of a thread's run to the next: which accesses can move as one.
#pragma once
#include <functional>
#include <optional>
#include <unordered_map>

#include "ir/scalar.h"
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

/// Whether a value differs from one element of a run to the next. `known` answers for loads of what is at hand already;
/// `found` keeps the answers.
bool varies_in_run(const sym::ShapeEnv&, ir::Scalar, const Lanes&, std::unordered_map<ir::Scalar, bool>& found,
                   const std::function<std::optional<bool>(ir::Scalar)>& known = nullptr);

/// Whether a load of a whole run can be one access. `varies` says whether a value differs inside a run.
bool loads_as_one(const sym::ShapeEnv&, ir::Scalar load, const Lanes&, const std::function<bool(ir::Scalar)>& varies);

}  // namespace coil::codegen
