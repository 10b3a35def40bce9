// One question to a ShapeEnv: intervals, proofs and rewriting under its knowledge and the extents of some loops.
//
// An expression with a loop variable in it is asked for only while that loop runs, so the loop's size is then taken to
// be at least 1; in the same way a divisor is not 0 where its quotient means anything.
#pragma once
#include "sym/node.h"
#include "sym/shape_env.h"

namespace coil::sym {

class Simplifier {
 public:
  /// For questions about `e` (and parts of it) with replacements made.
  Simplifier(const ShapeEnv& env, Expr e, std::span<const LoopVar> loops);

  Expr simplify(Expr);
  /// By interval arithmetic, and with loop variables at their extremes.
  Range bounds(Expr);
  /// Whether `e >= 0` can be shown.
  bool nonnegative(Expr e);

  /// What is known to divide expressions, for what changes it for a while.
  static std::unordered_map<Expr, std::int64_t>& multiples(ShapeEnv& env) { return env.multiples_; }

 private:
  enum class Side { Lower, Upper };

  // prove.cpp
  Range interval(Expr);
  Range node_interval(Expr);
  Range mul_interval(Expr);
  /// Bounds of a polynomial, with its symbols written as their lower bound plus what is above it.
  Range shifted_interval(Expr);
  bool nonnegative_by_extremes(Expr);
  /// A bound of `e` without loop variables, if one is found: e <= it for the upper side, it <= e for the lower.
  std::optional<Expr> extreme(Expr e, Side);
  std::optional<Expr> extreme_of_sum(Expr e, Side);
  const LoopVar* loop_of(Expr symbol) const;
  void assume_positive(Expr);
  void assume(Expr, Range);
  /// The largest known divisor of coefficient·monomial.
  std::int64_t multiple_of(const Term&) const;

  // simplify.cpp
  Expr step(Expr);
  Expr step_division(Expr);
  std::optional<Expr> step_multiples(Expr);
  std::optional<Expr> step_split(Expr);
  Expr step_extremum(Expr);
  Expr step_inequality(Expr);
  Expr step_equality(Expr);
  std::optional<Expr> without_common_factor(Expr difference);
  std::optional<Expr> recombine(Expr);
  /// The constant q with q·n <= x < (q + 1)·n everywhere, if there is one.
  std::optional<std::int64_t> constant_quotient(Expr x, Expr n);

  const ShapeEnv& env_;
  std::vector<LoopVar> loops_;
  std::vector<std::pair<Expr, Range>> assumed_;
  std::vector<Expr> assumed_nonnegative_;
  std::unordered_map<const Node*, Expr> simplified_;
  std::unordered_map<const Node*, Range> intervals_;
  int depth_ = 0;
};

}  // namespace coil::sym
