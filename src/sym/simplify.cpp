#include "sym/simplify.h"

#include "sym/interval.h"

namespace coil::sym {

Range Simplifier::interval(Expr e) {
  if (auto c = e.constant()) return {*c, *c};
  return node_interval(e);
}

Range Simplifier::node_interval(Expr e) {
  auto o = e.operands();
  auto fold = [&](auto&& f) {
    Range r = interval(o[0]);
    for (const Expr& x : o.subspan(1)) r = f(r, interval(x));
    return r;
  };
  switch (e.kind()) {
    case Kind::Symbol:
      for (const LoopVar& l : loops_)
        if (l.var == e) {
          Range size = interval(l.size);
          return {0, size.high == Range::kMax ? size.high : std::max<std::int64_t>(size.high - 1, 0)};
        }
      return env_.range(e);
    case Kind::Add: return fold(interval_add);
    case Kind::Mul: return fold(interval_mul);
    case Kind::FloorDiv: return fold(interval_floor_div);
    case Kind::CeilDiv: return fold(interval_ceil_div);
    case Kind::Mod: return fold(interval_mod);
    case Kind::Min: return fold([](Range a, Range b) { return Range{std::min(a.low, b.low), std::min(a.high, b.high)}; });
    case Kind::Max: return fold([](Range a, Range b) { return Range{std::max(a.low, b.low), std::max(a.high, b.high)}; });
    case Kind::Where: return interval_union(interval(o[1]), interval(o[2]));
    case Kind::Eq: case Kind::Ne: case Kind::Lt: case Kind::Le: case Kind::And: case Kind::Or: case Kind::Not: return {0, 1};
    default: return {};
  }
}

Expr Simplifier::simplify(Expr e) {
  const Node* n = e.node();
  if (!n || n->polynomial) return e;
  if (auto it = simplified_.find(n); it != simplified_.end()) return it->second;
  Exprs operands;
  for (const Expr& o : e.operands()) operands.push_back(simplify(o));
  Expr result = step(std::ranges::equal(operands, e.operands()) ? e : make(e.kind(), operands));
  simplified_.emplace(n, result);
  return result;
}

Expr Simplifier::step(Expr e) {
  auto o = e.operands();
  switch (e.kind()) {
    case Kind::FloorDiv:
    case Kind::Mod:
      if (auto d = o[1].constant()) {
        Range r = interval(o[0]);
        if (r.low == Range::kMin || r.high == Range::kMax) return e;
        std::int64_t q = floor_quotient(r.low, *d);
        if (q != floor_quotient(r.high, *d)) return e;
        return e.kind() == Kind::FloorDiv ? Expr(q) : o[0] - Expr(checked_mul(q, *d));
      }
      return e;
    case Kind::Min:
    case Kind::Max: {
      Exprs kept(o.begin(), o.end());
      auto drop = [&](Expr a, Expr b) {  // b does the work of a
        Range r = interval(a), s = interval(b);
        return e.kind() == Kind::Max ? s.low != Range::kMin && r.high != Range::kMax && s.low >= r.high
                                     : s.high != Range::kMax && r.low != Range::kMin && s.high <= r.low;
      };
      for (std::size_t i = 0; i < kept.size();) {
        bool useless = std::ranges::any_of(kept, [&](Expr b) { return b != kept[i] && drop(kept[i], b); });
        if (useless)
          kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
      return make(e.kind(), kept);
    }
    case Kind::Le: case Kind::Lt: {
      Range r = interval(o[1] - o[0] - (e.kind() == Kind::Lt ? 1 : 0));
      if (r.low >= 0) return 1;
      if (r.high < 0) return 0;
      return e;
    }
    case Kind::Eq: case Kind::Ne: {
      Range r = interval(o[1] - o[0]);
      if (r.low > 0 || r.high < 0) return e.kind() == Kind::Ne ? 1 : 0;
      return e;
    }
    default: return e;
  }
}

Expr ShapeEnv::simplify(Expr e, std::span<const LoopVar> loops) const {
  e = resolve(e);
  if (!e.node() || e.node()->polynomial) return e;
  return Simplifier(*this, loops).simplify(e);
}

Range ShapeEnv::bounds(Expr e, std::span<const LoopVar> loops) const { return Simplifier(*this, loops).interval(resolve(e)); }

bool ShapeEnv::statically_known_true(Expr condition, std::span<const LoopVar> loops) const {
  try {
    return simplify(condition, loops).constant().value_or(0) != 0;
  } catch (const Error&) {
    return false;  // an overflow on the way: not known
  }
}

bool ShapeEnv::statically_known_multiple_of(Expr e, Expr divisor) const {
  try {
    return simplify(mod(e, divisor)).is_constant(0);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace coil::sym
