// Canonical forms of FloorDiv, CeilDiv and Mod.
//
// FloorDiv(a, b) = quotient + FloorDiv(numerator, divisor) and Mod(a, b) = scale·Mod(numerator, divisor) + offset, with
// one reduction for both, so that the two of one division always fit together again.
#include "sym/node.h"

namespace coil::sym {

namespace {

struct Reduced {
  Expr quotient = 0, numerator, divisor, scale = 1;
  std::int64_t offset = 0;
};

[[noreturn]] void fail_zero() { fail("division by zero in a symbolic size"); }

Reduced reduce_by_constant(Expr a, std::int64_t d) {
  std::int64_t constant = 0, g = d;
  Terms quotient, rest;
  for (const Term& t : terms_of(a, constant)) {
    std::int64_t q = t.coefficient / d, r = t.coefficient % d;
    if (q) quotient.push_back({t.monomial, q});
    if (r) rest.push_back({t.monomial, r}), g = gcd(g, r);
  }
  Reduced out;
  out.quotient = make_sorted_sum(quotient, floor_quotient(constant, d));
  constant = floor_remainder(constant, d);
  if (rest.empty()) g = 1;
  for (Term& t : rest) t.coefficient /= g;
  out.numerator = make_sorted_sum(rest, constant / g);
  out.divisor = d / g;
  out.scale = g;
  out.offset = constant % g;
  return out;
}

/// Takes multiples of `coefficient·monomial` (coefficient > 0) out of `a`, then what numerator and divisor have in
/// common.
Reduced reduce_by_monomial(Expr a, Term d) {
  std::int64_t constant = 0, g = d.coefficient;
  Terms quotient, rest;
  Expr common = d.monomial;
  for (const Term& t : terms_of(a, constant)) {
    std::int64_t r = t.coefficient;
    if (auto m = divide_monomial(t.monomial, d.monomial)) {
      if (std::int64_t q = r / d.coefficient) quotient.push_back({*m, q});
      r %= d.coefficient;
    }
    if (!r) continue;
    rest.push_back({t.monomial, r});
    g = gcd(g, r);
    common = common_monomial(common, t.monomial);
  }
  Reduced out;
  std::int64_t whole = 0;
  std::erase_if(quotient,
                [&](const Term& t) { return t.monomial.is_constant() ? (whole = t.coefficient, true) : false; });
  out.quotient = make_sum(std::move(quotient), whole);
  if (constant) common = 1, g = gcd(g, constant);
  if (rest.empty() && !constant) return out.numerator = 0, out.divisor = 1, out;
  std::int64_t left = constant / g;
  std::erase_if(rest, [&](Term& t) {
    t = {*divide_monomial(t.monomial, common), t.coefficient / g};
    return t.monomial.is_constant() ? (left = checked_add(left, t.coefficient), true) : false;
  });
  out.numerator = make_sum(std::move(rest), left);
  out.divisor = scaled(*divide_monomial(d.monomial, common), d.coefficient / g);
  out.scale = scaled(common, g);
  return out;
}

const Term* find(const Terms& terms, Expr monomial) {
  auto it = std::ranges::lower_bound(terms, monomial, before, &Term::monomial);
  return it != terms.end() && it->monomial == monomial ? &*it : nullptr;
}

/// By degree, then lexicographically: an order that products keep, so that exact division may go from the leading term
/// down.
bool graded_before(const Term& a, const Term& b) {
  auto x = factors(a.monomial), y = factors(b.monomial);
  if (x.size() != y.size()) return x.size() < y.size();
  auto [i, j] = std::ranges::mismatch(x, y);
  return i != x.end() && compare(*j, *i) < 0;
}

/// `a / d` for a sum `d`, if the remainder is 0.
std::optional<Expr> long_division(Expr a, Expr d) {
  constexpr std::size_t kMaxTerms = 64;
  std::int64_t constant = 0;
  const Terms divisor = terms_of(d, constant);
  const Term lead = std::ranges::max(divisor, graded_before);
  Exprs quotient;
  while (!a.is_constant()) {
    constant = 0;
    const Terms terms = terms_of(a, constant);
    const Term t = std::ranges::max(terms, graded_before);
    auto m = divide_monomial(t.monomial, lead.monomial);
    if (!m || t.coefficient % lead.coefficient || terms.size() > kMaxTerms || quotient.size() > kMaxTerms)
      return std::nullopt;
    quotient.push_back(scaled(*m, t.coefficient / lead.coefficient));
    a = a - quotient.back() * d;
  }
  return a.is_constant(0) ? std::optional(sum(quotient)) : std::nullopt;
}

/// Takes multiples of the sum `d` out of `a`, among the terms that agree in all factors that `d` does not have.
void take_multiples(Reduced& r, Expr d) {
  std::int64_t constant = 0;
  std::vector<Expr> atoms;
  for (const Term& t : terms_of(d, constant))
    atoms.insert(atoms.end(), factors(t.monomial).begin(), factors(t.monomial).end());
  constant = 0;
  std::vector<std::pair<Expr, Terms>> groups;
  for (const Term& t : terms_of(r.numerator, constant)) {
    std::vector<Expr> others;
    for (const Expr& f : factors(t.monomial))
      if (std::ranges::find(atoms, f) == atoms.end()) others.push_back(f);
    Expr key = make_monomial(std::move(others));
    auto it = std::ranges::find(groups, key, &std::pair<Expr, Terms>::first);
    if (it == groups.end()) it = groups.insert(it, {key, {}});
    it->second.push_back(t);
  }
  for (const auto& [key, terms] : groups) {
    Expr part = make_sorted_sum(terms, key.is_constant() ? constant : 0);
    auto q = long_division(part, d);
    if (!q) continue;
    r.quotient += *q;
    r.numerator = r.numerator - part;
  }
}

/// Takes multiples of the sum `d` out of `a`: whole ones first, then `q` where all terms of `q·d` but the constant
/// vanish.
Reduced reduce_by_sum(Expr a, Expr d) {
  Reduced out{.numerator = a, .divisor = d};
  take_multiples(out, d);
  std::int64_t divisor_constant = 0;
  const Terms divisor = terms_of(d, divisor_constant);
  const Term lead = divisor.back();
  for (bool found = true; found && out.numerator.node();) {
    found = false;
    std::int64_t constant = 0;
    const Terms terms = terms_of(out.numerator, constant);
    for (const Term& t : terms) {
      auto m = divide_monomial(t.monomial, lead.monomial);
      if (!m || t.coefficient % lead.coefficient) continue;
      Expr q = scaled(*m, t.coefficient / lead.coefficient), multiple = q * d;
      std::int64_t taken = 0;
      const Terms vanishing = terms_of(multiple, taken);
      bool fits = std::ranges::all_of(vanishing, [&](const Term& p) {
        const Term* have = find(terms, p.monomial);
        return have && have->coefficient == p.coefficient;
      });
      if (taken) fits &= taken < 0 ? constant <= taken : constant >= taken;
      if (!fits) continue;
      out.quotient += q;
      out.numerator = out.numerator - multiple;
      found = true;
      break;
    }
  }
  // What all terms of numerator and divisor have in common.
  if (out.numerator.node() && divisor_constant == 0) {
    std::int64_t constant = 0, g = 0;
    Expr common = lead.monomial;
    Terms terms = terms_of(out.numerator, constant);
    if (constant == 0) {
      terms.insert(terms.end(), divisor.begin(), divisor.end());
      for (const Term& t : terms) common = common_monomial(common, t.monomial), g = gcd(g, t.coefficient);
      Expr scale = scaled(common, g);
      if (!scale.is_constant(1)) {
        out.numerator = *divide_exact(out.numerator, scale);
        out.divisor = *divide_exact(out.divisor, scale);
        out.scale = scale;
      }
    }
  }
  return out;
}

/// `b` is neither 0 nor negative by its sign.
Reduced reduce(Expr a, Expr b) {
  if (auto d = b.constant()) return reduce_by_constant(a, *d);
  if (b.kind() == Kind::Add) return reduce_by_sum(a, b);
  return reduce_by_monomial(a, split(b));
}

/// Whether division is by `-b` of both with the sign changed.
bool negative_divisor(Expr b) {
  if (auto d = b.constant()) return *d < 0;
  std::int64_t constant = 0;
  return terms_of(b, constant)[0].coefficient < 0;
}

bool is_positive_constant(Expr e) { return e.constant().value_or(0) > 0; }

/// FloorDiv of a reduced numerator by a positive constant.
Expr floor_div_reduced(Expr a, std::int64_t d) {
  if (a.is_constant() || d == 1) return floor_quotient(*a.constant(), d);
  // FloorDiv(FloorDiv(x, c) + k, d) is FloorDiv(x + k·c, c·d).
  std::int64_t k = 0, product;
  Terms terms = terms_of(a, k);
  if (terms.size() == 1 && terms[0].coefficient == 1) {
    Expr inner = terms[0].monomial;
    if (inner.kind() == Kind::FloorDiv && is_positive_constant(inner.operands()[1])) {
      std::int64_t c = *inner.operands()[1].constant();
      if (!__builtin_mul_overflow(c, d, &product)) return floor_div(inner.operands()[0] + checked_mul(k, c), product);
    }
    if (inner.kind() == Kind::Mod && k == 0 && is_positive_constant(inner.operands()[1])) {
      std::int64_t m = *inner.operands()[1].constant();
      if (m <= d) return 0;
      if (m % d == 0) return mod(floor_div(inner.operands()[0], d), m / d);
    }
  }
  Expr operands[] = {a, d};
  return intern(Kind::FloorDiv, operands);
}

/// The same expression modulo `d`, with the inner Mods of multiples of `d` undone.
Expr without_inner_mods(Expr a, Expr d) {
  if (a.is_constant() || a.node()->polynomial) return a;
  std::int64_t constant = 0;
  Expr result = a;
  for (const Term& t : terms_of(a, constant))
    for (const Expr& f : factors(t.monomial)) {
      if (f.kind() != Kind::Mod) continue;
      Expr others = scaled(*divide_monomial(t.monomial, f), t.coefficient);
      if (!divide_exact(others * f.operands()[1], d)) continue;
      result = result - scaled(t.monomial, t.coefficient) + others * f.operands()[0];
      break;
    }
  return result == a ? a : without_inner_mods(result, d);
}

}  // namespace

std::optional<Expr> divide_exact(Expr a, Expr b) {
  if (b.is_constant(0)) return std::nullopt;
  if (a.is_constant(0)) return Expr(0);
  if (a == b) return Expr(1);
  if (b.is_constant(1)) return a;
  if (negative_divisor(b)) {
    auto q = divide_exact(a, -b);
    return q ? std::optional(-*q) : std::nullopt;
  }
  if (a.is_constant() && b.is_constant())
    return *a.constant() % *b.constant() ? std::nullopt : std::optional(Expr(*a.constant() / *b.constant()));
  if (a.is_constant()) return std::nullopt;
  if (b.kind() == Kind::Add) return long_division(a, b);
  Term d = b.is_constant() ? Term{1, *b.constant()} : split(b);
  std::int64_t constant = 0;
  Terms terms = terms_of(a, constant);
  if (constant % d.coefficient || (constant && d.monomial.node())) return std::nullopt;
  constant /= d.coefficient;
  Terms quotient;
  for (const Term& t : terms) {
    auto m = divide_monomial(t.monomial, d.monomial);
    if (!m || t.coefficient % d.coefficient) return std::nullopt;
    if (m->is_constant())
      constant = checked_add(constant, t.coefficient / d.coefficient);
    else
      quotient.push_back({*m, t.coefficient / d.coefficient});
  }
  return make_sum(std::move(quotient), constant);
}

Expr floor_div(Expr a, Expr b) {
  if (b.is_constant(0)) fail_zero();
  if (b.is_constant(1)) return a;
  if (a.is_constant(0)) return 0;
  if (a.is_constant() && b.is_constant()) return floor_quotient(*a.constant(), *b.constant());
  if (negative_divisor(b)) return floor_div(-a, -b);
  Reduced r = reduce(a, b);
  if (auto d = r.divisor.constant()) {
    if (*d < 0) return r.quotient + floor_div(r.numerator, *d);
    if (!b.is_constant()) return r.quotient + floor_div(r.numerator, *d);
    return r.quotient + floor_div_reduced(r.numerator, *d);
  }
  if (r.numerator.is_constant(0)) return r.quotient;
  if (negative_divisor(r.divisor)) return r.quotient + floor_div(r.numerator, r.divisor);
  Expr operands[] = {r.numerator, r.divisor};
  return r.quotient + intern(Kind::FloorDiv, operands);
}

Expr mod(Expr a, Expr b) {
  if (b.is_constant(0)) fail_zero();
  if (b.is_constant(1) || a.is_constant(0)) return 0;
  if (a.is_constant() && b.is_constant()) return floor_remainder(*a.constant(), *b.constant());
  if (negative_divisor(b)) return -mod(-a, -b);
  a = without_inner_mods(a, b);
  Reduced r = reduce(a, b);
  auto finish = [&](Expr m) { return r.scale * m + Expr(r.offset); };
  if (r.numerator.is_constant(0)) return r.offset;
  if (r.divisor.is_constant(1)) return r.offset;
  if (r.divisor.is_constant() && r.numerator.is_constant())
    return finish(floor_remainder(*r.numerator.constant(), *r.divisor.constant()));
  if (!b.is_constant() && (r.divisor.is_constant() || negative_divisor(r.divisor)))
    return finish(mod(r.numerator, r.divisor));
  if (auto d = r.divisor.constant(); d && r.numerator.kind() == Kind::Mod) {
    Expr m = r.numerator.operands()[1];
    if (is_positive_constant(m) && *m.constant() <= *d) return finish(r.numerator);
  }
  if (!r.scale.is_constant(1)) {  // the smaller divisor may undo more of the inner Mods
    Expr plain = without_inner_mods(r.numerator, r.divisor);
    if (plain != r.numerator) return finish(mod(plain, r.divisor));
  }
  Expr operands[] = {r.numerator, r.divisor};
  return finish(intern(Kind::Mod, operands));
}

Expr ceil_div(Expr a, Expr b) {
  if (b.is_constant(0)) fail_zero();
  if (auto d = b.constant()) return *d < 0 ? ceil_div(-a, checked_negate(*d)) : floor_div(a + Expr(*d - 1), *d);
  if (negative_divisor(b)) return ceil_div(-a, -b);
  Reduced r = reduce(a, b);
  if (r.divisor.is_constant() || negative_divisor(r.divisor)) return r.quotient + ceil_div(r.numerator, r.divisor);
  if (r.numerator.is_constant(0)) return r.quotient;
  Expr operands[] = {r.numerator, r.divisor};
  return r.quotient + intern(Kind::CeilDiv, operands);
}

}  // namespace coil::sym
