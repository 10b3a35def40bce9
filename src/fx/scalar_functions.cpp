#include "fx/scalar_functions.h"

#include <map>

#include "support/error.h"
#include "sym/floats.h"

namespace coil::fx {

namespace {

using ops::Bool;
using ops::SymFloat;
using ops::Value;
using ops::Values;
using sym::Expr;

bool is_integer(const Value& v) { return v.is<Expr>() || v.is<Bool>(); }
bool is_bool(const Value& v) { return v.is<Bool>(); }

void expect_numbers(const ScalarCall& call, std::size_t count) {
  if (call.args.size() != count) fail("takes {} arguments, found {}", count, call.args.size());
  for (const Value& v : call.args)
    if (!is_integer(v) && !v.is<double>() && !v.is<SymFloat>()) fail("{} is not a number", ops::to_string(v));
}

/// The float that an operand of functions of floats is: known, or named after the node; of one that only data tell
/// (none) nothing more is known.
Value made(const ScalarCall& call, std::optional<Expr> e) {
  if (e && e->is_constant()) return float_of_bits(*e->constant());
  return SymFloat{call.node, e};
}

using Floats = std::function<Expr(Expr, Expr)>;

/// A function of the library of floats as it is.
Floats plain(FloatFunction f) {
  return [f](Expr a, Expr b) { return sym::float_call(f, a, b); };
}

/// A function of two numbers: integers symbolically, floats as far as sizes tell them.
ScalarFunction arithmetic(Expr (*exact)(Expr, Expr), const Floats& floating) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 2);
    const Value &a = call.args[0], &b = call.args[1];
    if (exact && is_integer(a) && is_integer(b)) return exact(a.as_int(), b.as_int());
    const auto x = ops::float_of(a), y = ops::float_of(b);
    return made(call, x && y ? std::optional(floating(*x, *y)) : std::nullopt);
  };
}

/// A quotient of integers is rounded once.
Value true_division(const ScalarCall& call) {
  expect_numbers(call, 2);
  const Value &a = call.args[0], &b = call.args[1];
  if (is_integer(a) && is_integer(b))
    return made(call, sym::float_call(FloatFunction::IntTrueDiv, a.as_int(), b.as_int()));
  return arithmetic(nullptr, plain(FloatFunction::Div))(call);
}

ScalarFunction relation(Expr (*exact)(Expr, Expr), const Floats& floating) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 2);
    const Value &a = call.args[0], &b = call.args[1];
    if (is_integer(a) && is_integer(b)) return Bool{exact(a.as_int(), b.as_int())};
    const auto x = ops::float_of(a), y = ops::float_of(b);
    if (!x || !y) fail("a comparison of floats known only at run time cannot be compiled");
    return Bool{sym::ne(floating(*x, *y), 0)};
  };
}

/// `&`, `|`, `^` and shifts: logical on bools where that differs, bitwise on integers.
ScalarFunction bitwise(Expr (*on_bools)(Expr, Expr), Expr (*on_integers)(Expr, Expr)) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 2);
    const Value &a = call.args[0], &b = call.args[1];
    if (on_bools && is_bool(a) && is_bool(b)) return Bool{on_bools(a.as_int(), b.as_int())};
    if (is_integer(a) && is_integer(b)) return on_integers(a.as_int(), b.as_int());
    fail("takes integers or bools");
  };
}

/// A function of one float, float out; never exact on symbols.
ScalarFunction transcendental(FloatFunction f) {
  return [f](const ScalarCall& call) -> Value {
    expect_numbers(call, 1);
    const auto x = ops::float_of(call.args[0]);
    return made(call, x ? std::optional(sym::float_call(f, *x)) : std::nullopt);
  };
}

/// Float to integer; integers stay.
ScalarFunction rounding(FloatFunction f) {
  return [f](const ScalarCall& call) -> Value {
    if (call.args.empty()) fail("takes a number");
    const Value& a = call.args[0];
    if (is_integer(a)) return a.as_int();
    const auto x = ops::float_of(a);
    if (!x) fail("an integer made from a float known only at run time cannot be compiled");
    if (call.args.size() > 1 && !call.args[1].is_none()) {
      if (f != FloatFunction::RoundToInt || !is_integer(call.args[1]))
        fail("takes a number and perhaps a number of digits");
      return made(call, sym::float_call(FloatFunction::RoundDecimal, *x, call.args[1].as_int()));
    }
    return sym::float_call(f, *x);
  };
}

Expr subtract(Expr a, Expr b) { return a - b; }
Expr add(Expr a, Expr b) { return a + b; }
Expr multiply(Expr a, Expr b) { return a * b; }
Expr xor_bools(Expr a, Expr b) { return sym::ne(a, b); }

Value negate(const ScalarCall& call) {
  expect_numbers(call, 1);
  const Value& a = call.args[0];
  if (is_integer(a)) return -a.as_int();
  const auto x = ops::float_of(a);
  return made(call, x ? std::optional(sym::float_call(FloatFunction::Mul, sym::float_constant(-1), *x)) : std::nullopt);
}

Value power(const ScalarCall& call) {
  expect_numbers(call, 2);
  const Value &a = call.args[0], &b = call.args[1];
  if (is_integer(a) && is_integer(b)) {
    auto exponent = b.as_int().constant();
    if (!exponent || *exponent >= 0) return sym::pow(a.as_int(), b.as_int());
  }
  return arithmetic(nullptr, plain(FloatFunction::Pow))(call);
}

Value choose(const ScalarCall& call) {
  expect_numbers(call, 3);
  const Value &c = call.args[0], &yes = call.args[1], &no = call.args[2];
  Expr condition = c.as_int();
  if (condition.is_constant()) return *condition.constant() ? yes : no;
  if (is_bool(yes) && is_bool(no)) return Bool{sym::where(condition, yes.as_int(), no.as_int())};
  if (is_integer(yes) && is_integer(no)) return sym::where(condition, yes.as_int(), no.as_int());
  return SymFloat{call.node};
}

Value absolute(const ScalarCall& call) {
  expect_numbers(call, 1);
  const Value& a = call.args[0];
  if (is_integer(a)) return sym::max(a.as_int(), -a.as_int());
  return transcendental(FloatFunction::Abs)(call);
}

Value total(const ScalarCall& call) {
  Expr sum = 0;
  for (const Value& v : call.args.at(0).as_list()) sum += v.as_int();
  return sum;
}

Value logical_not(const ScalarCall& call) {
  expect_numbers(call, 1);
  return Bool{sym::logical_not(call.args[0].as_int())};
}

Value invert(const ScalarCall& call) {
  expect_numbers(call, 1);
  return -call.args[0].as_int() - 1;
}

Value to_float(const ScalarCall& call) {
  expect_numbers(call, 1);
  return made(call, ops::float_of(call.args[0]));
}

using Table = std::map<std::string, ScalarFunction, std::less<>>;

Table make_table() {
  auto subtracted = [](Expr a, Expr b) {
    return sym::float_call(FloatFunction::Add, a, sym::float_call(FloatFunction::Mul, sym::float_constant(-1), b));
  };
  auto floor_divided = [](Expr a, Expr b) {
    return sym::float_call(FloatFunction::Floor, sym::float_call(FloatFunction::Div, a, b));
  };
  auto swapped = [](FloatFunction f) -> Floats { return [f](Expr a, Expr b) { return sym::float_call(f, b, a); }; };
  Table t;
  t["_operator.add"] = arithmetic(add, plain(FloatFunction::Add));
  t["_operator.sub"] = arithmetic(subtract, subtracted);
  t["_operator.mul"] = arithmetic(multiply, plain(FloatFunction::Mul));
  t["_operator.floordiv"] = arithmetic(sym::floor_div, floor_divided);
  t["_operator.truediv"] = true_division;
  t["_operator.mod"] = arithmetic(sym::mod, plain(FloatFunction::Mod));
  t["_operator.pow"] = power;
  t["_operator.neg"] = negate;
  t["_operator.eq"] = relation(sym::eq, plain(FloatFunction::Eq));
  t["_operator.ne"] = relation(sym::ne, plain(FloatFunction::Ne));
  t["_operator.lt"] = relation(sym::lt, plain(FloatFunction::Lt));
  t["_operator.le"] = relation(sym::le, plain(FloatFunction::Le));
  t["_operator.gt"] = relation(sym::gt, swapped(FloatFunction::Lt));
  t["_operator.ge"] = relation(sym::ge, swapped(FloatFunction::Le));
  t["_operator.and_"] = bitwise(sym::logical_and, sym::bit_and);
  t["_operator.or_"] = bitwise(sym::logical_or, sym::bit_or);
  t["_operator.xor"] = bitwise(xor_bools, sym::bit_xor);
  t["_operator.lshift"] = bitwise(nullptr, sym::shift_left);
  t["_operator.rshift"] = bitwise(nullptr, sym::shift_right);
  t["_operator.invert"] = invert;
  t["_operator.not_"] = t["torch.sym_not"] = logical_not;
  t["_operator.abs"] = t["builtins.abs"] = absolute;
  t["torch.sym_max"] = t["builtins.max"] = arithmetic(sym::max, plain(FloatFunction::Max));
  t["torch.sym_min"] = t["builtins.min"] = arithmetic(sym::min, plain(FloatFunction::Min));
  t["torch.sym_ite"] = choose;
  t["torch.sym_sum"] = total;
  t["torch.sym_float"] = t["builtins.float"] = to_float;
  t["torch.sym_int"] = t["builtins.int"] = t["math.trunc"] = rounding(FloatFunction::TruncToInt);
  t["math.floor"] = rounding(FloatFunction::FloorToInt);
  t["math.ceil"] = rounding(FloatFunction::CeilToInt);
  t["builtins.round"] = rounding(FloatFunction::RoundToInt);
  const std::pair<const char*, FloatFunction> kOfOne[] = {
      {"sqrt", FloatFunction::Sqrt}, {"exp", FloatFunction::Exp},   {"log", FloatFunction::Log},
      {"log2", FloatFunction::Log2}, {"sin", FloatFunction::Sin},   {"cos", FloatFunction::Cos},
      {"tan", FloatFunction::Tan},   {"asin", FloatFunction::Asin}, {"acos", FloatFunction::Acos},
      {"atan", FloatFunction::Atan}, {"sinh", FloatFunction::Sinh}, {"cosh", FloatFunction::Cosh},
      {"tanh", FloatFunction::Tanh}};
  for (const auto& [name, f] : kOfOne)
    for (const char* module : {"math.", "torch.sym_", "torch._sym_"})
      t[fmt::format("{}{}", module, name)] = transcendental(f);
  return t;
}

}  // namespace

const ScalarFunction* find_scalar_function(std::string_view target) {
  static const Table table = make_table();
  auto it = table.find(target);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace coil::fx
