// Divisibility that is taken for granted for a while: what is asked then is true wherever the assumption is.
#pragma once
#include <unordered_map>

#include "sym/shape_env.h"

namespace coil::sym {

/// What it assumes is forgotten when it ends, and so is all divisibility that its env learned meanwhile.
class AssumedMultiples {
 public:
  explicit AssumedMultiples(ShapeEnv& env);
  ~AssumedMultiples();
  AssumedMultiples(const AssumedMultiples&) = delete;
  AssumedMultiples& operator=(const AssumedMultiples&) = delete;

  /// From now on `divisor` divides the expression.
  void assume(Expr e, std::int64_t divisor) { env_.learn_multiple_of(e, divisor); }

 private:
  ShapeEnv& env_;
  std::unordered_map<Expr, std::int64_t> before_;
};

}  // namespace coil::sym
