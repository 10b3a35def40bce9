// Canonical forms of choices (Min, Max, Where), relations, boolean operators and bit operators.
#include "sym/floats.h"
#include "sym/node.h"

namespace coil::sym {

namespace {

bool differ_by_constant(Expr a, Expr b, std::int64_t& difference) {
  if (a.is_constant() || b.is_constant()) {
    if (!a.is_constant() || !b.is_constant()) return false;
    return !__builtin_sub_overflow(*a.constant(), *b.constant(), &difference);
  }
  std::int64_t x = 0, y = 0;
  auto size = [](Expr e) { return e.kind() == Kind::Add ? e.operands().size() - e.operands()[0].is_constant() : 1; };
  if (size(a) != size(b)) return false;
  Terms s = terms_of(a, x), t = terms_of(b, y);
  if (__builtin_sub_overflow(x, y, &difference)) return false;
  return std::ranges::equal(
      s, t, [](const Term& p, const Term& q) { return p.monomial == q.monomial && p.coefficient == q.coefficient; });
}

/// Min or Max: flat, of two operands that differ by a constant one is dropped, sorted.
Expr extremum(Kind kind, std::span<const Expr> operands) {
  std::vector<Expr> kept;
  auto take = [&](Expr e) {
    for (Expr& k : kept) {
      std::int64_t difference;
      if (!differ_by_constant(e, k, difference)) continue;
      if ((kind == Kind::Max) == (difference > 0)) k = e;
      return;
    }
    kept.push_back(e);
  };
  for (const Expr& e : operands) {
    if (e.kind() == kind)
      std::ranges::for_each(e.operands(), take);
    else
      take(e);
  }
  if (kept.size() == 1) return kept[0];
  std::ranges::sort(kept, before);
  return intern(kind, kept);
}

/// `e` as a truth value.
Expr truth(Expr e) {
  if (auto c = e.constant()) return *c != 0 ? 1 : 0;
  return is_boolean(e) ? e : ne(e, 0);
}

/// And or Or: flat, sorted, without repetitions; `x and not x` decides it.
Expr junction(Kind kind, std::span<const Expr> operands) {
  const int absorbing = kind == Kind::And ? 0 : 1;
  std::vector<Expr> kept;
  for (const Expr& operand : operands) {
    Expr e = truth(operand);
    if (e.is_constant(absorbing)) return absorbing;
    if (e.is_constant()) continue;
    if (e.kind() == kind)
      kept.insert(kept.end(), e.operands().begin(), e.operands().end());
    else
      kept.push_back(e);
  }
  std::ranges::sort(kept, before);
  kept.erase(std::ranges::unique(kept).begin(), kept.end());
  if (kept.empty()) return 1 - absorbing;
  if (kept.size() == 1) return kept[0];
  for (const Expr& e : kept)
    if (std::ranges::binary_search(kept, logical_not(e), before)) return absorbing;
  return intern(kind, kept);
}

/// A difference with its positive and its negative terms apart, divided by their common divisor: positive - negative +
/// constant.
struct Difference {
  Expr positive = 0, negative = 0;
  std::int64_t constant = 0, divisor = 1;
  bool leads_positive = true;
};

Difference difference(Expr e) {
  Difference d;
  Terms terms = terms_of(e, d.constant), positive, negative;
  if (terms.empty()) return d;
  d.divisor = 0;
  for (const Term& t : terms) d.divisor = gcd(d.divisor, t.coefficient);
  d.leads_positive = terms[0].coefficient > 0;
  for (Term t : terms) {
    t.coefficient /= d.divisor;
    if (t.coefficient > 0)
      positive.push_back(t);
    else
      negative.push_back({t.monomial, checked_negate(t.coefficient)});
  }
  d.positive = make_sorted_sum(positive, 0);
  d.negative = make_sorted_sum(negative, 0);
  return d;
}

/// `e >= 0`.
Expr at_least_zero(Expr e) {
  if (auto c = e.constant()) return *c >= 0 ? 1 : 0;
  Difference d = difference(e);
  std::int64_t k = floor_quotient(d.constant, d.divisor);
  Kind kind = Kind::Le;
  Expr low = d.negative, high = d.positive;
  if (high.is_constant(0)) {
    high = k;
  } else if (low.is_constant(0)) {
    low = checked_negate(k);
  } else if (k == -1) {
    kind = Kind::Lt;
  } else if (k < 0) {
    low = low + checked_negate(k);
  } else {
    high = high + k;
  }
  Expr operands[] = {low, high};
  return intern(kind, operands);
}

/// What `a <= b` (`a < b` for less = 1) is where the difference of the constants, or its negative, leaves 64 bits:
/// nothing else in it can make up for that.
std::optional<Expr> beyond_64_bits(Expr a, Expr b, int less) {
  auto constant_of = [](Expr e) {
    return e.kind() == Kind::Add ? e.operands()[0].constant().value_or(0) : e.constant().value_or(0);
  };
  if (a.is_constant() == b.is_constant()) return std::nullopt;
  const __int128 d = static_cast<__int128>(constant_of(b)) - constant_of(a) - less;
  if (d == static_cast<std::int64_t>(d) && -d == static_cast<std::int64_t>(-d)) return std::nullopt;
  return d > 0 ? 1 : 0;
}

Expr equality(Kind kind, Expr a, Expr b) {
  const bool equal = kind == Kind::Eq;
  if (a == b) return equal ? 1 : 0;
  if (is_boolean(b) && !is_boolean(a)) std::swap(a, b);
  if (is_boolean(a) && a.node() && b.is_constant()) {
    if (b.is_constant(1)) return equal ? a : logical_not(a);
    if (b.is_constant(0)) return equal ? logical_not(a) : a;
    return equal ? 0 : 1;
  }
  Expr e = a - b;
  if (e.is_constant()) return e.is_constant(0) == equal ? 1 : 0;
  Difference d = difference(e);
  if (d.constant % d.divisor) return equal ? 0 : 1;
  Expr left = d.leads_positive ? d.positive : d.negative, right = d.leads_positive ? d.negative : d.positive;
  std::int64_t k = d.constant / d.divisor;  // left - right + k == 0
  if (!d.leads_positive) k = checked_negate(k);
  if (k > 0 && !right.is_constant(0))
    left = left + k;
  else
    right = right + checked_negate(k);
  Expr operands[] = {left, right};
  return intern(kind, operands);
}

Expr commuted(Kind kind, Expr a, Expr b) {
  if (before(b, a)) std::swap(a, b);
  Expr operands[] = {a, b};
  return intern(kind, operands);
}

}  // namespace

bool is_boolean(Expr e) {
  switch (e.kind()) {
    case Kind::Constant: return e.is_constant(0) || e.is_constant(1);
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Lt:
    case Kind::Le:
    case Kind::And:
    case Kind::Or:
    case Kind::Not: return true;
    default: return false;
  }
}

Expr min(Expr a, Expr b) {
  Expr both[] = {a, b};
  return extremum(Kind::Min, both);
}

Expr max(Expr a, Expr b) {
  Expr both[] = {a, b};
  return extremum(Kind::Max, both);
}

Expr where(Expr condition, Expr yes, Expr no) {
  condition = truth(condition);
  if (auto c = condition.constant()) return *c ? yes : no;
  if (yes == no) return yes;
  if (condition.kind() == Kind::Ne) return where(logical_not(condition), no, yes);
  Expr operands[] = {condition, yes, no};
  return intern(Kind::Where, operands);
}

Expr eq(Expr a, Expr b) { return equality(Kind::Eq, a, b); }
Expr ne(Expr a, Expr b) { return equality(Kind::Ne, a, b); }
Expr le(Expr a, Expr b) {
  if (auto known = beyond_64_bits(a, b, 0)) return *known;
  return at_least_zero(b - a);
}

Expr lt(Expr a, Expr b) {
  if (auto known = beyond_64_bits(a, b, 1)) return *known;
  return at_least_zero(b - a - 1);
}

Expr logical_and(Expr a, Expr b) {
  Expr both[] = {a, b};
  return junction(Kind::And, both);
}

Expr logical_or(Expr a, Expr b) {
  Expr both[] = {a, b};
  return junction(Kind::Or, both);
}

Expr logical_not(Expr e) {
  e = truth(e);
  auto operands = e.operands();
  switch (e.kind()) {
    case Kind::Constant: return e.is_constant(0) ? 1 : 0;
    case Kind::Eq: return intern(Kind::Ne, operands);
    case Kind::Ne: return intern(Kind::Eq, operands);
    case Kind::Lt: return le(operands[1], operands[0]);
    case Kind::Le: return lt(operands[1], operands[0]);
    default: break;
  }
  std::vector<Expr> negated;
  for (const Expr& o : operands) negated.push_back(logical_not(o));
  return junction(e.kind() == Kind::And ? Kind::Or : Kind::And, negated);
}

Expr bit_and(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() & *b.constant();
  if (a == b || b.is_constant(-1)) return a;
  if (a.is_constant(-1)) return b;
  if (a.is_constant(0) || b.is_constant(0)) return 0;
  return commuted(Kind::BitAnd, a, b);
}

Expr bit_or(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() | *b.constant();
  if (a == b || b.is_constant(0)) return a;
  if (a.is_constant(0)) return b;
  if (a.is_constant(-1) || b.is_constant(-1)) return -1;
  return commuted(Kind::BitOr, a, b);
}

Expr bit_xor(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return *a.constant() ^ *b.constant();
  if (a == b) return 0;
  if (b.is_constant(0)) return a;
  if (a.is_constant(0)) return b;
  return commuted(Kind::BitXor, a, b);
}

Expr shift_left(Expr a, Expr b) {
  if (auto k = b.constant()) {
    if (*k < 0 || *k > 63) fail("a shift by {} in a symbolic size", *k);
    return *k == 63 ? a * Expr(std::numeric_limits<std::int64_t>::min()) : a * Expr(std::int64_t{1} << *k);
  }
  if (a.is_constant(0)) return 0;
  Expr operands[] = {a, b};
  return intern(Kind::ShiftLeft, operands);
}

Expr shift_right(Expr a, Expr b) {
  if (auto k = b.constant()) {
    if (*k < 0 || *k > 63) fail("a shift by {} in a symbolic size", *k);
    if (*k < 63) return floor_div(a, std::int64_t{1} << *k);
    return where(lt(a, 0), -1, 0);
  }
  if (a.is_constant(0) || a.is_constant(-1)) return a;
  Expr operands[] = {a, b};
  return intern(Kind::ShiftRight, operands);
}

Expr make(Kind kind, std::span<const Expr> o) {
  auto expect = [&](std::size_t n) {
    COIL_CHECK(o.size() == n, "an operator with {} operands instead of {}", o.size(), n);
  };
  switch (kind) {
    case Kind::Constant:
    case Kind::Symbol: COIL_CHECK(false, "make() of a leaf");
    case Kind::Add: return sum(o);
    case Kind::Mul: return product(o);
    case Kind::Min:
    case Kind::Max: COIL_CHECK(!o.empty(), "an extremum of nothing"); return extremum(kind, o);
    case Kind::And:
    case Kind::Or: return junction(kind, o);
    case Kind::Not: expect(1); return logical_not(o[0]);
    case Kind::Where: expect(3); return where(o[0], o[1], o[2]);
    case Kind::Float: return float_call(static_cast<FloatFunction>(*o[0].constant()), o[1], o.size() > 2 ? o[2] : 0);
    default: break;
  }
  expect(2);
  switch (kind) {
    case Kind::FloorDiv: return floor_div(o[0], o[1]);
    case Kind::CeilDiv: return ceil_div(o[0], o[1]);
    case Kind::Mod: return mod(o[0], o[1]);
    case Kind::Pow: return pow(o[0], o[1]);
    case Kind::Eq: return eq(o[0], o[1]);
    case Kind::Ne: return ne(o[0], o[1]);
    case Kind::Lt: return lt(o[0], o[1]);
    case Kind::Le: return le(o[0], o[1]);
    case Kind::BitAnd: return bit_and(o[0], o[1]);
    case Kind::BitOr: return bit_or(o[0], o[1]);
    case Kind::BitXor: return bit_xor(o[0], o[1]);
    case Kind::ShiftLeft: return shift_left(o[0], o[1]);
    case Kind::ShiftRight: return shift_right(o[0], o[1]);
    default: COIL_CHECK(false, "make() of an unknown kind");
  }
}

}  // namespace coil::sym
