#include "frontend/guards.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <vector>

#include "frontend/sympy.h"
#include "support/error.h"

namespace coil::frontend {
namespace {

using sym::Expr;

constexpr int kDeepestGuard = 200;
constexpr std::size_t kLongestGuard = 1 << 14;  // characters: a term is copied into each that it is part of

/// Reads a condition in Python, and says it as torch writes symbolic sizes elsewhere (frontend/sympy.h).
class Translator {
 public:
  Translator(std::string_view text, const std::function<std::optional<Expr>(const GuardOperand&)>& find)
      : text_(text), find_(find) {}

  Expr condition() {
    if (text_.size() > kLongestGuard) unknown();
    const Term whole = any();
    spaces();
    if (at_ != text_.size()) unknown();
    return parse_srepr(whole.text, [&](std::string_view name) {
      return operands_.at(static_cast<std::size_t>(std::stoul(std::string(name))));
    });
  }

 private:
  struct Term {
    std::string text;
    bool is_float = false;
  };
  /// An operator between two terms, and the function that it is.
  struct Operator {
    std::string_view sign, function;
  };

  [[noreturn]] void unknown() const { fail("guard `{}`: not understood at position {}", text_, at_); }

  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(std::string_view sign) {
    spaces();
    if (!text_.substr(at_).starts_with(sign)) return false;
    const bool is_word = std::isalpha(static_cast<unsigned char>(sign.back())) != 0;
    const std::size_t end = at_ + sign.size();
    if (is_word && end < text_.size() && is_of_name(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view sign) {
    if (!accept(sign)) unknown();
  }
  static bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  std::string_view name() {
    spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    if (at_ == start) unknown();
    return text_.substr(start, at_ - start);
  }

  static Term call(std::string_view function, const std::vector<Term>& terms, bool is_float = false) {
    std::string text(function);
    char before = '(';
    for (const Term& t : terms) {
      text += before;
      text += t.text;
      before = ',';
    }
    return {text + ")", is_float};
  }
  static Term as_float(const Term& t) { return t.is_float ? t : call("ToFloat", {t}, true); }

  template <std::size_t N>
  const Operator* accept_one(const std::array<Operator, N>& operators) {
    for (const Operator& o : operators)
      if (accept(o.sign)) return &o;
    return nullptr;
  }
  /// `next (sign next)*`, from left to right.
  template <std::size_t N>
  Term row(const std::array<Operator, N>& operators, Term (Translator::*next)()) {
    Term left = (this->*next)();
    while (const Operator* o = accept_one(operators)) {
      const Term right = (this->*next)();
      left = call(o->function, {left, right}, left.is_float || right.is_float);
    }
    return left;
  }

  Term any() {
    if (++depth_ > kDeepestGuard) unknown();
    Term first = disjunction();
    if (accept("if")) {
      const Term condition = disjunction();
      expect("else");
      const Term other = any();
      first = call("Where", {condition, first, other}, first.is_float || other.is_float);
    }
    --depth_;
    return first;
  }
  Term disjunction() { return row(std::array<Operator, 1>{{{"or", "Or"}}}, &Translator::conjunction); }
  Term conjunction() { return row(std::array<Operator, 1>{{{"and", "And"}}}, &Translator::negation); }
  Term negation() {
    bool negated = false;
    while (accept("not")) negated = !negated;
    const Term term = comparison();
    return negated ? call("Not", {term}) : term;
  }
  Term comparison() {
    static constexpr std::array<Operator, 6> kRelations{{{"==", "Equality"},
                                                         {"!=", "Unequality"},
                                                         {"<=", "LessThan"},
                                                         {">=", "GreaterThan"},
                                                         {"<", "StrictLessThan"},
                                                         {">", "StrictGreaterThan"}}};
    const Term left = bits();
    const Operator* o = accept_one(kRelations);
    return o ? call(o->function, {left, bits()}) : left;
  }
  Term bits() { return row(std::array<Operator, 1>{{{"|", "BitwiseFn_bitwise_or"}}}, &Translator::exclusive_bits); }
  Term exclusive_bits() {
    return row(std::array<Operator, 1>{{{"^", "BitwiseFn_bitwise_xor"}}}, &Translator::common_bits);
  }
  Term common_bits() { return row(std::array<Operator, 1>{{{"&", "BitwiseFn_bitwise_and"}}}, &Translator::sum); }
  Term sum() {
    Term left = product();
    while (true) {
      const bool minus = accept("-");
      if (!minus && !accept("+")) return left;
      Term right = product();
      if (minus) right = negative(right);
      left = call("Add", {left, right}, left.is_float || right.is_float);
    }
  }
  static Term negative(const Term& t) { return call("Mul", {{"Integer(-1)"}, t}, t.is_float); }
  Term product() {
    Term left = factor();
    while (true) {
      if (accept("//"))
        left = call("FloorDiv", {left, factor()});
      else if (accept("/"))
        left = quotient(left, factor());
      else if (accept("%"))
        left = call("PythonMod", {left, factor()}, left.is_float);
      else if (accept("*"))
        left = times(left, factor());
      else
        return left;
    }
  }
  static Term times(const Term& a, const Term& b) { return call("Mul", {a, b}, a.is_float || b.is_float); }
  static Term quotient(const Term& a, const Term& b) {
    if (!a.is_float && !b.is_float) return call("IntTrueDiv", {a, b}, true);
    return call("FloatTrueDiv", {as_float(a), as_float(b)}, true);
  }
  Term factor() {
    bool is_negative = false;
    while (accept("-")) is_negative = !is_negative;
    const Term term = power();
    return is_negative ? negative(term) : term;
  }
  Term power() {
    const Term base = atom();
    if (!accept("**")) return base;
    if (++depth_ > kDeepestGuard) unknown();
    const Term exponent = factor();
    --depth_;
    if (!base.is_float && !exponent.is_float) return call("PowByNatural", {base, exponent});
    return call("FloatPow", {as_float(base), as_float(exponent)}, true);
  }

  Term atom() {
    spaces();
    if (accept("(")) {
      Term inside = any();
      expect(")");
      return inside;
    }
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.'))
      return number();
    if (accept("True")) return {"true"};
    if (accept("False")) return {"false"};
    return text_.substr(at_).starts_with("L[") ? operand() : function();
  }
  Term number() {
    const std::size_t start = at_;
    while (at_ < text_.size() && (is_of_name(text_[at_]) || text_[at_] == '.' ||
                                  ((text_[at_] == '-' || text_[at_] == '+') && text_[at_ - 1] == 'e')))
      ++at_;
    const std::string_view digits = text_.substr(start, at_ - start);
    if (digits.find_first_of(".e") == std::string_view::npos) return {fmt::format("Integer({})", digits)};
    return {fmt::format("Float('{}')", digits), true};
  }

  std::vector<Term> arguments() {
    expect("(");
    std::vector<Term> terms;
    do terms.push_back(any());
    while (accept(","));
    expect(")");
    return terms;
  }
  Term function() {
    std::string_view called = name();
    while (accept(".")) called = name();  // of `math` and `torch`
    const std::vector<Term> terms = arguments();
    const Term& x = terms.front();
    if (called == "max" || called == "min") {
      bool is_float = false;
      for (const Term& t : terms) is_float = is_float || t.is_float;
      return call(called == "max" ? "Max" : "Min", terms, is_float);
    }
    if (terms.size() != 1) unknown();
    if (called == "sym_float") return as_float(x);
    if (called == "abs") return call("Abs", terms, x.is_float);
    if (const auto rounding = whole_number(called)) return x.is_float ? call(*rounding, terms) : x;
    return call("OpaqueUnaryFn_" + std::string(called == "_sym_sqrt" ? "sqrt" : called), {as_float(x)}, true);
  }
  static std::optional<std::string_view> whole_number(std::string_view called) {
    if (called == "ceil") return "CeilToInt";
    if (called == "floor") return "FloorToInt";
    if (called == "trunc") return "TruncToInt";
    if (called == "round") return "RoundToInt";
    return std::nullopt;
  }

  /// `L['named']['a'][0].size()[2]`.
  Term operand() {
    accept("L");
    GuardOperand o;
    while (true) {
      if (accept("[")) {
        if (!o.input.empty()) o.input += '_';
        o.input += key();
        expect("]");
      } else if (!accept(".")) {
        return found(o);
      } else if (const std::string_view member = name(); accept("(")) {
        expect(")");
        if (member != "size" && member != "stride") unknown();
        o.kind = member == "size" ? GuardOperand::Kind::Size : GuardOperand::Kind::Stride;
        expect("[");
        o.dim = std::stoul(key());
        expect("]");
        return found(o);
      } else {
        o.input += "_" + std::string(member);
      }
    }
  }
  std::string key() {
    if (!accept("'")) return std::string(name());
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) unknown();
    const std::string text(text_.substr(at_, end - at_));
    at_ = end + 1;
    return text;
  }
  Term found(const GuardOperand& o) {
    const std::optional<Expr> e = find_(o);
    if (!e) unknown();
    operands_.push_back(*e);
    return {fmt::format("Symbol('{}')", operands_.size() - 1)};
  }

  std::string_view text_;
  const std::function<std::optional<Expr>(const GuardOperand&)>& find_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<Expr> operands_;
};

}  // namespace

std::optional<Expr> parse_guard(std::string_view text,
                                const std::function<std::optional<Expr>(const GuardOperand&)>& find) {
  try {
    return Translator(text, find).condition();
  } catch (const Error&) {
    return std::nullopt;
  } catch (const std::logic_error&) {  // a number that std::stoul cannot read
    return std::nullopt;
  }
}

bool only_tells_layouts(Expr condition) {
  const auto operands = condition.operands();
  // Relations of floats are calls that are not 0.
  if (condition.kind() == sym::Kind::Ne) return operands[0].kind() != sym::Kind::Float;
  return (condition.kind() == sym::Kind::Le && operands[0].is_constant(2)) ||
         (condition.kind() == sym::Kind::Lt && operands[0].is_constant(1));
}

std::string readable_guard(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.substr(at).starts_with("L['") ? text.find("']", at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += text[at++];
      continue;
    }
    out += text.substr(at + 3, end - at - 3);
    at = end + 2;
  }
  return out;
}

}  // namespace coil::frontend
