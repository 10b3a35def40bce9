#include "frontend/sympy.h"

#include <algorithm>
#include <charconv>

#include "support/error.h"
#include "sym/floats.h"

namespace coil::frontend {

using sym::Expr;
using sym::Exprs;

namespace {

constexpr int kMaxNesting = 200;

/// What a term evaluates to. Fractions live only inside products and sums, where they must come out whole:
/// `Mul(Rational(1, 2), Symbol('s0'))` has denominator 2.
struct Fraction {
  Expr numerator;
  std::int64_t denominator = 1;
  bool is_float = false;  ///< `numerator` is an operand of functions of floats
};

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(std::string_view)>& define) : text_(text), define_(define) {}

  Expr parse() {
    const Expr e = whole(term(0));
    if (at_ != text_.size()) error("nothing more");
    return e;
  }
  Expr parse_float() {
    const Expr e = real(term(0));
    if (at_ != text_.size()) error("nothing more");
    return e;
  }

 private:
  [[noreturn]] void error(std::string_view wanted) const {
    fail("symbolic expression `{}`: expected {} at position {}", text_, wanted, at_);
  }
  [[noreturn]] void refuse(std::string_view function) const {
    fail("symbolic expression `{}`: {} is not supported", text_, function);
  }

  void spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool accept(char c) {
    spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) error(fmt::format("'{}'", c));
  }
  std::string_view word() {
    spaces();
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    if (at_ == start) error("a name");
    return text_.substr(start, at_ - start);
  }
  std::int64_t integer() {
    spaces();
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) error("an integer of 64 bits");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  std::string_view quoted() {
    expect('\'');
    const std::size_t end = std::min(text_.find('\'', at_), text_.size());
    const auto content = text_.substr(at_, end - at_);
    at_ = end;
    expect('\'');
    return content;
  }

  Expr symbol() {
    const auto name = quoted();
    while (accept(',')) {  // assumptions: integer=True, positive=True
      word();
      expect('=');
      word();
    }
    expect(')');
    return define_(name);
  }

  Expr whole(const Fraction& f) const {
    if (f.denominator != 1 || f.is_float) fail("symbolic expression `{}` is not known to be an integer", text_);
    return f.numerator;
  }
  static Expr real(const Fraction& f) {
    if (f.is_float) return f.numerator;
    return f.denominator == 1 ? sym::float_call(FloatFunction::FromInt, f.numerator)
                              : sym::float_call(FloatFunction::IntTrueDiv, f.numerator, f.denominator);
  }
  static bool any_float(const std::vector<Fraction>& list) {
    return std::any_of(list.begin(), list.end(), [](const Fraction& f) { return f.is_float; });
  }
  /// From left to right, in floats.
  static Fraction folded(FloatFunction f, const std::vector<Fraction>& list) {
    Expr result = real(list.front());
    for (std::size_t i = 1; i < list.size(); ++i) result = sym::float_call(f, result, real(list[i]));
    return {result, 1, true};
  }

  std::vector<Fraction> operands(int depth) {
    std::vector<Fraction> list;
    if (accept(')')) return list;
    do {
      spaces();
      if (text_.substr(at_).starts_with("evaluate=")) {  // `Add(…, evaluate=False)`
        at_ += std::string_view("evaluate=").size();
        word();
        continue;
      }
      list.push_back(term(depth + 1));
    } while (accept(','));
    expect(')');
    return list;
  }

  Fraction term(int depth) {
    if (depth > kMaxNesting) fail("a symbolic expression is nested deeper than {}", kMaxNesting);
    const auto name = word();
    if (name == "true" || name == "True") return {1};
    if (name == "false" || name == "False") return {0};
    expect('(');
    if (name == "Symbol") {
      const Expr s = symbol();
      if (s.is_symbol() && s.name().starts_with("zuf")) return {sym::float_call(FloatFunction::OfBits, s), 1, true};
      return {s};
    }
    if (name == "Integer") {
      const std::int64_t value = integer();
      expect(')');
      return {value};
    }
    if (name == "Rational") {
      const std::int64_t numerator = integer();
      expect(',');
      const std::int64_t denominator = integer();
      expect(')');
      if (denominator <= 0) error("a positive denominator");
      return {numerator, denominator};
    }
    if (name == "Float") {
      const auto digits = quoted();
      double value = 0;
      const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (status != std::errc() || end != digits.data() + digits.size()) error("a float");
      while (accept(',')) {  // precision=53
        word();
        expect('=');
        word();
      }
      expect(')');
      return {sym::float_constant(value), 1, true};
    }
    if (name == "Piecewise") return {piecewise(depth)};
    const auto list = operands(depth);
    if (const auto f = float_function_named(name)) return float_call(*f, list);
    if (any_float(list)) return over_floats(name, list);
    if (name == "Mul" || name == "Add") return name == "Mul" ? product(list) : sum(list);
    Exprs e;
    for (const Fraction& f : list) e.push_back(whole(f));
    return {apply(name, e)};
  }

  /// `ExprCondPair(value, condition), …)`: the value beside the first condition that holds; the last condition always
  /// does.
  Expr piecewise(int depth) {
    std::vector<std::pair<Expr, Expr>> pieces;
    do {
      if (word() != "ExprCondPair") error("ExprCondPair");
      expect('(');
      const Expr value = whole(term(depth + 1));
      expect(',');
      pieces.emplace_back(value, whole(term(depth + 1)));
      expect(')');
    } while (accept(','));
    expect(')');
    if (!pieces.back().second.is_constant(1)) refuse("a Piecewise without a value for what is left");
    Expr result = pieces.back().first;
    for (std::size_t i = pieces.size() - 1; i-- > 0;) result = sym::where(pieces[i].second, pieces[i].first, result);
    return result;
  }

  Fraction float_call(FloatFunction f, const std::vector<Fraction>& list) {
    const FloatSignature& s = signature_of(f);
    if (list.size() != s.takes.size()) error(fmt::format("another number of operands of {}", s.name));
    Expr operands[2];
    for (std::size_t i = 0; i < list.size(); ++i) operands[i] = s.takes[i] == 'f' ? real(list[i]) : whole(list[i]);
    return {sym::float_call(f, operands[0], operands[1]), 1, s.gives == 'f'};
  }

  /// What sympy writes alike for integers and floats.
  Fraction over_floats(std::string_view name, const std::vector<Fraction>& list) {
    struct Form {
      std::string_view name;
      FloatFunction function;
      std::size_t most;
    };
    static constexpr Form kForms[] = {{"Add", FloatFunction::Add, 64},          {"Mul", FloatFunction::Mul, 64},
                                      {"Max", FloatFunction::Max, 64},          {"Min", FloatFunction::Min, 64},
                                      {"Mod", FloatFunction::Mod, 2},           {"PythonMod", FloatFunction::Mod, 2},
                                      {"Pow", FloatFunction::Pow, 2},           {"Abs", FloatFunction::Abs, 1},
                                      {"Equality", FloatFunction::Eq, 2},       {"Unequality", FloatFunction::Ne, 2},
                                      {"StrictLessThan", FloatFunction::Lt, 2}, {"LessThan", FloatFunction::Le, 2}};
    for (const Form& form : kForms) {
      if (form.name != name) continue;
      if (list.size() > form.most || list.size() < std::min<std::size_t>(form.most, 2))
        error(fmt::format("another number of operands of {}", name));
      if (form.most == 1 || signature_of(form.function).gives == 'i') {
        const Expr e = sym::float_call(form.function, real(list[0]), form.most == 2 ? real(list[1]) : Expr(0));
        return {form.most == 2 ? sym::ne(e, 0) : e, 1, form.most == 1};
      }
      return folded(form.function, list);
    }
    if (list.size() == 2 && (name == "StrictGreaterThan" || name == "GreaterThan"))
      return {sym::ne(
          sym::float_call(name == "GreaterThan" ? FloatFunction::Le : FloatFunction::Lt, real(list[1]), real(list[0])),
          0)};
    if (name == "Identity" && list.size() == 1) return list[0];
    refuse(name);
  }

  static Fraction reduced(Fraction f) {
    // A factor that divides the numerator as a whole is taken out; FloorDiv does so exactly when its result times the
    // divisor is the numerator again.
    if (f.denominator != 1) {
      const Expr quotient = sym::floor_div(f.numerator, f.denominator);
      if (quotient * Expr(f.denominator) == f.numerator) return {quotient};
    }
    return f;
  }
  Fraction product(const std::vector<Fraction>& list) const {
    Fraction result{1};
    for (const Fraction& f : list) {
      result.numerator = result.numerator * f.numerator;
      if (__builtin_mul_overflow(result.denominator, f.denominator, &result.denominator))
        fail("symbolic expression `{}` overflows", text_);
    }
    return reduced(result);
  }
  Fraction sum(const std::vector<Fraction>& list) const {
    Fraction result{0};
    for (const Fraction& f : list) {
      std::int64_t denominator = 0;
      if (__builtin_mul_overflow(result.denominator, f.denominator, &denominator))
        fail("symbolic expression `{}` overflows", text_);
      result = reduced({result.numerator * Expr(f.denominator) + f.numerator * Expr(result.denominator), denominator});
    }
    return result;
  }

  Expr apply(std::string_view name, const Exprs& e) {
    struct Form {
      std::string_view name;
      std::size_t least, most;
      std::function<Expr(const Exprs&)> make;
    };
    static const std::size_t kAny = ~std::size_t{0};
    auto fold = [](Expr (*f)(Expr, Expr)) {
      return [f](const Exprs& e) {
        Expr result = e.front();
        for (std::size_t i = 1; i < e.size(); ++i) result = f(result, e[i]);
        return result;
      };
    };
    auto two = [](Expr (*f)(Expr, Expr)) { return [f](const Exprs& e) { return f(e[0], e[1]); }; };
    auto power = [](const Exprs& e) {
      if (const auto exponent = e[1].constant(); exponent && *exponent < 0)
        fail("a symbolic size is divided by another without rounding");
      return sym::pow(e[0], e[1]);
    };
    auto same = [](const Exprs& e) { return e[0]; };
    static const std::vector<Form> forms{
        {"Pow", 2, 2, power},
        {"PowByNatural", 2, 2, power},
        {"FloorDiv", 2, 2, two(sym::floor_div)},
        {"CleanDiv", 2, 2, two(sym::floor_div)},
        {"CeilDiv", 2, 2, two(sym::ceil_div)},
        {"Mod", 2, 2, two(sym::mod)},
        {"PythonMod", 2, 2, two(sym::mod)},
        {"ModularIndexing", 3, 3, [](const Exprs& e) { return sym::mod(sym::floor_div(e[0], e[1]), e[2]); }},
        {"Max", 1, kAny, fold(sym::max)},
        {"Min", 1, kAny, fold(sym::min)},
        {"Where", 3, 3, [](const Exprs& e) { return sym::where(e[0], e[1], e[2]); }},
        {"LShift", 2, 2, two(sym::shift_left)},
        {"RShift", 2, 2, two(sym::shift_right)},
        {"BitwiseFn_bitwise_and", 2, 2, two(sym::bit_and)},
        {"BitwiseFn_bitwise_or", 2, 2, two(sym::bit_or)},
        {"BitwiseFn_bitwise_xor", 2, 2, two(sym::bit_xor)},
        {"Identity", 1, 1, same},
        {"Equality", 2, 2, two(sym::eq)},
        {"Unequality", 2, 2, two(sym::ne)},
        {"StrictLessThan", 2, 2, two(sym::lt)},
        {"LessThan", 2, 2, two(sym::le)},
        {"StrictGreaterThan", 2, 2, [](const Exprs& e) { return sym::gt(e[0], e[1]); }},
        {"GreaterThan", 2, 2, [](const Exprs& e) { return sym::ge(e[0], e[1]); }},
        {"And", 1, kAny, fold(sym::logical_and)},
        {"Or", 1, kAny, fold(sym::logical_or)},
        {"Not", 1, 1, [](const Exprs& e) { return sym::logical_not(e[0]); }},
    };
    for (const Form& form : forms) {
      if (form.name != name) continue;
      if (e.size() < form.least || e.size() > form.most) error(fmt::format("another number of operands of {}", name));
      return form.make(e);
    }
    refuse(name);
  }

  std::string_view text_;
  const std::function<Expr(std::string_view)>& define_;
  std::size_t at_ = 0;
};

}  // namespace

Expr parse_srepr(std::string_view text, const std::function<Expr(std::string_view)>& define) {
  return Parser(text, define).parse();
}

Expr parse_float_srepr(std::string_view text, const std::function<Expr(std::string_view)>& define) {
  return Parser(text, define).parse_float();
}

std::string_view srepr_symbol(std::string_view text) {
  constexpr std::string_view kHead = "Symbol('";
  if (!text.starts_with(kHead)) return {};
  text.remove_prefix(kHead.size());
  const std::size_t quote = text.find('\'');
  if (quote == std::string_view::npos) return {};
  return text.find(')', quote) == text.size() - 1 ? text.substr(0, quote) : std::string_view();
}

}  // namespace coil::frontend
