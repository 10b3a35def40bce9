// What can be shown about the values of an expression.
#include "sym/floats.h"
#include "sym/interval.h"
#include "sym/simplify.h"

namespace coil::sym {

namespace {

constexpr std::uint32_t kMemoWeight = 32;          // intervals of smaller expressions are computed anew
constexpr std::uint32_t kMaxExtremeWeight = 2048;  // loop variables of larger expressions are not put at their extremes
constexpr std::size_t kMaxShiftedTerms = 64;       // of a polynomial that is expanded for a proof

bool has_loops(Expr e) { return has_symbol_of(e, SymbolKind::Loop); }

/// The expression that a relation `a <= b` or `a < b` says is not negative.
std::optional<Expr> difference_of(Expr relation) {
  auto o = relation.operands();
  if (relation.kind() == Kind::Le) return o[1] - o[0];
  if (relation.kind() == Kind::Lt) return o[1] - o[0] - 1;
  return std::nullopt;
}

Range interval_pow(Range base, Range exponent) {
  if (base.low < 0 || exponent.low < 0) return {};
  auto power = [](std::int64_t b, std::int64_t e, std::int64_t none) {
    if (b == Range::kMax || e == Range::kMax) return b <= 1 && b != Range::kMax ? std::int64_t{1} : none;
    std::int64_t r = 1;
    for (std::int64_t i = 0; i < e && b > 1; ++i)
      if (__builtin_mul_overflow(r, b, &r)) return none;
    return b == 0 && e > 0 ? std::int64_t{0} : r;
  };
  std::int64_t low = base.low == 0 ? 0 : power(base.low, exponent.low, Range::kMax - 1);
  std::int64_t high = std::max<std::int64_t>(power(base.high, exponent.high, Range::kMax), 1);  // 0**0 is 1
  return {low, high};
}

}  // namespace

Simplifier::Simplifier(const ShapeEnv& env, Expr e, std::span<const LoopVar> loops) : env_(env) {
  if (!has_loops(e)) return;
  loops_.reserve(loops.size());
  for (const LoopVar& l : loops)
    if (contains(e, l.var)) loops_.push_back({l.var, env.resolve(l.size)});
  for (const LoopVar& l : loops_) assume_positive(l.size);
}

const LoopVar* Simplifier::loop_of(Expr symbol) const {
  auto it = std::ranges::find(loops_, symbol, &LoopVar::var);
  return it == loops_.end() ? nullptr : &*it;
}

void Simplifier::assume(Expr e, Range range) {
  assumed_.emplace_back(e, range);
  intervals_.clear();
}

void Simplifier::assume_positive(Expr e) {
  if (e.is_constant()) return;
  if (e.kind() == Kind::Add) {
    if (interval(e).low < 1) assumed_nonnegative_.push_back(e - 1);
    return;
  }
  const Expr monomial = split(e).monomial;
  auto all = factors(monomial);
  for (const Expr& f : all) {
    Range r = interval(f);
    if (r.low == 0 || (r.low < 0 && all.size() == 1 && split(e).coefficient > 0))
      assume(f, {1, std::max<std::int64_t>(r.high, 1)});
  }
}

Range Simplifier::interval(Expr e) {
  if (auto c = e.constant()) return {*c, *c};
  for (auto it = assumed_.rbegin(); it != assumed_.rend(); ++it)
    if (it->first == e) return it->second;
  if (e.node()->weight < kMemoWeight) return node_interval(e);
  if (auto it = intervals_.find(e.node()); it != intervals_.end()) return it->second;
  Range r = node_interval(e);
  intervals_.emplace(e.node(), r);
  return r;
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
      if (const LoopVar* l = loop_of(e)) {
        std::int64_t high = interval(l->size).high;
        return {0, high == Range::kMax ? high : std::max<std::int64_t>(high - 1, 0)};
      }
      return env_.range(e);
    case Kind::Add: return fold(interval_add);
    case Kind::Mul: return mul_interval(e);
    case Kind::FloorDiv: return fold(interval_floor_div);
    case Kind::CeilDiv: return fold(interval_ceil_div);
    case Kind::Mod: return fold(interval_mod);
    case Kind::Min:
      return fold([](Range a, Range b) { return Range{std::min(a.low, b.low), std::min(a.high, b.high)}; });
    case Kind::Max:
      return fold([](Range a, Range b) { return Range{std::max(a.low, b.low), std::max(a.high, b.high)}; });
    case Kind::Where: return interval_union(interval(o[1]), interval(o[2]));
    case Kind::Pow: return interval_pow(interval(o[0]), interval(o[1]));
    case Kind::BitAnd: {
      Range a = interval(o[0]), b = interval(o[1]);
      if (a.low < 0 && b.low < 0) return {};
      return {0, a.low < 0 ? b.high : b.low < 0 ? a.high : std::min(a.high, b.high)};
    }
    case Kind::Float: return float_interval(e, [this](Expr x) { return interval(x); });
    default: return is_boolean(e) ? Range{0, 1} : Range{};
  }
}

Range Simplifier::mul_interval(Expr e) {
  auto o = e.operands();
  Range r{1, 1};
  for (std::size_t i = 0; i < o.size();) {
    std::size_t n = 1;
    while (i + n < o.size() && o[i + n] == o[i]) ++n;
    Range one = interval(o[i]), square = interval_square(one);
    for (std::size_t k = 0; k + 1 < n; k += 2) r = interval_mul(r, square);
    if (n % 2) r = interval_mul(r, one);
    i += n;
  }
  return r;
}

Range Simplifier::shifted_interval(Expr e) {
  if (e.kind() != Kind::Add) return {};
  std::int64_t constant = 0;
  const Terms terms = terms_of(e, constant);
  if (terms.size() > kMaxShiftedTerms ||
      std::ranges::all_of(terms, [](const Term& t) { return factors(t.monomial).size() == 1; }))
    return {};
  auto low_of = [&](Expr atom) {
    Range r = interval(atom);
    return r.low == Range::kMin ? std::int64_t{0} : r.low;
  };
  Exprs parts{constant};
  for (const Term& t : terms) {
    Exprs shifted{t.coefficient};
    for (const Expr& f : factors(t.monomial)) shifted.push_back(f + low_of(f));
    parts.push_back(product(shifted));
  }
  Expr polynomial = sum(parts);
  constant = 0;
  const Terms result = terms_of(polynomial, constant);
  if (result.size() > kMaxShiftedTerms * 4) return {};
  Range total{constant, constant};
  for (const Term& t : result) {
    Range r{t.coefficient, t.coefficient};
    for (const Expr& f : factors(t.monomial)) r = interval_mul(r, interval_add(interval(f), {-low_of(f), -low_of(f)}));
    total = interval_add(total, r);
  }
  return total;
}

Range Simplifier::bounds(Expr e) try {
  Range r = interval(e);
  if (e.is_constant() || e.is_symbol() || (r.low != Range::kMin && r.high == r.low)) return r;
  auto tighten = [&](Expr x, Side side) {
    for (Range s : {interval(x), shifted_interval(x)})
      r = interval_intersect(r, side == Side::Lower ? Range{s.low, Range::kMax} : Range{Range::kMin, s.high});
  };
  for (Side side : {Side::Lower, Side::Upper}) {
    if (!has_loops(e))
      tighten(e, side);
    else if (auto x = extreme(e, side))
      tighten(*x, side);
  }
  return r.low <= r.high ? r : interval(e);
} catch (const Error&) {
  return interval(e);  // constants of the proof overflow
}

bool Simplifier::nonnegative_by_extremes(Expr e) {
  if (interval(e).low >= 0) return true;
  if (has_loops(e)) {
    auto low = extreme(e, Side::Lower);
    if (!low) return false;
    e = *low;
    if (interval(e).low >= 0) return true;
  }
  return shifted_interval(e).low >= 0;
}

bool Simplifier::nonnegative(Expr e) {
  if (auto c = e.constant()) return *c >= 0;
  if (nonnegative_by_extremes(e)) return true;
  // Sums with a fact `f >= 0` in them: `e - f >= 0` is enough.
  auto follows = [&](Expr f) {
    return (f.node()->symbol_filter & e.node()->symbol_filter) != 0 && nonnegative_by_extremes(e - f);
  };
  for (const Expr& f : assumed_nonnegative_)
    if (f.node() && follows(f)) return true;
  for (const Expr& condition : env_.facts_)
    if (auto f = difference_of(condition); f && f->node() && follows(*f)) return true;
  return false;
}

std::optional<Expr> Simplifier::extreme(Expr e, Side side) {
  if (!has_loops(e)) return e;
  if (e.node()->weight > kMaxExtremeWeight) return std::nullopt;
  auto o = e.operands();
  auto all_operands = [&]() -> std::optional<Expr> {
    Exprs bounds;
    for (const Expr& x : o) {
      auto b = extreme(x, side);
      if (!b) return std::nullopt;
      bounds.push_back(*b);
    }
    return make(e.kind(), bounds);
  };
  switch (e.kind()) {
    case Kind::Symbol: {
      if (side == Side::Lower) return Expr(0);
      const LoopVar* l = loop_of(e);
      return l ? std::optional(l->size - 1) : std::nullopt;
    }
    case Kind::Add: return extreme_of_sum(e, side);
    case Kind::Mul: {
      Term t = split(e);
      if (t.coefficient < 0) side = side == Side::Lower ? Side::Upper : Side::Lower;
      Exprs parts{t.coefficient};
      for (const Expr& f : factors(t.monomial)) {
        if (interval(f).low < 0) return std::nullopt;
        auto b = extreme(f, side);
        if (!b || !nonnegative_by_extremes(*b)) return std::nullopt;
        parts.push_back(*b);
      }
      return product(parts);
    }
    case Kind::FloorDiv:
    case Kind::Mod: {
      if (has_loops(o[1]) || interval(o[1]).low < 0) return std::nullopt;
      if (e.kind() == Kind::Mod) return side == Side::Lower ? Expr(0) : o[1] - 1;
      auto x = extreme(o[0], side);
      return x ? std::optional(floor_div(*x, o[1])) : std::nullopt;
    }
    case Kind::Min:
    case Kind::Max: return all_operands();
    case Kind::Where: {
      auto yes = extreme(o[1], side), no = extreme(o[2], side);
      if (!yes || !no) return std::nullopt;
      return side == Side::Lower ? min(*yes, *no) : max(*yes, *no);
    }
    default: return std::nullopt;
  }
}

std::optional<Expr> Simplifier::extreme_of_sum(Expr e, Side side) {
  // Variables that stand in it linearly go to one end of their range; all their terms at once, so that i0·s0 - i0 is
  // seen as i0·(s0 - 1).
  for (const LoopVar& l : loops_) {
    if (!contains(e, l.var)) continue;
    auto linear = linear_in(e, l.var);
    if (!linear) continue;
    bool grows = nonnegative_by_extremes(linear->coefficient);
    if (!grows && !nonnegative_by_extremes(-linear->coefficient)) return std::nullopt;
    e = grows == (side == Side::Upper) ? linear->rest + linear->coefficient * (l.size - 1) : linear->rest;
  }
  if (!has_loops(e) || e.kind() != Kind::Add) return extreme(e, side);
  Exprs bounds;
  for (const Expr& t : e.operands()) {
    auto b = extreme(t, side);
    if (!b) return std::nullopt;
    bounds.push_back(*b);
  }
  return sum(bounds);
}

std::int64_t Simplifier::multiple_of(const Term& t) const {
  std::int64_t m = t.coefficient;
  auto known = [&](Expr e) {
    auto it = env_.multiples_.find(e);
    return it == env_.multiples_.end() ? std::int64_t{1} : it->second;
  };
  std::int64_t whole = known(t.monomial), by_factors = 1;
  for (const Expr& f : factors(t.monomial))
    if (std::int64_t next; !__builtin_mul_overflow(by_factors, known(f), &next)) by_factors = next;
  std::int64_t result;
  return __builtin_mul_overflow(m, std::max(whole, by_factors), &result) ? m : result;
}

}  // namespace coil::sym
