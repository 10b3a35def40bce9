#include "codegen/cuda/lanes.h"

#include <algorithm>

namespace coil::codegen {

using sym::Kind;

bool run_aligned(const sym::ShapeEnv& env, Expr e, const Lanes& lanes) {
  if (lanes.width == 1) return true;
  if (auto c = e.constant()) return *c % lanes.width == 0;
  if (e == lanes.var) return true;
  const auto ops = e.operands();
  auto aligned = [&](Expr x) { return run_aligned(env, x, lanes); };
  switch (e.kind()) {
    case Kind::Add:
    case Kind::Mod:
    case Kind::Min:
    case Kind::Max: return std::all_of(ops.begin(), ops.end(), aligned);
    case Kind::Mul:
      if (std::any_of(ops.begin(), ops.end(), aligned)) return true;
      break;
    default: break;
  }
  return !sym::contains(e, lanes.var) && env.statically_known_multiple_of(e, lanes.width);
}

std::optional<std::int64_t> lane_stride(const sym::ShapeEnv& env, Expr e, const Lanes& lanes) {
  if (lanes.width == 1 || !sym::contains(e, lanes.var)) return 0;
  if (e == lanes.var) return 1;
  const auto ops = e.operands();
  auto stride = [&](Expr x) { return lane_stride(env, x, lanes); };
  switch (e.kind()) {
    case Kind::Add: {
      std::int64_t sum = 0;
      for (Expr x : ops) {
        auto s = stride(x);
        if (!s) return std::nullopt;
        sum += *s;
      }
      return sum;
    }
    case Kind::Mul: {
      std::int64_t factor = 1;
      std::optional<std::int64_t> moving;
      for (Expr x : ops) {
        if (auto c = x.constant()) {
          factor *= *c;
          continue;
        }
        auto s = stride(x);
        if (!s || (*s != 0 && moving)) return std::nullopt;
        if (*s != 0)
          moving = s;
        else if (moving || ops.size() > 2)
          return std::nullopt;
      }
      // A moving factor times a uniform symbol moves by that symbol, which is no constant.
      const bool symbols = std::count_if(ops.begin(), ops.end(), [](Expr x) { return !x.is_constant(); }) > 1;
      if (!moving) return 0;
      return symbols ? std::nullopt : std::optional(factor * *moving);
    }
    case Kind::FloorDiv:
    case Kind::Mod: {
      auto s = stride(ops[0]);
      if (!s || sym::contains(ops[1], lanes.var)) return std::nullopt;
      if (*s == 0) return 0;
      if (*s != 1 || !run_aligned(env, ops[0], lanes) || !run_aligned(env, ops[1], lanes)) return std::nullopt;
      return e.kind() == Kind::Mod ? 1 : 0;
    }
    // Moving up by one, a - b changes the answer between its last value for which it holds and the next one, `turn`;
    // moving down, between `turn` and `turn - 1`. A run that may begin there, but not cross, is of one answer.
    case Kind::Lt:
    case Kind::Le: {
      const Expr difference = ops[0] - ops[1];
      auto s = stride(difference);
      if (!s || *s == 0) return s;
      const std::int64_t turn = e.kind() == Kind::Lt ? 0 : 1;
      const bool whole = (*s == 1 && run_aligned(env, difference - turn, lanes)) ||
                         (*s == -1 && run_aligned(env, difference - turn + 1, lanes));
      return whole ? std::optional<std::int64_t>(0) : std::nullopt;
    }
    case Kind::And:
    case Kind::Or:
    case Kind::Not:
      for (Expr x : ops)
        if (stride(x) != 0) return std::nullopt;
      return 0;
    case Kind::Min:
    case Kind::Max:
    case Kind::Where:
    case Kind::Eq:
    case Kind::Ne: {
      for (Expr x : ops)
        if (stride(x) != 0) return std::nullopt;
      return 0;
    }
    default: return std::nullopt;
  }
}

}  // namespace coil::codegen
