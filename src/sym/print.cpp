#include "sym/print.h"

#include <algorithm>
#include <cmath>

#include "device/pieces.h"
#include "sym/floats.h"
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
  /// What follows a constant of more than 32 bits.
  const char* wide_literal;
  /// Around what would else be computed in fewer than 64 bits; null where integers have no width.
  const char* wide_cast;
  const char* wide_end;
  /// Around truth values that are computed with in 32 bits; null where they are integers anyway.
  const char* narrow_cast;
  const char* narrow_end;
  /// The quotient and the remainder of operands that are not negative.
  const char* quotient;
  const char* remainder;
  /// Symbols have the width of their value, not of their type.
  bool casts_symbols;
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

/// A function of floats in the languages that compute sizes; {0} and {1} are its operands.
struct FloatSpelling {
  FloatFunction function;
  std::string_view cpp, python;
};

constexpr FloatSpelling kFloatSpellings[] = {
    {FloatFunction::FromInt, "to_float({0})", "float({0})"},
    {FloatFunction::IntTrueDiv, "(to_float({0}) / to_float({1}))", "({0} / {1})"},
    {FloatFunction::Add, "({0} + {1})", "({0} + {1})"},
    {FloatFunction::Mul, "({0} * {1})", "({0} * {1})"},
    {FloatFunction::Div, "({0} / {1})", "({0} / {1})"},
    {FloatFunction::Pow, "std::pow({0}, {1})", "({0} ** {1})"},
    {FloatFunction::Mod, "float_remainder({0}, {1})", "({0} % {1})"},
    {FloatFunction::Min, "std::min({0}, {1})", "min({0}, {1})"},
    {FloatFunction::Max, "std::max({0}, {1})", "max({0}, {1})"},
    {FloatFunction::Abs, "std::fabs({0})", "abs({0})"},
    {FloatFunction::Floor, "std::floor({0})", "float(math.floor({0}))"},
    {FloatFunction::Sqrt, "std::sqrt({0})", "math.sqrt({0})"},
    {FloatFunction::Exp, "std::exp({0})", "math.exp({0})"},
    {FloatFunction::Log, "std::log({0})", "math.log({0})"},
    {FloatFunction::Log2, "std::log2({0})", "math.log2({0})"},
    {FloatFunction::Sin, "std::sin({0})", "math.sin({0})"},
    {FloatFunction::Cos, "std::cos({0})", "math.cos({0})"},
    {FloatFunction::Tan, "std::tan({0})", "math.tan({0})"},
    {FloatFunction::Asin, "std::asin({0})", "math.asin({0})"},
    {FloatFunction::Acos, "std::acos({0})", "math.acos({0})"},
    {FloatFunction::Atan, "std::atan({0})", "math.atan({0})"},
    {FloatFunction::Sinh, "std::sinh({0})", "math.sinh({0})"},
    {FloatFunction::Cosh, "std::cosh({0})", "math.cosh({0})"},
    {FloatFunction::Tanh, "std::tanh({0})", "math.tanh({0})"},
    {FloatFunction::TruncToInt, "to_size(std::trunc({0}))", "math.trunc({0})"},
    {FloatFunction::FloorToInt, "to_size(std::floor({0}))", "math.floor({0})"},
    {FloatFunction::CeilToInt, "to_size(std::ceil({0}))", "math.ceil({0})"},
    {FloatFunction::RoundToInt, "to_size(std::nearbyint({0}))", "round({0})"},
    {FloatFunction::Eq, "Size({0} == {1})", "({0} == {1})"},
    {FloatFunction::Ne, "Size({0} != {1})", "({0} != {1})"},
    {FloatFunction::Lt, "Size({0} < {1})", "({0} < {1})"},
    {FloatFunction::Le, "Size({0} <= {1})", "({0} <= {1})"},
    {FloatFunction::RoundDecimal, "coil_round_decimal({0}, int64_t({1}))", "round({0}, {1})"},
    {FloatFunction::OfBits, "float_of_bits({0})", "float_of_bits({0})"},
    {FloatFunction::ToBits, "bits_of_float({0})", "bits_of_float({0})"},
};
static_assert(std::size(kFloatSpellings) == kFloatFunctions);

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
  using Given = std::function<std::optional<std::string>(Expr)>;
  Printer(const Dialect& dialect, const std::function<std::string(Expr)>* name,
          const std::function<bool(Expr)>* nonnegative, IntWidth width, const Given* given = nullptr)
      : dialect_(dialect), name_(name), nonnegative_(nonnegative), width_(width), given_(given) {}

  /// Parenthesised when it binds no tighter than `outer`.
  void print(Expr e, int outer) {
    if (auto c = e.constant()) return literal(*c, outer);
    if (given_)
      if (auto text = (*given_)(e)) return void(out += *text);
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
      case Kind::Float:
        if (dialect_.family == kText) return float_call_text(e);
        if (dialect_.family != kPython) fail("{} is computed before a kernel runs, not in it", to_string(e));
        out += float_code(Language::Python, e, [&](Expr x) {
          Printer inner(dialect_, name_, nonnegative_, width_);
          inner.print(x, kProduct);
          return std::move(inner.out);
        });
        return;
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

  void float_call_text(Expr e) {
    const FloatSignature& s = signature_of(float_function(e));
    out += s.name;
    out += "(";
    const auto o = float_operands(e);
    for (std::size_t i = 0; i < o.size(); ++i) {
      if (i) out += ", ";
      if (s.takes[i] == 'f' && o[i].is_constant())
        out += float_text(float_of_bits(*o[i].constant()));
      else
        print(o[i], -1);
    }
    out += ")";
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
    if (dialect_.family == kC && precedence == kBits && outer >= 0)
      outer = kBits;  // in C they bind less than relations
    const bool computes = has_width() && (precedence == kShift || precedence == kProduct);
    group(precedence, outer, [&] {
      bool first = true;
      for (Expr o : e.operands()) {
        if (!first) out += precedence == kPower ? op : fmt::format(" {} ", op);
        // Division associates to the left.
        const int tightness = precedence == kProduct && first ? kProduct - 1 : precedence;
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
      if (e.kind() == Kind::Where)
        print(i == 0 && has_width() && !is_boolean(o[i]) ? ne(o[i], 0) : o[i], -1);
      else if (has_width() && (!o[i].is_constant() || e.kind() == Kind::Pow))
        number(o[i], -1);
      else
        print(o[i], -1);
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
  const Given* given_;
};

}  // namespace

std::string to_string(Expr e) {
  Printer p(kTextDialect, nullptr, nullptr, IntWidth::Bits64);
  p.print(e, -1);
  return std::move(p.out);
}

std::string float_to_string(Expr e) {
  return e.is_constant() ? float_text(float_of_bits(*e.constant())) : to_string(e);
}

std::string float_code(Language language, Expr call, const std::function<std::string(Expr)>& integer) {
  if (language != Language::Cpp && language != Language::Python)
    fail("{} is computed before a kernel runs, not in it", to_string(call));
  const bool cpp = language == Language::Cpp;
  const FloatFunction f = float_function(call);
  const FloatSignature& s = signature_of(f);
  std::string operands[2];
  for (std::size_t i = 0; const Expr& o : float_operands(call)) {
    std::string& text = operands[i];
    if (s.takes[i++] == 'i') {
      text = integer(o);
    } else if (auto bits = o.constant()) {
      const double x = float_of_bits(*bits);
      if (std::isfinite(x))
        text = cpp ? fmt::format("({:a})", x) : "(" + float_text(x) + ")";
      else
        text = fmt::format("{}({}{})", std::signbit(x) ? "-" : "", cpp ? "__builtin_" : "math.",
                           std::isnan(x) ? (cpp ? "nan(\"\")" : "nan")
                           : cpp         ? "inf()"
                                         : "inf");
    } else {
      text = float_code(language, o, integer);
    }
  }
  const auto* spelling = std::ranges::find(kFloatSpellings, f, &FloatSpelling::function);
  COIL_CHECK(spelling != std::end(kFloatSpellings), "a function without a spelling");
  return fmt::format(fmt::runtime(cpp ? spelling->cpp : spelling->python), operands[0], operands[1]);
}

std::string to_code(Language language, Expr e, const std::function<std::string(Expr)>& name,
                    const std::function<bool(Expr)>& nonnegative, IntWidth width,
                    const std::function<std::optional<std::string>(Expr)>& given) {
  Printer p(kDialects[static_cast<std::size_t>(language)], &name, nonnegative ? &nonnegative : nullptr, width,
            given ? &given : nullptr);
  p.print(e, -1);
  return std::move(p.out);
}

std::string code_helpers(Language language) {
  switch (language) {
    case Language::Python: return "";
    case Language::Triton: return device::whole("triton/sizes.py");
    default: return device::whole("shared/sizes.h");
  }
}

}  // namespace coil::sym
