#include <charconv>

#include "sym/floats.h"
#include "sym/node.h"
#include "sym/print.h"

namespace coil::sym {

namespace {

using Arguments = std::span<const Expr>;

/// A function of the text form or of torch.export's print of sympy, over a fixed number of operands (-1: one or more).
struct Function {
  std::string_view name;
  int operands;
  Expr (*apply)(Arguments);
};

template <Expr (*f)(Expr, Expr)>
Expr binary(Arguments a) {
  return f(a[0], a[1]);
}

template <Expr (*f)(Expr, Expr)>
Expr fold(Arguments a) {
  Expr result = a[0];
  for (const Expr& e : a.subspan(1)) result = f(result, e);
  return result;
}

template <Kind kind>
Expr nary(Arguments a) {
  return make(kind, a);
}

Expr clean_div(Arguments a) {
  auto q = divide_exact(a[0], a[1]);
  return q ? *q : floor_div(a[0], a[1]);
}

// `PythonMod`, `CleanDiv`, `PowByNatural`, …: torch/utils/_sympy/functions.py.
const Function kFunctions[] = {
    {"FloorDiv", 2, binary<floor_div>},
    {"CeilDiv", 2, binary<ceil_div>},
    {"CleanDiv", 2, clean_div},
    {"Mod", 2, binary<mod>},
    {"PythonMod", 2, binary<mod>},
    {"Min", -1, nary<Kind::Min>},
    {"Max", -1, nary<Kind::Max>},
    {"min", -1, nary<Kind::Min>},
    {"max", -1, nary<Kind::Max>},
    {"Pow", 2, binary<pow>},
    {"PowByNatural", 2, binary<pow>},
    {"Where", 3, [](Arguments a) { return where(a[0], a[1], a[2]); }},
    {"Eq", 2, binary<eq>},
    {"Ne", 2, binary<ne>},
    {"Lt", 2, binary<lt>},
    {"Le", 2, binary<le>},
    {"Gt", 2, binary<gt>},
    {"Ge", 2, binary<ge>},
    {"And", -1, nary<Kind::And>},
    {"Or", -1, nary<Kind::Or>},
    {"Not", 1, [](Arguments a) { return logical_not(a[0]); }},
    {"BitAnd", 2, binary<bit_and>},
    {"BitOr", 2, binary<bit_or>},
    {"BitXor", 2, binary<bit_xor>},
    {"BitwiseFn_bitwise_and", 2, binary<bit_and>},
    {"BitwiseFn_bitwise_or", 2, binary<bit_or>},
    {"BitwiseFn_bitwise_xor", 2, binary<bit_xor>},
    {"ShiftLeft", 2, binary<shift_left>},
    {"ShiftRight", 2, binary<shift_right>},
    {"LShift", 2, binary<shift_left>},
    {"RShift", 2, binary<shift_right>},
    {"Abs", 1, [](Arguments a) { return max(a[0], -a[0]); }},
    {"Identity", 1, [](Arguments a) { return a[0]; }},
};

/// Other names of functions of floats.
struct FloatName {
  std::string_view name;
  FloatFunction function;
};
const FloatName kFloatNames[] = {{"floor", FloatFunction::FloorToInt}, {"ceiling", FloatFunction::CeilToInt}};

std::optional<FloatFunction> float_function_of(std::string_view name) {
  for (const FloatName& f : kFloatNames)
    if (f.name == name) return f.function;
  return float_function_named(name);
}

const Function* find(std::span<const Function> table, std::string_view name) {
  auto it = std::ranges::find(table, name, &Function::name);
  return it == table.end() ? nullptr : &*it;
}

constexpr int kMaxDepth = 256;

/// Recursive descent over Python's expression grammar.
class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(std::string_view)>& define) : text_(text), define_(define) {}

  Expr parse() {
    Expr e = disjunction();
    skip();
    if (at_ != text_.size()) fault("this does not belong here");
    return e;
  }

  Expr parse_float() {
    Expr e = float_operand();
    skip();
    if (at_ != text_.size()) fault("this does not belong here");
    return e;
  }

 private:
  [[noreturn]] void fault(std::string_view what) const {
    constexpr std::size_t kShown = 120;
    fail("cannot read the size expression `{}{}`: {} (at position {})", text_.substr(0, kShown),
         text_.size() > kShown ? "…" : "", what, at_);
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  /// Takes an operator sign, unless it is the beginning of a longer one.
  bool take(std::string_view sign) {
    skip();
    if (text_.substr(at_, sign.size()) != sign) return false;
    char next = peek(sign.size());
    if (sign.size() == 1 && (sign[0] == '*' || sign[0] == '/' || sign[0] == '<' || sign[0] == '>') && next == sign[0])
      return false;
    if (sign.size() == 1 && (sign[0] == '<' || sign[0] == '>') && next == '=') return false;
    at_ += sign.size();
    return true;
  }

  bool take_word(std::string_view word) {
    skip();
    char next = peek(word.size());
    if (text_.substr(at_, word.size()) != word || is_letter(next) || is_digit(next)) return false;
    at_ += word.size();
    return true;
  }

  void expect(char c) {
    skip();
    if (peek() != c) fault(fmt::format("`{}` is missing", c));
    ++at_;
  }

  Expr disjunction() {
    if (++depth_ > kMaxDepth) fault("it is nested too deeply");
    Expr e = conjunction();
    while (take_word("or")) e = logical_or(e, conjunction());
    --depth_;
    return e;
  }

  Expr conjunction() {
    Expr e = negation();
    while (take_word("and")) e = logical_and(e, negation());
    return e;
  }

  Expr negation() {
    std::size_t count = 0;
    while (take_word("not")) ++count;
    Expr e = relation();
    if (count == 0) return e;
    return count % 2 ? logical_not(e) : ne(e, 0);
  }

  /// `a < b <= c` is `a < b and b <= c`.
  Expr relation() {
    Expr left = bit_or_level();
    std::optional<Expr> all;
    while (true) {
      Expr (*f)(Expr, Expr) = take("<=")   ? le
                              : take(">=") ? ge
                              : take("==") ? eq
                              : take("!=") ? ne
                              : take("<")  ? lt
                              : take(">")  ? gt
                                           : nullptr;
      if (!f) return all.value_or(left);
      Expr right = bit_or_level();
      Expr one = f(left, right);
      all = all ? logical_and(*all, one) : one;
      left = right;
    }
  }

  // sympy prints And and Or of conditions as `&` and `|`.
  static Expr either(Expr a, Expr b) { return is_boolean(a) && is_boolean(b) ? logical_or(a, b) : bit_or(a, b); }
  static Expr both(Expr a, Expr b) { return is_boolean(a) && is_boolean(b) ? logical_and(a, b) : bit_and(a, b); }

  Expr bit_or_level() {
    Expr e = bit_xor_level();
    while (take("|")) e = either(e, bit_xor_level());
    return e;
  }

  Expr bit_xor_level() {
    Expr e = bit_and_level();
    while (take("^")) e = bit_xor(e, bit_and_level());
    return e;
  }

  Expr bit_and_level() {
    Expr e = shift();
    while (take("&")) e = both(e, shift());
    return e;
  }

  Expr shift() {
    Expr e = sum_level();
    while (true) {
      if (take("<<"))
        e = shift_left(e, sum_level());
      else if (take(">>"))
        e = shift_right(e, sum_level());
      else
        return e;
    }
  }

  Expr sum_level() {
    Exprs terms{product_level()};
    while (true) {
      if (take("+"))
        terms.push_back(product_level());
      else if (take("-"))
        terms.push_back(-product_level());
      else
        return terms.size() == 1 ? terms[0] : sum(terms);
    }
  }

  Expr product_level() {
    Exprs all{unary()};
    auto multiplied = [&] { return all.size() == 1 ? all[0] : product(all); };
    while (true) {
      if (take("*")) {
        all.push_back(unary());
      } else if (take("//")) {
        Expr e = multiplied();
        all = {floor_div(e, unary())};
      } else if (take("%")) {
        Expr e = multiplied();
        all = {mod(e, unary())};
      } else if (take("/")) {
        Expr e = multiplied();
        auto q = divide_exact(e, unary());
        if (!q) fault("this division has no integer result; write `//`");
        all = {*q};
      } else {
        return multiplied();
      }
    }
  }

  Expr unary() {
    constexpr std::string_view kSmallest = "-9223372036854775808";
    bool negative = false, any = false;
    while (true) {
      skip();
      if (text_.substr(at_, kSmallest.size()) == kSmallest && !is_digit(peek(kSmallest.size()))) {
        at_ += kSmallest.size();
        Expr e = std::numeric_limits<std::int64_t>::min();
        return negative ? -e : e;
      }
      if (take("-")) {
        negative = !negative;
      } else if (take("~")) {
        if (++depth_ > kMaxDepth) fault("it is nested too deeply");
        Expr e = unary();
        --depth_;
        e = is_boolean(e) ? logical_not(e) : -e - 1;
        return negative ? -e : e;
      } else if (!take("+")) {
        break;
      }
      any = true;
    }
    Expr e = power();
    return any && negative ? -e : e;
  }

  Expr power() {
    Expr base = atom();
    if (!take("**")) return base;
    if (++depth_ > kMaxDepth) fault("it is nested too deeply");
    Expr exponent = unary();
    --depth_;
    return pow(base, exponent);
  }

  Expr atom() {
    skip();
    if (take("(")) {
      Expr e = disjunction();
      expect(')');
      return e;
    }
    if (is_digit(peek())) return number();
    if (!is_letter(peek())) fault(at_ == text_.size() ? "it ends too early" : "a number, a size or `(` is missing");
    std::size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    std::string_view name = text_.substr(begin, at_ - begin);
    skip();
    if (peek() == '(') return call(name, begin);
    if (name == "not" || name == "and" || name == "or") at_ = begin, fault("a number, a size or `(` is missing");
    if (name == "True") return 1;
    if (name == "False") return 0;
    return define_(name);
  }

  Expr number() {
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fault("this number does not fit into 64 bits");
    std::size_t after = static_cast<std::size_t>(end - text_.data());
    char next = after < text_.size() ? text_[after] : '\0';
    if (next == '.' || is_letter(next)) fault("a whole number is expected");
    at_ = after;
    return value;
  }

  /// A number, or a call that gives a float.
  Expr float_operand() {
    if (++depth_ > kMaxDepth) fault("it is nested too deeply");
    skip();
    const std::size_t begin = at_;
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool is_number = error == std::errc() || error == std::errc::result_out_of_range;
    if (is_number) at_ = static_cast<std::size_t>(end - text_.data());
    if (!is_number && !is_letter(peek())) fault("a float is expected");
    wants_float_ = !is_number;
    const Expr e = is_number ? float_constant(value) : atom();
    wants_float_ = false;
    --depth_;
    if (!e.is_constant() && !is_float(e)) at_ = begin, fault("a float is expected");
    return e;
  }

  Exprs arguments() {
    expect('(');
    Exprs all;
    skip();
    if (peek() == ')') return ++at_, all;
    do all.push_back(disjunction());
    while (take(","));
    expect(')');
    return all;
  }

  Expr call(std::string_view name, std::size_t begin) {
    const bool wants_float = std::exchange(wants_float_, false);
    const Function* f = wants_float ? nullptr : find(kFunctions, name);
    if (f) {
      Exprs all = arguments();
      bool fits = f->operands < 0 ? !all.empty() : all.size() == static_cast<std::size_t>(f->operands);
      if (!fits) at_ = begin, fault(fmt::format("{} takes another number of operands than {}", name, all.size()));
      return f->apply(all);
    }
    if (const auto function = float_function_of(name);
        function && (signature_of(*function).gives == 'f') == wants_float) {
      expect('(');
      Expr operands[2];
      for (std::size_t i = 0; char kind : signature_of(*function).takes) {
        if (i > 0) expect(',');
        operands[i++] = kind == 'f' ? float_operand() : disjunction();
      }
      expect(')');
      return float_call(*function, operands[0], operands[1]);
    }
    at_ = begin;
    fault(fmt::format("sizes cannot contain {}", name));
  }

  std::string_view text_;
  const std::function<Expr(std::string_view)>& define_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool wants_float_ = false;  ///< what is called next must give a float, and only then may it
};

}  // namespace

Expr parse(std::string_view text, const std::function<Expr(std::string_view name)>& define) {
  return Parser(text, define).parse();
}

Expr parse_float(std::string_view text, const std::function<Expr(std::string_view name)>& define) {
  return Parser(text, define).parse_float();
}

}  // namespace coil::sym
