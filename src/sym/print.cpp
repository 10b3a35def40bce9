#include "sym/print.h"

#include "sym/node.h"

namespace coil::sym {

namespace {

enum class Language { Text, Cpp, Python };

/// How tightly an operator binds, in all three languages.
enum Precedence { kChoice, kOr, kAnd, kRelation, kBits, kShift, kSum, kProduct, kPower, kAtom };

struct Spelling {
  Kind kind;
  const char* text;  ///< a function
  const char* cpp;   ///< a function, or an infix operator where `cpp_infix` says so
  const char* python;
  Precedence infix;  ///< of the infix operator; kAtom for a function
  bool text_infix, cpp_infix, python_infix;
};

constexpr Spelling kSpellings[] = {
    {Kind::FloorDiv, "FloorDiv", "coil_floordiv", "//", kProduct, false, false, true},
    {Kind::CeilDiv, "CeilDiv", "coil_ceildiv", nullptr, kAtom, false, false, false},
    {Kind::Mod, "Mod", "coil_mod", "%", kProduct, false, false, true},
    {Kind::Min, "Min", "coil_min", "min", kAtom, false, false, false},
    {Kind::Max, "Max", "coil_max", "max", kAtom, false, false, false},
    {Kind::Pow, "**", "coil_pow", "**", kPower, true, false, true},
    {Kind::Where, "Where", nullptr, nullptr, kAtom, false, false, false},
    {Kind::Eq, "Eq", "==", "==", kRelation, false, true, true},
    {Kind::Ne, "Ne", "!=", "!=", kRelation, false, true, true},
    {Kind::Lt, "<", "<", "<", kRelation, true, true, true},
    {Kind::Le, "<=", "<=", "<=", kRelation, true, true, true},
    {Kind::And, "And", "&&", "and", kAnd, false, true, true},
    {Kind::Or, "Or", "||", "or", kOr, false, true, true},
    {Kind::BitAnd, "BitAnd", "&", "&", kBits, false, true, true},
    {Kind::BitOr, "BitOr", "|", "|", kBits, false, true, true},
    {Kind::BitXor, "BitXor", "^", "^", kBits, false, true, true},
    {Kind::ShiftLeft, "ShiftLeft", "<<", "<<", kShift, false, true, true},
    {Kind::ShiftRight, "ShiftRight", ">>", ">>", kShift, false, true, true},
};

const Spelling& spelling(Kind kind) {
  for (const Spelling& s : kSpellings)
    if (s.kind == kind) return s;
  COIL_CHECK(false, "an operator without a spelling");
}

class Printer {
 public:
  Printer(Language language, const std::function<std::string(Expr)>* name, const std::function<bool(Expr)>* nonnegative, IntWidth width)
      : language_(language), name_(name), nonnegative_(nonnegative), width_(width) {}

  /// Parenthesised when it binds no tighter than `outer`.
  void print(Expr e, int outer) {
    if (auto c = e.constant()) return literal(*c, outer);
    switch (e.kind()) {
      case Kind::Symbol: out += name_ ? (*name_)(e) : std::string(e.name()); return;
      case Kind::Add: return group(kSum, outer, [&] { sum(e); });
      case Kind::Mul: return group(kProduct, outer, [&] { product(e); });
      case Kind::Where:
        if (language_ != Language::Text) return choice(e, outer);
        break;
      case Kind::CeilDiv:
        if (language_ != Language::Python) break;
        return group(kProduct, outer, [&] {  // -(-a // b)
          out += "-(";
          print(-e.operands()[0], kProduct - 1);
          out += " // ";
          print(e.operands()[1], kProduct);
          out += ")";
        });
      default: break;
    }
    const Spelling& s = spelling(e.kind());
    if (language_ == Language::Cpp && (e.kind() == Kind::FloorDiv || e.kind() == Kind::Mod) && plain_division(e))
      return infix(e, e.kind() == Kind::Mod ? "%" : "/", kProduct, outer);
    bool is_infix = language_ == Language::Text ? s.text_infix : language_ == Language::Cpp ? s.cpp_infix : s.python_infix;
    const char* word = language_ == Language::Text ? s.text : language_ == Language::Cpp ? s.cpp : s.python;
    if (is_infix) return infix(e, word, s.infix, outer);
    call(e, word);
  }

  std::string out;

 private:
  template <class F>
  void group(int inner, int outer, F&& body) {
    if (inner <= outer) out += "(";
    body();
    if (inner <= outer) out += ")";
  }

  void literal(std::int64_t v, int outer) {
    constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
    bool wide = v != static_cast<std::int32_t>(v);
    if (language_ == Language::Cpp && wide) {
      if (width_ == IntWidth::Bits32) fail("the constant {} does not fit into 32 bits", v);
      if (v == kMin) {
        out += "(-9223372036854775807LL - 1)";
        return;
      }
    }
    group(v < 0 ? kSum : kAtom + 1, outer, [&] { fmt::format_to(std::back_inserter(out), "{}{}", v, language_ == Language::Cpp && wide ? "LL" : ""); });
  }

  void sum(Expr e) {
    auto terms = e.operands();
    const bool constant_first = terms[0].is_constant();
    bool first = true;
    auto term = [&](Expr t) {
      bool negative = t.is_constant() ? *t.constant() < 0 : split(t).coefficient < 0;
      bool can_negate = t != Expr(kSmallest) && (t.is_constant() || split(t).coefficient != kSmallest);
      if (!first && negative && can_negate) {
        out += " - ";
        print(-t, kSum);
      } else {
        if (!first) out += " + ";
        print(t, first ? kSum - 1 : kSum);
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
      while (language_ != Language::Cpp && i + n < parts.size() && parts[i + n] == parts[i] && n < 64) ++n;
      if (parts[i].kind() == Kind::Add) n = 1;
      print(parts[i], n > 1 ? kPower : kProduct);
      if (n > 1) fmt::format_to(std::back_inserter(out), "**{}", n);
      i += n;
    }
  }

  void infix(Expr e, const char* op, int precedence, int outer) {
    if (language_ == Language::Cpp && precedence == kBits && outer >= 0) outer = kBits;  // in C++ they bind less than relations
    group(precedence, outer, [&] {
      bool first = true;
      for (Expr o : e.operands()) {
        if (!first) out += precedence == kPower ? op : fmt::format(" {} ", op);
        print(o, precedence == kProduct && first ? kProduct - 1 : precedence);  // division associates to the left
        first = false;
      }
    });
  }

  void call(Expr e, const char* function) {
    auto o = e.operands();
    // Min and Max of many are nested in C++, whose helpers take two.
    std::size_t pairs = language_ == Language::Cpp && o.size() > 2 ? o.size() - 2 : 0;
    for (std::size_t i = 0; i <= pairs; ++i) out += fmt::format("{}(", function);
    for (std::size_t i = 0; i < o.size(); ++i) {
      if (i) out += ", ";
      print(o[i], -1);
      if (pairs && i > 0 && i + 1 < o.size()) out += ")";
    }
    out += ")";
  }

  void choice(Expr e, int outer) {
    auto o = e.operands();
    group(kChoice, outer, [&] {
      const bool cpp = language_ == Language::Cpp;
      print(cpp ? o[0] : o[1], kChoice);
      out += cpp ? " ? " : " if ";
      print(cpp ? o[1] : o[0], kChoice);
      out += cpp ? " : " : " else ";
      print(o[2], kChoice);
    });
  }

  bool plain_division(Expr e) const {
    auto known = [&](Expr x) { return x.is_constant() ? *x.constant() >= 0 : (*nonnegative_)(x); };
    return nonnegative_ && known(e.operands()[0]) && known(e.operands()[1]);
  }

  static constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();
  Language language_;
  const std::function<std::string(Expr)>* name_;
  const std::function<bool(Expr)>* nonnegative_;
  IntWidth width_;
};

}  // namespace

std::string to_string(Expr e) {
  Printer p(Language::Text, nullptr, nullptr, IntWidth::Bits64);
  p.print(e, -1);
  return std::move(p.out);
}

std::string to_cpp(Expr e, const std::function<std::string(Expr)>& name, const std::function<bool(Expr)>& nonnegative, IntWidth width) {
  Printer p(Language::Cpp, &name, &nonnegative, width);
  p.print(e, -1);
  return std::move(p.out);
}

std::string to_python(Expr e, const std::function<std::string(Expr)>& name) {
  Printer p(Language::Python, &name, nullptr, IntWidth::Bits64);
  p.print(e, -1);
  return std::move(p.out);
}

std::string_view cpp_helpers() {
  return R"(template <class A, class B> static inline constexpr auto coil_floordiv(A a, B b) { auto q = a / b; return q - ((a % b != 0) && ((a < 0) != (b < 0))); }
template <class A, class B> static inline constexpr auto coil_ceildiv(A a, B b) { auto q = a / b; return q + ((a % b != 0) && ((a < 0) == (b < 0))); }
template <class A, class B> static inline constexpr auto coil_mod(A a, B b) { auto r = a % b; return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }
template <class A, class B> static inline constexpr auto coil_min(A a, B b) { return a < b ? a : b; }
template <class A, class B> static inline constexpr auto coil_max(A a, B b) { return a < b ? b : a; }
template <class A, class B> static inline constexpr A coil_pow(A a, B b) { A r = 1; for (B i = 0; i < b; ++i) r *= a; return r; }
)";
}

}  // namespace coil::sym
