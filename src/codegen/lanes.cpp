#include "codegen/lanes.h"

#include <algorithm>

namespace coil::codegen {

using sym::Kind;

namespace {

/// i0*s0 + i0*s1 is a multiple where s0 + s1 is: a sum by what stands at each loop variable.
bool aligned_by_variables(const sym::ShapeEnv& env, Expr sum, const Lanes& lanes) {
  for (Expr s : sym::free_symbols(sum)) {
    if (s.symbol_kind() != sym::SymbolKind::Loop) continue;
    const auto l = sym::linear_in(sum, s);
    if (!l || (s != lanes.var && !env.statically_known_multiple_of(l->coefficient, lanes.width))) return false;
    sum = l->rest;
  }
  return env.statically_known_multiple_of(sum, lanes.width);
}

}  // namespace

bool run_aligned(const sym::ShapeEnv& env, Expr e, const Lanes& lanes) {
  if (lanes.width == 1) return true;
  if (auto c = e.constant()) return *c % lanes.width == 0;
  if (e == lanes.var) return true;
  const auto ops = e.operands();
  auto aligned = [&](Expr x) { return run_aligned(env, x, lanes); };
  switch (e.kind()) {
    case Kind::Add:
      if (std::all_of(ops.begin(), ops.end(), aligned)) return true;
      return sym::has_symbol_of(e, sym::SymbolKind::Size) && aligned_by_variables(env, e, lanes);
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

namespace {

using Stride = std::optional<std::int64_t>;
using Operands = std::span<const Expr>;

Stride stride_of_sum(const sym::ShapeEnv& env, Operands ops, const Lanes& lanes) {
  std::int64_t sum = 0;
  for (Expr x : ops) {
    const Stride s = lane_stride(env, x, lanes);
    if (!s) return std::nullopt;
    sum += *s;
  }
  return sum;
}

Stride stride_of_product(const sym::ShapeEnv& env, Operands ops, const Lanes& lanes) {
  std::int64_t factor = 1;
  Stride moving;
  for (Expr x : ops) {
    if (auto c = x.constant()) {
      factor *= *c;
      continue;
    }
    const Stride s = lane_stride(env, x, lanes);
    if (!s || (*s != 0 && moving)) return std::nullopt;
    if (*s != 0)
      moving = s;
    else if (moving || ops.size() > 2)
      return std::nullopt;
  }
  if (!moving) return 0;
  // A moving factor times a uniform symbol moves by that symbol, which is no constant.
  const bool symbols = std::count_if(ops.begin(), ops.end(), [](Expr x) { return !x.is_constant(); }) > 1;
  return symbols ? std::nullopt : Stride(factor * *moving);
}

Stride stride_of_division(const sym::ShapeEnv& env, Kind kind, Operands ops, const Lanes& lanes) {
  const Stride s = lane_stride(env, ops[0], lanes);
  if (!s || sym::contains(ops[1], lanes.var)) return std::nullopt;
  if (*s == 0) return 0;
  if (*s != 1 || !run_aligned(env, ops[0], lanes) || !run_aligned(env, ops[1], lanes)) return std::nullopt;
  return kind == Kind::Mod ? 1 : 0;
}

/// Moving up by one, a - b changes the answer between its last value for which it holds and the next one, `turn`;
/// moving down, between `turn` and `turn - 1`. A run that may begin there, but not cross, is of one answer.
Stride stride_of_comparison(const sym::ShapeEnv& env, Kind kind, Operands ops, const Lanes& lanes) {
  const Expr difference = ops[0] - ops[1];
  const Stride s = lane_stride(env, difference, lanes);
  if (!s || *s == 0) return s;
  const std::int64_t turn = kind == Kind::Lt ? 0 : 1;
  const bool whole = (*s == 1 && run_aligned(env, difference - turn, lanes)) ||
                     (*s == -1 && run_aligned(env, difference - turn + 1, lanes));
  return whole ? Stride(0) : std::nullopt;
}

}  // namespace

Stride lane_stride(const sym::ShapeEnv& env, Expr e, const Lanes& lanes) {
  if (lanes.width == 1 || !sym::contains(e, lanes.var)) return 0;
  if (e == lanes.var) return 1;
  const auto ops = e.operands();
  switch (e.kind()) {
    case Kind::Add: return stride_of_sum(env, ops, lanes);
    case Kind::Mul: return stride_of_product(env, ops, lanes);
    case Kind::FloorDiv:
    case Kind::Mod: return stride_of_division(env, e.kind(), ops, lanes);
    case Kind::Lt:
    case Kind::Le: return stride_of_comparison(env, e.kind(), ops, lanes);
    case Kind::And:
    case Kind::Or:
    case Kind::Not:
    case Kind::Min:
    case Kind::Max:
    case Kind::Where:
    case Kind::Eq:
    case Kind::Ne: {
      const bool same = std::all_of(ops.begin(), ops.end(), [&](Expr x) { return lane_stride(env, x, lanes) == 0; });
      return same ? Stride(0) : std::nullopt;
    }
    default: return std::nullopt;
  }
}

bool varies_in_run(const sym::ShapeEnv& env, ir::Scalar n, const Lanes& lanes,
                   std::unordered_map<ir::Scalar, bool>& found,
                   const std::function<std::optional<bool>(ir::Scalar)>& known) {
  if (lanes.width == 1) return false;
  if (auto it = found.find(n); it != found.end()) return it->second;
  if (const auto answer = known ? known(n) : std::nullopt) return found[n] = *answer;
  // An index value is itself a number; only conditions and addresses may ignore the lane.
  bool varies = std::any_of(n->index.begin(), n->index.end(), [&](Expr e) { return lane_stride(env, e, lanes) != 0; });
  for (ir::Scalar a : n->args) varies = varies || varies_in_run(env, a, lanes, found, known);
  if (n->mask) varies = varies || varies_in_run(env, n->mask, lanes, found, known);
  return found[n] = varies;
}

bool loads_as_one(const sym::ShapeEnv& env, ir::Scalar n, const Lanes& lanes,
                  const std::function<bool(ir::Scalar)>& varies) {
  if (lanes.width == 1 || n->op != ir::ScalarOp::LinearLoad) return false;
  if (std::any_of(n->args.begin(), n->args.end(), varies) || (n->mask && varies(n->mask))) return false;
  return lane_stride(env, n->index[0], lanes) == 1 && run_aligned(env, n->index[0], lanes);
}

}  // namespace coil::codegen
