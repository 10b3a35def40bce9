// One question to a ShapeEnv: intervals, proofs and rewriting under its knowledge and the extents of some loops.
#pragma once
#include "sym/node.h"
#include "sym/shape_env.h"

namespace coil::sym {

class Simplifier {
 public:
  Simplifier(const ShapeEnv& env, std::span<const LoopVar> loops) : env_(env), loops_(loops) {}

  Expr simplify(Expr);
  Range interval(Expr);

 private:
  Range node_interval(Expr);
  Expr step(Expr);

  const ShapeEnv& env_;
  std::span<const LoopVar> loops_;
  std::unordered_map<const Node*, Expr> simplified_;
};

}  // namespace coil::sym
