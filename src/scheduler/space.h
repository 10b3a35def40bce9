// Iteration spaces: when do two loop nests run over the same points, and how do the variables of one read in those of
// the other.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "sym/shape_env.h"

namespace coil::scheduler {

using sym::Expr;
using sym::Exprs;

/// Two row-major loop nests over the same points, cut as finely as either: each dimension of `a` and `b` is a run of
/// dimensions of `sizes`.
struct Refinement {
  Exprs sizes;
  /// For each dimension the refined dimensions it is made of, outermost first (none: a dimension of size 1).
  std::vector<std::vector<std::size_t>> a;
  std::vector<std::vector<std::size_t>> b;
};

/// The common refinement, when partial products of both nests meet at every boundary that one has; nothing otherwise.
/// [2, 128, 768] and [256, 768] refine to [2, 128, 768]. Dimensions of size 1 vanish. Sizes may be symbolic; equality
/// is asked of `env` and never guards.
std::optional<Refinement> refine(std::span<const Expr> a, std::span<const Expr> b, const sym::ShapeEnv& env);

/// The value of a variable whose dimension is made of these refined dimensions: i = (v0*n1 + v1)*n2 + v2.
Expr compose(std::span<const std::size_t> parts, std::span<const Expr> vars, std::span<const Expr> sizes);

}  // namespace coil::scheduler
