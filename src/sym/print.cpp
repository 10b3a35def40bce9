#include "sym/print.h"

#include <algorithm>

#include "sym/node.h"

namespace coil::sym {

namespace {

/// How tightly an operator binds, in all languages.
enum Precedence { kChoice, kOr, kAnd, kRelation, kBits, kShift, kSum, kProduct, kPower, kAtom };

/// Languages that spell operators alike.
enum Family { kText, kPython, kC, kTriton };

/// What languages differ in beside their spelling.
struct Dialect {
  Family family;
  const char* wide_literal;          ///< what follows a constant of more than 32 bits
  const char *wide_cast, *wide_end;  ///< around what would else be computed in fewer than 64 bits; null where integers have no width
  const char *narrow_cast, *narrow_end;  ///< around truth values that are computed with in 32 bits; null where they are integers anyway
  const char *quotient, *remainder;  ///< of operands that are not negative
  bool casts_symbols;                ///< symbols have the width of their value, not of their type
};

constexpr Dialect kTextDialect = {kText, "", nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, false};
/// By Language.
constexpr Dialect kDialects[] = {
    {kC, "LL", "(long long)(", ")", nullptr, nullptr, "/", "%", false},
    {kC, "LL", "(long long)(", ")", nullptr, nullptr, "/", "%", false},
    {kC, "L", "(long)(", ")", nullptr, nullptr, "/", "%", false},
    {kTriton, "", "tl.cast(", ", tl.int64)", "tl.cast(", ", tl.int32)", "//", "%", true},
    {kPython, "", nullptr, nullptr, nullptr, nullptr, "//", "%", false},
};

/// An infix operator, or with kAtom a function.
struct Word {
  const char* text = nullptr;
  Precedence infix = kAtom;
};

struct Spelling {
  Kind kind;
  Word words[4];  ///< by Family
};

constexpr Spelling kSpellings[] = {
    {Kind::FloorDiv, {{"FloorDiv"}, {"//", kProduct}, {"coil_floordiv"}, {"coil_floordiv"}}},
    {Kind::CeilDiv, {{"CeilDiv"}, {}, {"coil_ceildiv"}, {"coil_ceildiv"}}},
    {Kind::Mod, {{"Mod"}, {"%", kProduct}, {"coil_mod"}, {"coil_mod"}}},
    {Kind::Min, {{"Min"}, {"min"}, {"coil_min"}, {"tl.minimum"}}},
    {Kind::Max, {{"Max"}, {"max"}, {"coil_max"}, {"tl.maximum"}}},
    {Kind::Pow, {{"**", kPower}, {"**", kPower}, {"coil_pow"}, {"coil_pow"}}},
    {Kind::Where, {{"Where"}, {}, {}, {"tl.where"}}},
    {Kind::Eq, {{"Eq"}, {"==", kRelation}, {"==", kRelation}, {"==", kRelation}}},
    {Kind::Ne, {{"Ne"}, {"!=", kRelation}, {"!=", kRelation}, {"!=", kRelation}}},
    {Kind::Lt, {{"<", kRelation}, {"<", kRelation}, {"<", kRelation}, {"<", kRelation}}},
    {Kind::Le, {{"<=", kRelation}, {"<=", kRelation}, {"<=", kRelation}, {"<=", kRelation}}},
    {Kind::And, {{"And"}, {"and", kAnd}, {"&&", kAnd}, {"&", kBits}}},
    {Kind::Or, {{"Or"}, {"or", kOr}, {"||", kOr}, {"|", kBits}}},
    {Kind::BitAnd, {{"BitAnd"}, {"&", kBits}, {"&", kBits}, {"&", kBits}}},
    {Kind::BitOr, {{"BitOr"}, {"|", kBits}, {"|", kBits}, {"|", kBits}}},
    {Kind::BitXor, {{"BitXor"}, {"^", kBits}, {"^", kBits}, {"^", kBits}}},
    {Kind::ShiftLeft, {{"ShiftLeft"}, {"<<", kShift}, {"<<", kShift}, {"<<", kShift}}},
    {Kind::ShiftRight, {{"ShiftRight"}, {">>", kShift}, {"coil_shr"}, {"coil_shr"}}},
};

const Word& word_of(Kind kind, Family family) {
  for (const Spelling& s : kSpellings)
    if (s.kind == kind) return s.words[family];
  COIL_CHECK(false, "an operator without a spelling");
}

/// Whether nothing in it has a symbol's width: constants, truth values and what is computed of them.
bool is_narrow(Expr e) {
  if (e.is_constant() || is_boolean(e)) return true;
  if (e.is_symbol()) return false;
  const auto operands = e.operands().subspan(e.kind() == Kind::Where);
  return std::ranges::all_of(operands, is_narrow);
}

class Printer {
 public:
  Printer(const Dialect& dialect, const std::function<std::string(Expr)>* name, const std::function<bool(Expr)>* nonnegative, IntWidth width)
      : dialect_(dialect), name_(name), nonnegative_(nonnegative), width_(width) {}

  /// Parenthesised when it binds no tighter than `outer`.
  void print(Expr e, int outer) {
    if (auto c = e.constant()) return literal(*c, outer);
    switch (e.kind()) {
      case Kind::Symbol: return symbol(e);
      case Kind::Add: return group(kSum, outer, [&] { sum(e); });
      case Kind::Mul: return group(kProduct, outer, [&] { product(e); });
      case Kind::Where:
        if (dialect_.family == kPython || dialect_.family == kC) return choice(e, outer);
        break;
      case Kind::CeilDiv:
        if (dialect_.family != kPython) break;
        return group(kProduct, outer, [&] {  // -(-a // b)
          out += "-(";
          print(-e.operands()[0], kProduct - 1);
          out += " // ";
          print(e.operands()[1], kProduct);
          out += ")";
        });
      default: break;
    }
    if (nonnegative_ && (e.kind() == Kind::FloorDiv || e.kind() == Kind::Mod) && plain_division(e))
      return infix(e, e.kind() == Kind::Mod ? dialect_.remainder : dialect_.quotient, kProduct, outer);
    const Word& word = word_of(e.kind(), dialect_.family);
    if (word.infix != kAtom) return infix(e, word.text, word.infix, outer);
    call(e, word.text);
  }

  std::string out;

 private:
  template <class F>
  void group(int inner, int outer, F&& body) {
    if (inner <= outer) out += "(";
    body();
    if (inner <= outer) out += ")";
  }

  bool has_width() const { return dialect_.wide_cast != nullptr; }

  void symbol(Expr e) {
    const std::string text = name_ ? (*name_)(e) : std::string(e.name());
    const bool cast = dialect_.casts_symbols && width_ == IntWidth::Bits64;
    out += cast ? dialect_.wide_cast + text + dialect_.wide_end : text;
  }

  void literal(std::int64_t v, int outer, bool wide = false) {
    constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
    if (v != static_cast<std::int32_t>(v)) {
      if (has_width() && width_ == IntWidth::Bits32) fail("the constant {} does not fit into 32 bits", v);
      wide = true;
    }
    const char* suffix = wide && width_ == IntWidth::Bits64 ? dialect_.wide_literal : "";
    if (v == kMin && dialect_.family == kC) {
      out += fmt::format("(-9223372036854775807{0} - 1)", suffix);
      return;
    }
    group(v < 0 ? kSum : kAtom + 1, outer, [&] { fmt::format_to(std::back_inserter(out), "{}{}", v, suffix); });
  }

  /// What is computed with: as wide as the computation, be it a constant or a truth value.
  void number(Expr e, int outer) {
    if (auto c = e.constant()) return literal(*c, outer, true);
    const bool wide = width_ == IntWidth::Bits64;
    const char* cast = wide ? dialect_.wide_cast : dialect_.narrow_cast;
    if (!cast || !is_narrow(e)) return print(e, outer);
    out += cast;
    print(e, -1);
    out += wide ? dialect_.wide_end : dialect_.narrow_end;
  }

  /// (Constants take the width of what stands beside them, and products widen their factors.)
  void summand(Expr t, int outer) { t.is_constant() || t.kind() == Kind::Mul ? print(t, outer) : number(t, outer); }

  void sum(Expr e) {
    auto terms = e.operands();
    const bool constant_first = terms[0].is_constant();
    bool first = true;
    auto term = [&](Expr t) {
      bool negative = t.is_constant() ? *t.constant() < 0 : split(t).coefficient < 0;
      bool can_negate = t != Expr(kSmallest) && (t.is_constant() || split(t).coefficient != kSmallest);
      if (!first && negative && can_negate) {
        out += " - ";
        summand(-t, kSum);
      } else {
        if (!first) out += " + ";
        summand(t, first ? kSum - 1 : kSum);
      }
      first = false;
    };
    for (Expr t : terms.subspan(constant_first)) term(t);
    if (constant_first) term(terms[0]);
  }

  void product(Expr e) {
    Term t = split(e);
    if (t.coefficient == -1) {
      out += "-";
    } else if (t.coefficient != 1) {
      literal(t.coefficient, kSum - 1);
      out += "*";
    }
    auto parts = factors(t.monomial);
    for (std::size_t i = 0; i < parts.size();) {
      if (i) out += "*";
      std::size_t n = 1;
      while (power_is_infix() && i + n < parts.size() && parts[i + n] == parts[i] && n < 64) ++n;
      if (parts[i].kind() == Kind::Add) n = 1;
      number(parts[i], n > 1 ? kPower : kProduct);
      if (n > 1) fmt::format_to(std::back_inserter(out), "**{}", n);
      i += n;
    }
  }

  bool power_is_infix() const { return word_of(Kind::Pow, dialect_.family).infix != kAtom; }

  void infix(Expr e, const char* op, int precedence, int outer) {
    if (dialect_.family == kC && precedence == kBits && outer >= 0) outer = kBits;  // in C they bind less than relations
    const bool computes = has_width() && (precedence == kShift || precedence == kProduct);
    group(precedence, outer, [&] {
      bool first = true;
      for (Expr o : e.operands()) {
        if (!first) out += precedence == kPower ? op : fmt::format(" {} ", op);
        const int tightness = precedence == kProduct && first ? kProduct - 1 : precedence;  // division associates to the left
        computes && (!o.is_constant() || (first && precedence == kShift)) ? number(o, tightness) : print(o, tightness);
        first = false;
      }
    });
  }

  void call(Expr e, const char* function) {
    auto o = e.operands();
    // Min and Max of many are nested where functions take two.
    const bool extremum = e.kind() == Kind::Min || e.kind() == Kind::Max;
    const std::size_t pairs = has_width() && extremum && o.size() > 2 ? o.size() - 2 : 0;
    for (std::size_t i = 0; i <= pairs; ++i) out += fmt::format("{}(", function);
    for (std::size_t i = 0; i < o.size(); ++i) {
      if (i) out += ", ";
      if (e.kind() == Kind::Where) print(i == 0 && has_width() && !is_boolean(o[i]) ? ne(o[i], 0) : o[i], -1);
      else if (has_width() && (!o[i].is_constant() || e.kind() == Kind::Pow)) number(o[i], -1);
      else print(o[i], -1);
      if (pairs && i > 0 && i + 1 < o.size()) out += ")";
    }
    out += ")";
  }

  void choice(Expr e, int outer) {
    auto o = e.operands();
    group(kChoice, outer, [&] {
      const bool c = dialect_.family == kC;
      print(c ? o[0] : o[1], kChoice);
      out += c ? " ? " : " if ";
      print(c ? o[1] : o[0], kChoice);
      out += c ? " : " : " else ";
      print(o[2], kChoice);
    });
  }

  bool plain_division(Expr e) const {
    auto known = [&](Expr x) { return x.is_constant() ? *x.constant() >= 0 : (*nonnegative_)(x); };
    return nonnegative_ && known(e.operands()[0]) && known(e.operands()[1]);
  }

  static constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();
  const Dialect& dialect_;
  const std::function<std::string(Expr)>* name_;
  const std::function<bool(Expr)>* nonnegative_;
  IntWidth width_;
};

}  // namespace

std::string to_string(Expr e) {
  Printer p(kTextDialect, nullptr, nullptr, IntWidth::Bits64);
  p.print(e, -1);
  return std::move(p.out);
}

std::string to_code(Language language, Expr e, const std::function<std::string(Expr)>& name, const std::function<bool(Expr)>& nonnegative, IntWidth width) {
  Printer p(kDialects[static_cast<std::size_t>(language)], &name, nonnegative ? &nonnegative : nullptr, width);
  p.print(e, -1);
  return std::move(p.out);
}

std::string_view code_helpers(Language language) {
  if (language == Language::Python) return "";
  if (language == Language::Triton)
    return R"(@triton.jit
def coil_floordiv(a, b):
    q = a // b
    return q - tl.where((a % b != 0) & ((a < 0) != (b < 0)), 1, 0)


@triton.jit
def coil_ceildiv(a, b):
    q = a // b
    return q + tl.where((a % b != 0) & ((a < 0) == (b < 0)), 1, 0)


@triton.jit
def coil_mod(a, b):
    r = a % b
    return r + tl.where((r != 0) & ((r < 0) != (b < 0)), b, 0)


@triton.jit
def coil_pow(a, b):
    r = a - a + b - b + 1
    while b > 0:
        r = r * a
        b = b - 1
    return r


@triton.jit
def coil_shr(a, b):
    return tl.cast(a, tl.int64) >> tl.minimum(b, 63)
)";
  return R"(template <class A, class B> static inline constexpr auto coil_floordiv(A a, B b) { auto q = a / b; return q - ((a % b != 0) && ((a < 0) != (b < 0))); }
template <class A, class B> static inline constexpr auto coil_ceildiv(A a, B b) { auto q = a / b; return q + ((a % b != 0) && ((a < 0) == (b < 0))); }
template <class A, class B> static inline constexpr auto coil_mod(A a, B b) { auto r = a % b; return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }
template <class A, class B> static inline constexpr auto coil_min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline constexpr auto coil_max(A a, B b) { return a < b ? b : a; }
template <class A, class B> static inline constexpr auto coil_pow(A a, B b) { decltype(a * b) r = 1; for (B i = 0; i < b; ++i) r *= a; return r; }
template <class A, class B> static inline constexpr auto coil_shr(A a, B b) { return a >> coil_min(b, B(8 * sizeof(A) - 1)); }
)";
}

}  // namespace coil::sym
