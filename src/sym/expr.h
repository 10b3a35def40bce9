// Symbolic integers and booleans: immutable expressions, canonical on construction, equal exactly when identical.
//
// Semantics, written once: integers are mathematical (construction that overflows 64 bits throws Error); FloorDiv and
// Mod round towards minus infinity as in Python; FloorDiv, CeilDiv and Mod by zero are undefined; booleans are the
// integers 0 and 1. Canonical forms: sums are flat, `constant + Σ coefficient·monomial`, ordered, products are expanded
// over sums; FloorDiv and Mod have multiples of the divisor taken out; `a > b` is `b < a`; CeilDiv(a, b) is FloorDiv(a
// + b - 1, b) for constant b.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/checked_vector.h"
#include "support/extension_api.h"

namespace coil::sym {

enum class Kind : std::uint8_t {
  Constant,
  Symbol,
  Add,
  Mul,
  FloorDiv,
  CeilDiv,
  Mod,
  Min,
  Max,
  Pow,
  Where,
  Eq,
  Ne,
  Lt,
  Le,
  And,
  Or,
  Not,
  BitAnd,
  BitOr,
  BitXor,
  ShiftLeft,
  ShiftRight,
  Float,  ///< a call of a function of floats (sym/floats.h): the FloatFunction, then its operands
};

/// What a symbol stands for. Backed sizes have a hint and may be guarded on; unbacked ones (`u0`) are only known at run
/// time; loop variables (`i0`, `r0`) belong to one loop nest and get their ranges from it.
enum class SymbolKind : std::uint8_t { Size, Unbacked, Loop };

struct Node;

/// A value of pointer size, cheap to copy; valid while the Context that its symbols came from lives. Plain integers
/// convert.
class COIL_EXTENSION_API Expr {
 public:
  Expr() = default;
  template <std::integral T>
  Expr(T value) : value_(static_cast<std::int64_t>(value)) {}  // NOLINT: sizes are written as plain numbers
  Expr(bool) = delete;
  explicit Expr(const Node* node) : node_(node) {}

  Kind kind() const;
  bool is_constant() const { return node_ == nullptr; }
  bool is_constant(std::int64_t v) const { return node_ == nullptr && value_ == v; }
  /// The integer it is, or nothing.
  std::optional<std::int64_t> constant() const { return node_ ? std::nullopt : std::optional(value_); }
  bool is_symbol() const { return kind() == Kind::Symbol; }
  std::string_view name() const;   ///< of a Symbol
  SymbolKind symbol_kind() const;  ///< of a Symbol
  /// Operands in canonical order. A Mul lists its factors (a constant coefficient first, when it is not 1); an Add its
  /// terms (the constant first, when it is not 0).
  std::span<const Expr> operands() const;
  const Node* node() const { return node_; }  ///< null for constants
  std::uint64_t hash() const;                 ///< structural: the same in every run

  /// Identity, which is structural equality; not a symbolic question (ask ShapeEnv).
  friend bool operator==(const Expr& a, const Expr& b) { return a.node_ == b.node_ && a.value_ == b.value_; }

 private:
  const Node* node_ = nullptr;
  std::int64_t value_ = 0;
};

/// Owns the nodes. One per compile, used by one thread at a time.
class COIL_EXTENSION_API Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  /// The symbol of this name; made on first use. Asking again with another kind throws Error.
  Expr symbol(std::string_view name, SymbolKind kind);
  /// The symbol of this name if there is one.
  std::optional<Expr> find(std::string_view name) const;
  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

COIL_EXTENSION_API Expr operator+(Expr, Expr);
COIL_EXTENSION_API Expr operator-(Expr, Expr);
COIL_EXTENSION_API Expr operator-(Expr);
COIL_EXTENSION_API Expr operator*(Expr, Expr);
inline Expr& operator+=(Expr& a, Expr b) { return a = a + b; }
inline Expr& operator*=(Expr& a, Expr b) { return a = a * b; }
COIL_EXTENSION_API Expr floor_div(Expr, Expr);
COIL_EXTENSION_API Expr ceil_div(Expr, Expr);
COIL_EXTENSION_API Expr mod(Expr, Expr);
COIL_EXTENSION_API Expr min(Expr, Expr);
COIL_EXTENSION_API Expr max(Expr, Expr);
Expr pow(Expr base, Expr exponent);
Expr where(Expr condition, Expr yes, Expr no);
Expr eq(Expr, Expr);
Expr ne(Expr, Expr);
Expr lt(Expr, Expr);
Expr le(Expr, Expr);
inline Expr gt(Expr a, Expr b) { return lt(b, a); }
inline Expr ge(Expr a, Expr b) { return le(b, a); }
Expr logical_and(Expr, Expr);
Expr logical_or(Expr, Expr);
Expr logical_not(Expr);
Expr bit_and(Expr, Expr);
Expr bit_or(Expr, Expr);
Expr bit_xor(Expr, Expr);
Expr shift_left(Expr, Expr);
Expr shift_right(Expr, Expr);
/// Any kind over these operands, canonicalised: the inverse of `kind()` and `operands()`.
Expr make(Kind, std::span<const Expr> operands);

/// Product of sizes, 1 for none; sum likewise, 0 for none.
COIL_EXTENSION_API Expr product(std::span<const Expr>);
COIL_EXTENSION_API Expr sum(std::span<const Expr>);

/// `from[i]` (symbols) replaced by `to[i]`, everything at once; rebuilt canonically.
COIL_EXTENSION_API Expr substitute(Expr, std::span<const Expr> from, std::span<const Expr> to);
/// Every maximal sub-expression for which `f` gives a value replaced by it.
Expr rewrite(Expr, const std::function<std::optional<Expr>(Expr)>& f);
/// Symbols of an expression, each once, in order of name (natural order: s2 before s10).
COIL_EXTENSION_API std::vector<Expr> free_symbols(Expr);
COIL_EXTENSION_API bool contains(Expr, Expr symbol);
COIL_EXTENSION_API bool has_symbol_of(Expr, SymbolKind);
/// The value with each symbol given by `lookup`; throws Error on division by zero or overflow.
std::int64_t evaluate(Expr, const std::function<std::int64_t(Expr)>& lookup);
/// If `e` is `coefficient·symbol + rest` with neither part containing the symbol: the pair {coefficient, rest}.
struct Linear {
  Expr coefficient, rest;
};
std::optional<Linear> linear_in(Expr e, Expr symbol);
/// `a / b` where b divides a as a polynomial: 8*s0 by 4, s0*i0 + s0 by s0.
std::optional<Expr> divide_exact(Expr a, Expr b);
/// A total order that does not depend on addresses: constants, then symbols by name, then by structure.
bool before(Expr, Expr);

/// Sizes, strides, indices.
class Exprs : public CheckedVector<Expr> {
 public:
  using CheckedVector::CheckedVector;
};

}  // namespace coil::sym

template <>
struct std::hash<coil::sym::Expr> {
  std::size_t operator()(const coil::sym::Expr& e) const { return e.hash(); }
};
