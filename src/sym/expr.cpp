#include "sym/expr.h"

#include "sym/node.h"

namespace coil::sym {

namespace {

constexpr std::size_t kMaxExpanded = 256;    // terms that the expansion of a product of sums may have
constexpr std::size_t kMaxPowFactors = 256;  // factors that a power may be written out to

bool monomial_before(const Term& a, const Term& b) { return compare(a.monomial, b.monomial) < 0; }

Expr add(Expr a, Expr b) {
  if (a.is_constant() && b.is_constant()) return checked_add(*a.constant(), *b.constant());
  if (a.is_constant(0)) return b;
  if (b.is_constant(0)) return a;
  std::int64_t constant = 0;
  Terms x = terms_of(a, constant), y = terms_of(b, constant), merged;
  merged.reserve(x.size() + y.size());
  auto i = x.begin(), j = y.begin();
  while (i != x.end() && j != y.end()) {
    int c = compare(i->monomial, j->monomial);
    if (c == 0) {
      if (std::int64_t k = checked_add(i->coefficient, j->coefficient)) merged.push_back({i->monomial, k});
      ++i, ++j;
    } else {
      merged.push_back(c < 0 ? *i++ : *j++);
    }
  }
  merged.insert(merged.end(), i, x.end());
  merged.insert(merged.end(), j, y.end());
  return make_sorted_sum(merged, constant);
}

Expr scale(Expr e, std::int64_t k) {
  if (e.is_constant()) return checked_mul(*e.constant(), k);
  if (k == 0) return 0;
  if (k == 1) return e;
  std::int64_t constant = 0;
  Terms terms = terms_of(e, constant);
  for (Term& t : terms) t.coefficient = checked_mul(t.coefficient, k);
  return make_sorted_sum(terms, checked_mul(constant, k));
}

/// A sum as {content, rest}: content is what all terms have in common, with the sign of the first term.
std::pair<Term, Expr> take_content(Expr sum) {
  std::int64_t constant = 0;
  Terms terms = terms_of(sum, constant);
  std::int64_t g = gcd(constant, 0);
  Expr common = constant ? Expr(1) : terms[0].monomial;
  for (const Term& t : terms) {
    g = gcd(g, t.coefficient);
    if (common.node()) common = common_monomial(common, t.monomial);
  }
  if (terms[0].coefficient < 0) g = -g;
  for (Term& t : terms) t = {*divide_monomial(t.monomial, common), t.coefficient / g};
  std::int64_t rest = constant / g;
  Terms left;
  for (const Term& t : terms) {
    if (t.monomial.is_constant())
      rest = checked_add(rest, t.coefficient);
    else
      left.push_back(t);
  }
  return {{common, g}, make_sum(std::move(left), rest)};
}

Expr expand(Expr monomial, std::int64_t coefficient, std::span<const Expr> sums) {
  Terms done{{monomial, coefficient}};
  for (const Expr& sum : sums) {
    std::int64_t constant = 0;
    Terms terms = terms_of(sum, constant);
    if (constant) terms.push_back({1, constant});
    Terms next;
    next.reserve(done.size() * terms.size());
    for (const Term& a : done)
      for (const Term& b : terms) {
        std::vector<Expr> both;
        if (a.monomial.node()) both.assign(factors(a.monomial).begin(), factors(a.monomial).end());
        if (b.monomial.node()) both.insert(both.end(), factors(b.monomial).begin(), factors(b.monomial).end());
        next.push_back({make_monomial(std::move(both)), checked_mul(a.coefficient, b.coefficient)});
      }
    done = std::move(next);
  }
  std::int64_t constant = 0;
  std::erase_if(done, [&](const Term& t) {
    if (t.monomial.node()) return false;
    constant = checked_add(constant, t.coefficient);
    return true;
  });
  return make_sum(std::move(done), constant);
}

Expr multiply(std::span<const Expr> operands) {
  std::int64_t coefficient = 1;
  std::vector<Expr> atoms, sums;
  auto take = [&](const Expr& e) {
    if (auto c = e.constant())
      coefficient = checked_mul(coefficient, *c);
    else
      (e.kind() == Kind::Add ? sums : atoms).push_back(e);
  };
  for (const Expr& e : operands) {
    if (e.is_constant(0)) return 0;
    if (e.kind() == Kind::Mul)
      std::ranges::for_each(e.operands(), take);
    else
      take(e);
  }
  if (sums.size() == 1 && atoms.empty()) return scale(sums[0], coefficient);
  std::size_t count = 1;
  for (const Expr& s : sums) count = std::min(count * s.operands().size(), kMaxExpanded + 1);
  if (sums.size() > 1 && count > kMaxExpanded) {
    for (const Expr& s : sums) {
      auto [content, rest] = take_content(s);
      coefficient = checked_mul(coefficient, content.coefficient);
      if (content.monomial.node())
        atoms.insert(atoms.end(), factors(content.monomial).begin(), factors(content.monomial).end());
      atoms.push_back(rest);
    }
    sums.clear();
  }
  Expr monomial = make_monomial(std::move(atoms));
  if (!sums.empty()) return expand(monomial, coefficient, sums);
  return monomial.is_constant() ? Expr(coefficient) : scaled(monomial, coefficient);
}

}  // namespace

void fail_overflow() { fail("a symbolic size leaves the range of 64-bit integers"); }

std::int64_t gcd(std::int64_t a, std::int64_t b) {
  auto magnitude = [](std::int64_t v) {
    return v < 0 ? -static_cast<std::uint64_t>(v) : static_cast<std::uint64_t>(v);
  };
  std::uint64_t g = std::gcd(magnitude(a), magnitude(b));
  if (g > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) fail_overflow();
  return static_cast<std::int64_t>(g);
}

Terms terms_of(Expr e, std::int64_t& constant) {
  if (auto c = e.constant()) {
    constant = checked_add(constant, *c);
    return {};
  }
  if (e.kind() != Kind::Add) return {split(e)};
  Terms terms;
  terms.reserve(e.operands().size());
  for (const Expr& t : e.operands()) {
    if (auto c = t.constant())
      constant = checked_add(constant, *c);
    else
      terms.push_back(split(t));
  }
  return terms;
}

Expr scaled(Expr monomial, std::int64_t coefficient) {
  if (coefficient == 0) return 0;
  if (monomial.is_constant()) return checked_mul(*monomial.constant(), coefficient);
  if (coefficient == 1) return monomial;
  auto parts = factors(monomial);
  std::vector<Expr> operands;
  operands.reserve(parts.size() + 1);
  operands.push_back(coefficient);
  operands.insert(operands.end(), parts.begin(), parts.end());
  return intern(Kind::Mul, operands, monomial.node());
}

Expr make_monomial(std::vector<Expr> factors) {
  if (factors.empty()) return 1;
  if (factors.size() == 1) return factors[0];
  std::ranges::sort(factors, before);
  return intern(Kind::Mul, factors);
}

Expr make_sorted_sum(const Terms& terms, std::int64_t constant) {
  if (terms.empty()) return constant;
  if (constant == 0 && terms.size() == 1) return scaled(terms[0].monomial, terms[0].coefficient);
  std::vector<Expr> operands;
  operands.reserve(terms.size() + 1);
  if (constant) operands.push_back(constant);
  for (const Term& t : terms) operands.push_back(scaled(t.monomial, t.coefficient));
  return intern(Kind::Add, operands);
}

Expr make_sum(Terms terms, std::int64_t constant) {
  std::ranges::stable_sort(terms, monomial_before);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < terms.size();) {
    Term t = terms[i];
    for (++i; i < terms.size() && terms[i].monomial == t.monomial; ++i)
      t.coefficient = checked_add(t.coefficient, terms[i].coefficient);
    if (t.coefficient != 0) terms[kept++] = t;
  }
  terms.resize(kept);
  return make_sorted_sum(terms, constant);
}

std::optional<Expr> divide_monomial(Expr a, Expr b) {
  if (b.is_constant()) return a;
  if (a.is_constant()) return std::nullopt;
  if (a == b) return Expr(1);
  auto x = factors(a), y = factors(b);
  std::vector<Expr> left;
  std::size_t j = 0;
  for (const Expr& f : x) {
    if (j < y.size() && f == y[j])
      ++j;
    else
      left.push_back(f);
  }
  if (j < y.size()) return std::nullopt;
  return make_monomial(std::move(left));
}

Expr common_monomial(Expr a, Expr b) {
  if (a.is_constant() || b.is_constant()) return 1;
  if (a == b) return a;
  auto x = factors(a), y = factors(b);
  std::vector<Expr> both;
  for (std::size_t i = 0, j = 0; i < x.size() && j < y.size();) {
    int c = compare(x[i], y[j]);
    if (c == 0) both.push_back(x[i]);
    i += c <= 0;
    j += c >= 0;
  }
  return make_monomial(std::move(both));
}

Expr operator+(Expr a, Expr b) { return add(a, b); }
Expr operator-(Expr a) { return scale(a, -1); }
Expr operator-(Expr a, Expr b) { return add(a, scale(b, -1)); }

Expr operator*(Expr a, Expr b) {
  if (auto k = a.constant()) return scale(b, *k);
  if (auto k = b.constant()) return scale(a, *k);
  Expr both[] = {a, b};
  return multiply(both);
}

Expr product(std::span<const Expr> all) { return multiply(all); }

Expr sum(std::span<const Expr> all) {
  std::int64_t constant = 0;
  Terms terms;
  for (const Expr& e : all) {
    Terms more = terms_of(e, constant);
    terms.insert(terms.end(), more.begin(), more.end());
  }
  return make_sum(std::move(terms), constant);
}

Expr pow(Expr base, Expr exponent) {
  auto n = exponent.constant();
  if (n && *n < 0) fail("a negative power in a symbolic size");
  if (exponent.is_constant(0) || base.is_constant(1)) return 1;
  if (exponent.is_constant(1)) return base;
  if (n && base.is_constant()) {
    std::int64_t b = *base.constant(), result = 1;
    if (b == 0) return 0;
    if (b == -1) return *n % 2 ? -1 : 1;
    for (std::int64_t i = 0; i < *n; ++i) result = checked_mul(result, b);  // overflows, and so ends, within 63 steps
    return result;
  }
  std::size_t size = base.kind() == Kind::Mul || base.kind() == Kind::Add ? base.operands().size() : 1;
  if (n && *n <= 64 && size * static_cast<std::size_t>(*n) <= kMaxPowFactors) {
    Expr result = base;
    for (std::int64_t i = 1; i < *n; ++i) result *= base;
    return result;
  }
  Expr operands[] = {base, exponent};
  return intern(Kind::Pow, operands);
}

}  // namespace coil::sym
