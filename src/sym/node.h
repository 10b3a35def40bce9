// The inside of sym: nodes, how they are interned, and the parts that canonicalisation shares.
#pragma once
#include <numeric>

#include "support/error.h"
#include "sym/expr.h"

namespace coil::sym {

/// One hash-consed expression. Nodes live in their Context's arena and never change.
struct Node {
  std::uint64_t hash = 0;
  Context::Impl* owner = nullptr;
  const Node* monomial = nullptr;   ///< of a Mul with a coefficient: the same product without it
  std::uint64_t symbol_filter = 0;  ///< one bit per symbol below (several symbols may share a bit)
  const Expr* operands = nullptr;
  std::uint32_t count = 0;
  std::uint32_t weight = 1;  ///< nodes of the expression written out as a tree, at most kMaxWeight
  Kind kind = Kind::Constant;
  SymbolKind symbol_kind = SymbolKind::Size;
  std::uint8_t symbol_kinds = 0;  ///< bit k: a symbol of SymbolKind k is below
  bool polynomial = false;        ///< symbols, sums and products only
  std::uint32_t prefix = 0;       ///< of a Symbol: length of the name without its trailing number
  std::uint64_t number = 0;       ///< of a Symbol: that number
  std::string_view name;

  static constexpr std::uint32_t kMaxWeight = 1u << 20;
};

/// A summand `coefficient·monomial`.
struct Term {
  Expr monomial;
  std::int64_t coefficient = 1;
};
using Terms = std::vector<Term>;

/// The node of this kind over operands that are already canonical.
Expr intern(Kind, std::span<const Expr> operands, const Node* monomial = nullptr);

/// Three-way form of `before`.
int compare(Expr, Expr);

[[noreturn]] void fail_overflow();
inline std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) fail_overflow();
  return r;
}
inline std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail_overflow();
  return r;
}
inline std::int64_t checked_negate(std::int64_t a) { return checked_mul(a, -1); }

/// Rounded towards minus infinity; `b` is not 0.
inline std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b == -1) return checked_negate(a);
  std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
/// In [0, b), or (b, 0] for negative b.
inline std::int64_t floor_remainder(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  std::int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
std::int64_t gcd(std::int64_t, std::int64_t);

/// A non-constant expression that is not a sum, as a term.
inline Term split(Expr e) {
  const Node* n = e.node();
  if (n->monomial) return {Expr(n->monomial), *n->operands[0].constant()};
  return {e, 1};
}
/// The factors of a monomial: of a product without coefficient, or of anything else itself.
inline std::span<const Expr> factors(const Expr& monomial) {
  if (monomial.kind() == Kind::Mul) return monomial.operands();
  return {&monomial, 1};
}
/// The terms of any expression; its constant part is added to `constant`.
Terms terms_of(Expr, std::int64_t& constant);

/// coefficient·monomial.
Expr scaled(Expr monomial, std::int64_t coefficient);
/// The product of atoms, sorted here.
Expr make_monomial(std::vector<Expr> factors);
/// `constant + Σ terms`, for terms in any order and with repetitions.
Expr make_sum(Terms terms, std::int64_t constant);
/// The same for terms that are sorted, without repetitions and without zeros.
Expr make_sorted_sum(const Terms& terms, std::int64_t constant);
/// `a / b` if `b` divides `a` as a multiset of factors.
std::optional<Expr> divide_monomial(Expr a, Expr b);
/// Factors that both monomials have; 1 if none.
Expr common_monomial(Expr a, Expr b);

/// Constants 0 and 1, relations and what is built of them by And, Or, Not.
bool is_boolean(Expr);

}  // namespace coil::sym
