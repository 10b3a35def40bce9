#include "codegen/index_width.h"

#include <algorithm>

namespace coil::codegen {
namespace {

constexpr std::int64_t kLimit = std::int64_t{1} << 31;

bool fits(const sym::ShapeEnv& env, const std::vector<sym::LoopVar>& vars, Expr e) {
  if (auto c = e.constant()) return *c > -kLimit && *c < kLimit;
  const auto part_fits = [&](Expr x) { return fits(env, vars, x); };
  for (Expr s : sym::free_symbols(e))
    if (s.symbol_kind() == sym::SymbolKind::Loop && std::ranges::none_of(vars, [&](auto& v) { return v.var == s; })) {
      // An indirect variable is an i64, and so is what it takes part in; what stands beside it must still fit.
      return std::ranges::all_of(e.operands(), [&](Expr x) { return x == s || x.is_constant() || part_fits(x); });
    }
  const sym::Range r = env.bounds(e, vars);
  if (r.low <= -kLimit || r.high >= kLimit) return false;
  return e.is_symbol() || std::ranges::all_of(e.operands(), part_fits);
}

}  // namespace

bool indices_fit_32(ir::Graph& graph, const LoopNest& nest) {
  const sym::ShapeEnv& env = graph.env();
  const auto vars = nest.vars();
  Expr points = 1;
  for (const sym::LoopVar& v : vars) points *= v.size;
  if (!fits(env, vars, points + (1 << 22))) return false;
  for (const Statement& s : nest.statements) {
    std::vector<ir::Scalar> all = s.indirect;
    all.push_back(s.body);
    for (ir::Scalar n : ir::topological(all))
      for (Expr e : n->index)
        if (!fits(env, vars, e)) return false;
    if (!fits(env, vars, s.store) || !fits(env, vars, s.position)) return false;
  }
  return true;
}

}  // namespace coil::codegen
