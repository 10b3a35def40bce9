#include "sym/simplify.h"

#include "sym/interval.h"

namespace coil::sym {

namespace {

constexpr int kMaxRewrites = 64;            // rewriting of results of rewriting
constexpr std::size_t kMaxCandidates = 12;  // divisors tried for one division

/// {coefficient·monomial} of the largest common divisor of two terms.
Term common_divisor(const Term& a, const Term& b) {
  return {common_monomial(a.monomial, b.monomial), gcd(a.coefficient, b.coefficient)};
}

bool same(const Term& a, const Term& b) { return a.monomial == b.monomial && a.coefficient == b.coefficient; }

Term term_of(Expr e) { return e.is_constant() ? Term{1, *e.constant()} : split(e); }

/// Whether all terms of `part` but its constant are terms of `terms`.
bool has_all(const Terms& terms, Expr part) {
  std::int64_t constant = 0;
  const Terms wanted = terms_of(part, constant);
  return std::ranges::all_of(wanted, [&](const Term& w) {
    auto it = std::ranges::lower_bound(terms, w.monomial, before, &Term::monomial);
    return it != terms.end() && same(*it, w);
  });
}

}  // namespace

Expr Simplifier::simplify(Expr e) {
  const Node* n = e.node();
  if (!n || n->polynomial) return e;
  if (auto it = simplified_.find(n); it != simplified_.end()) return it->second;
  Exprs operands;
  bool changed = false;
  for (const Expr& o : e.operands()) {
    operands.push_back(simplify(o));
    changed |= operands.back() != o;
    if (n->kind == Kind::Where && operands.size() == 1 && operands[0].is_constant())
      return simplify(e.operands()[operands[0].is_constant(0) ? 2 : 1]);
  }
  Expr result = changed ? make(n->kind, operands) : e;
  if (result.node() && !result.node()->polynomial && depth_ < kMaxRewrites) {
    ++depth_;
    if (changed && result.kind() != n->kind) {
      result = simplify(result);
    } else {
      Expr next = step(result);
      result = next == result ? next : simplify(next);
    }
    --depth_;
  }
  simplified_.emplace(n, result);
  return result;
}

Expr Simplifier::step(Expr e) try {
  switch (e.kind()) {
    case Kind::FloorDiv:
    case Kind::Mod: return step_division(e);
    case Kind::CeilDiv: {
      Expr x = e.operands()[0], n = e.operands()[1];
      return bounds(n).low >= 0 ? floor_div(x - 1, n) + 1 : e;
    }
    case Kind::Min:
    case Kind::Max: return step_extremum(e);
    case Kind::Lt:
    case Kind::Le: return step_inequality(e);
    case Kind::Eq:
    case Kind::Ne: return step_equality(e);
    case Kind::Add:
    case Kind::Mul: return recombine(e).value_or(e);
    default: return e;
  }
} catch (const Error&) {
  return e;  // an overflow on the way to something simpler
}

std::optional<std::int64_t> Simplifier::constant_quotient(Expr x, Expr n) {
  if (auto d = n.constant()) {
    Range r = bounds(x);
    if (r.low == Range::kMin || r.high == Range::kMax) return std::nullopt;
    std::int64_t q = floor_quotient(r.low, *d);
    return q == floor_quotient(r.high, *d) ? std::optional(q) : std::nullopt;
  }
  if (nonnegative(x)) return nonnegative(n - x - 1) ? std::optional<std::int64_t>(0) : std::nullopt;
  return nonnegative(-x - 1) && nonnegative(x + n) ? std::optional<std::int64_t>(-1) : std::nullopt;
}

Expr Simplifier::step_division(Expr e) {
  Expr x = e.operands()[0], n = e.operands()[1];
  if (bounds(n).low < 0) return e;
  const bool is_div = e.kind() == Kind::FloorDiv;
  const std::size_t assumed = assumed_.size(), assumed_nonnegative = assumed_nonnegative_.size();
  assume_positive(n);
  auto rewritten = [&]() -> std::optional<Expr> {
    if (auto q = constant_quotient(x, n)) return is_div ? Expr(*q) : x - Expr(*q) * n;
    if (auto better = step_multiples(e)) return better;
    // FloorDiv(FloorDiv(y, a), n) is FloorDiv(y, a·n) for positive n.
    if (is_div && x.kind() == Kind::FloorDiv) return floor_div(x.operands()[0], x.operands()[1] * n);
    return step_split(e);
  };
  std::optional<Expr> better = rewritten();
  if (assumed_.size() != assumed) {
    assumed_.resize(assumed);
    intervals_.clear();
  }
  assumed_nonnegative_.resize(assumed_nonnegative);
  return better.value_or(e);
}

/// Terms that are known to be multiples of a constant divisor are divided apart.
std::optional<Expr> Simplifier::step_multiples(Expr e) {
  Expr x = e.operands()[0];
  auto d = e.operands()[1].constant();
  if (!d || env_.multiples_.empty()) return std::nullopt;
  const bool is_div = e.kind() == Kind::FloorDiv;
  if (auto it = env_.multiples_.find(x); it != env_.multiples_.end() && it->second % *d == 0)
    return is_div ? std::nullopt : std::optional(Expr(0));
  std::int64_t constant = 0;
  Terms exact, rest;
  for (const Term& t : terms_of(x, constant)) (multiple_of(t) % *d == 0 ? exact : rest).push_back(t);
  if (exact.empty()) return std::nullopt;
  Expr left = make_sorted_sum(rest, constant), taken = make_sorted_sum(exact, 0);
  if (!is_div) return mod(left, *d);
  return left.is_constant(0) ? std::nullopt : std::optional(floor_div(left, *d) + floor_div(taken, *d));
}

/// With x = g·a + b, n = g·m and q·g <= b < (q + 1)·g: FloorDiv(x, n) = FloorDiv(a + q, m) and Mod(x, n) = g·Mod(a + q,
/// m) + b - q·g.
std::optional<Expr> Simplifier::step_split(Expr e) {
  Expr x = e.operands()[0], n = e.operands()[1];
  if (n.kind() == Kind::Add || x.is_constant()) return std::nullopt;
  const Term whole = term_of(n);
  std::int64_t constant = 0;
  const Terms terms = terms_of(x, constant);
  std::vector<Term> candidates;
  auto consider = [&](const Term& g) {
    bool useless = (g.monomial.is_constant() && g.coefficient == 1) || same(g, whole);
    if (useless || candidates.size() == kMaxCandidates) return;
    if (std::ranges::none_of(candidates, [&](const Term& c) { return same(c, g); })) candidates.push_back(g);
  };
  for (const Term& t : terms) consider(common_divisor(t, whole));
  for (std::size_t i = 1; i < candidates.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) consider(common_divisor(candidates[i], candidates[j]));
  for (const Term& g : candidates) {
    Exprs multiples;
    Terms rest;
    for (const Term& t : terms) {
      auto m = divide_monomial(t.monomial, g.monomial);
      if (m && t.coefficient % g.coefficient == 0)
        multiples.push_back(scaled(*m, t.coefficient / g.coefficient));
      else
        rest.push_back(t);
    }
    Expr divisor = scaled(g.monomial, g.coefficient), b = make_sorted_sum(rest, constant);
    auto q = constant_quotient(b, divisor);
    if (!q) continue;
    multiples.push_back(*q);
    Expr a = sum(multiples),
         m = scaled(*divide_monomial(whole.monomial, g.monomial), whole.coefficient / g.coefficient);
    return e.kind() == Kind::FloorDiv ? floor_div(a, m) : divisor * mod(a, m) + b - Expr(*q) * divisor;
  }
  return std::nullopt;
}

Expr Simplifier::step_extremum(Expr e) {
  Exprs kept(e.operands().begin(), e.operands().end());
  auto useless = [&](Expr a) {
    return std::ranges::any_of(kept,
                               [&](Expr b) { return a != b && nonnegative(e.kind() == Kind::Max ? b - a : a - b); });
  };
  for (std::size_t i = 0; i < kept.size();) {
    if (useless(kept[i]))
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  return kept.size() == e.operands().size() ? e : make(e.kind(), kept);
}

/// `e` divided by the positive factors that all its terms share.
std::optional<Expr> Simplifier::without_common_factor(Expr e) {
  std::int64_t constant = 0;
  const Terms terms = terms_of(e, constant);
  if (constant || terms.empty()) return std::nullopt;
  Expr common = terms[0].monomial;
  for (const Term& t : terms) common = common_monomial(common, t.monomial);
  if (common.is_constant()) return std::nullopt;
  std::vector<Expr> positive;
  for (const Expr& f : factors(common))
    if (interval(f).low >= 1) positive.push_back(f);
  if (positive.empty()) return std::nullopt;
  return divide_exact(e, make_monomial(std::move(positive)));
}

Expr Simplifier::step_inequality(Expr e) {
  Expr difference = e.operands()[1] - e.operands()[0];
  if (auto smaller = without_common_factor(difference)) return e.kind() == Kind::Le ? le(0, *smaller) : lt(0, *smaller);
  if (e.kind() == Kind::Lt) difference = difference - 1;
  if (nonnegative(difference)) return 1;
  if (nonnegative(-difference - 1)) return 0;
  return e;
}

Expr Simplifier::step_equality(Expr e) {
  const bool is_eq = e.kind() == Kind::Eq;
  Expr difference = e.operands()[0] - e.operands()[1];
  if (auto smaller = without_common_factor(difference)) return is_eq ? eq(*smaller, 0) : ne(*smaller, 0);
  if (nonnegative(difference - 1) || nonnegative(-difference - 1)) return is_eq ? 0 : 1;
  if (Range r = bounds(difference); r.low == 0 && r.high == 0) return is_eq ? 1 : 0;
  if (std::ranges::find(env_.facts_, e) != env_.facts_.end()) return 1;
  if (std::ranges::find(env_.facts_, logical_not(e)) != env_.facts_.end()) return 0;
  if (!env_.multiples_.empty()) {
    std::int64_t constant = 0, g = 0;
    for (const Term& t : terms_of(difference, constant)) g = gcd(g, multiple_of(t));
    if (g > 1 && constant % g) return is_eq ? 0 : 1;
  }
  return e;
}

/// The digits of one number put together again, with any common factor k: k·n·FloorDiv(x, n) + k·Mod(x, n) is k·x, k·x
/// - k·n·FloorDiv(x, n) is k·Mod(x, n), and k·a·Mod(FloorDiv(x, a), b) + k·Mod(x, a) is k·Mod(x, a·b).
std::optional<Expr> Simplifier::recombine(Expr e) {
  std::int64_t constant = 0;
  const Terms terms = terms_of(e, constant);
  if (terms.size() == 1 && env_.multiples_.empty()) return std::nullopt;
  for (const Term& t : terms) {
    if (t.monomial.node()->polynomial) continue;
    for (const Expr& f : factors(t.monomial)) {
      if (f.kind() != Kind::FloorDiv && f.kind() != Kind::Mod) continue;
      Expr x = f.operands()[0], n = f.operands()[1], self = scaled(t.monomial, t.coefficient);
      Expr others = scaled(*divide_monomial(t.monomial, f), t.coefficient);
      if (f.kind() == Kind::Mod) {
        Expr high = others * n * floor_div(x, n);
        if (high.node() && has_all(terms, high)) return e - self - high + others * x;
        if (x.kind() == Kind::FloorDiv) {
          Expr a = x.operands()[1];
          if (auto k = divide_exact(others, a)) {
            Expr low = *k * mod(x.operands()[0], a);
            if (low.node() && has_all(terms, low)) return e - self - low + *k * mod(x.operands()[0], a * n);
          }
        }
        continue;
      }
      auto k = divide_exact(others, n);
      if (!k) continue;
      Expr remainder = mod(x, n), low = *k * remainder;
      if (low.node() && has_all(terms, low)) return e - self - low + *k * x;
      if (Expr whole = -*k * x; whole.node() && has_all(terms, whole)) return e - self - whole - *k * remainder;
      if (!env_.multiples_.empty() && simplify(remainder).is_constant(0)) return e - self + *k * x;
    }
  }
  return std::nullopt;
}

Expr ShapeEnv::simplify(Expr e, std::span<const LoopVar> loops) const {
  e = resolve(e);
  if (has_symbol_of(e, SymbolKind::Loop)) {
    for (const LoopVar& l : loops) {  // a loop of one round
      if (!l.size.is_constant(1) || !contains(e, l.var)) continue;
      const Expr from[] = {l.var}, to[] = {0};
      e = substitute(e, from, to);
    }
  }
  if (!e.node() || e.node()->polynomial) return e;
  return Simplifier(*this, e, loops).simplify(e);
}

Range ShapeEnv::bounds(Expr e, std::span<const LoopVar> loops) const {
  e = resolve(e);
  return Simplifier(*this, e, loops).bounds(e);
}

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
