#include "fx/scalar_functions.h"

#include <cmath>
#include <limits>
#include <map>

#include "support/error.h"

namespace coil::fx {

namespace {

using ops::Bool;
using ops::SymFloat;
using ops::Value;
using ops::Values;
using sym::Expr;

bool is_integer(const Value& v) { return v.is<Expr>() || v.is<Bool>(); }
bool is_known_float(const Value& v) { return v.is<double>() || (is_integer(v) && v.as_int().is_constant()); }
bool is_bool(const Value& v) { return v.is<Bool>(); }

void expect_numbers(const ScalarCall& call, std::size_t count) {
  if (call.args.size() != count) fail("takes {} arguments, found {}", count, call.args.size());
  for (const Value& v : call.args)
    if (!is_integer(v) && !v.is<double>() && !v.is<SymFloat>()) fail("{} is not a number", ops::to_string(v));
}

/// A function of two numbers: integers symbolically, floats when both are known.
ScalarFunction arithmetic(Expr (*exact)(Expr, Expr), double (*floating)(double, double)) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 2);
    const Value &a = call.args[0], &b = call.args[1];
    if (exact && is_integer(a) && is_integer(b)) return exact(a.as_int(), b.as_int());
    if (is_known_float(a) && is_known_float(b)) return floating(a.as_double(), b.as_double());
    return SymFloat{call.node};
  };
}

ScalarFunction relation(Expr (*exact)(Expr, Expr), bool (*floating)(double, double)) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 2);
    const Value &a = call.args[0], &b = call.args[1];
    if (is_integer(a) && is_integer(b)) return Bool{exact(a.as_int(), b.as_int())};
    if (is_known_float(a) && is_known_float(b)) return floating(a.as_double(), b.as_double());
    fail("a comparison of floats known only at run time cannot be compiled");
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
ScalarFunction transcendental(double (*f)(double)) {
  return [=](const ScalarCall& call) -> Value {
    expect_numbers(call, 1);
    if (is_known_float(call.args[0])) return f(call.args[0].as_double());
    return SymFloat{call.node};
  };
}

/// Float to integer; integers stay.
ScalarFunction rounding(double (*f)(double)) {
  return [=](const ScalarCall& call) -> Value {
    if (call.args.empty()) fail("takes a number");
    const Value& a = call.args[0];
    if (is_integer(a)) return a.as_int();
    if (!a.is<double>()) fail("an integer made from a float known only at run time cannot be compiled");
    double d = f(a.as_double());
    if (!(std::fabs(d) < 9.2e18)) fail("{} does not fit in 64 bits", d);
    return static_cast<std::int64_t>(d);
  };
}

Expr subtract(Expr a, Expr b) { return a - b; }
Expr add(Expr a, Expr b) { return a + b; }
Expr multiply(Expr a, Expr b) { return a * b; }
Expr xor_bools(Expr a, Expr b) { return sym::ne(a, b); }

double python_mod(double a, double b) {
  double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

Value negate(const ScalarCall& call) {
  expect_numbers(call, 1);
  const Value& a = call.args[0];
  if (is_integer(a)) return -a.as_int();
  if (a.is<double>()) return -a.as_double();
  return SymFloat{call.node};
}

Value power(const ScalarCall& call) {
  expect_numbers(call, 2);
  const Value &a = call.args[0], &b = call.args[1];
  if (is_integer(a) && is_integer(b)) {
    auto exponent = b.as_int().constant();
    if (!exponent || *exponent >= 0) return sym::pow(a.as_int(), b.as_int());
  }
  if (is_known_float(a) && is_known_float(b)) return std::pow(a.as_double(), b.as_double());
  return SymFloat{call.node};
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
  if (a.is<double>()) return std::fabs(a.as_double());
  return SymFloat{call.node};
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
  if (is_known_float(call.args[0])) return call.args[0].as_double();
  return SymFloat{call.node};
}

using Table = std::map<std::string, ScalarFunction, std::less<>>;

Table make_table() {
  Table t;
  t["_operator.add"] = arithmetic(add, [](double a, double b) { return a + b; });
  t["_operator.sub"] = arithmetic(subtract, [](double a, double b) { return a - b; });
  t["_operator.mul"] = arithmetic(multiply, [](double a, double b) { return a * b; });
  t["_operator.floordiv"] = arithmetic(sym::floor_div, [](double a, double b) { return std::floor(a / b); });
  t["_operator.truediv"] = arithmetic(nullptr, [](double a, double b) { return a / b; });
  t["_operator.mod"] = arithmetic(sym::mod, python_mod);
  t["_operator.pow"] = power;
  t["_operator.neg"] = negate;
  t["_operator.eq"] = relation(sym::eq, [](double a, double b) { return a == b; });
  t["_operator.ne"] = relation(sym::ne, [](double a, double b) { return a != b; });
  t["_operator.lt"] = relation(sym::lt, [](double a, double b) { return a < b; });
  t["_operator.le"] = relation(sym::le, [](double a, double b) { return a <= b; });
  t["_operator.gt"] = relation(sym::gt, [](double a, double b) { return a > b; });
  t["_operator.ge"] = relation(sym::ge, [](double a, double b) { return a >= b; });
  t["_operator.and_"] = bitwise(sym::logical_and, sym::bit_and);
  t["_operator.or_"] = bitwise(sym::logical_or, sym::bit_or);
  t["_operator.xor"] = bitwise(xor_bools, sym::bit_xor);
  t["_operator.lshift"] = bitwise(nullptr, sym::shift_left);
  t["_operator.rshift"] = bitwise(nullptr, sym::shift_right);
  t["_operator.invert"] = invert;
  t["_operator.not_"] = t["torch.sym_not"] = logical_not;
  t["_operator.abs"] = t["builtins.abs"] = absolute;
  t["torch.sym_max"] = t["builtins.max"] = arithmetic(sym::max, [](double a, double b) { return a < b ? b : a; });
  t["torch.sym_min"] = t["builtins.min"] = arithmetic(sym::min, [](double a, double b) { return b < a ? b : a; });
  t["torch.sym_ite"] = choose;
  t["torch.sym_sum"] = total;
  t["torch.sym_float"] = t["builtins.float"] = to_float;
  t["torch.sym_int"] = t["builtins.int"] = t["math.trunc"] = rounding([](double d) { return std::trunc(d); });
  t["math.floor"] = rounding([](double d) { return std::floor(d); });
  t["math.ceil"] = rounding([](double d) { return std::ceil(d); });
  t["builtins.round"] = rounding([](double d) { return std::nearbyint(d); });
  t["math.sqrt"] = t["torch.sym_sqrt"] = t["torch._sym_sqrt"] = transcendental([](double d) { return std::sqrt(d); });
  t["math.log2"] = t["torch._sym_log2"] = transcendental([](double d) { return std::log2(d); });
  t["math.exp"] = t["torch._sym_exp"] = transcendental([](double d) { return std::exp(d); });
  return t;
}

}  // namespace

const ScalarFunction* find_scalar_function(std::string_view target) {
  static const Table table = make_table();
  auto it = table.find(target);
  return it == table.end() ? nullptr : &it->second;
}

}  // namespace coil::fx
