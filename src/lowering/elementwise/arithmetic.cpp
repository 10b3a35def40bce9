// Arithmetic, comparison and mathematics, element by element. One table for each number of operands.
#include <cmath>
#include <limits>

#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

using Unary = Element (*)(Element);
using Binary = Element (*)(Element, Element);

bool is_bool(Element v) { return v.dtype() == DType::Bool; }

Element add(Element a, Element b) { return is_bool(a) ? a | b : a + b; }
Element mul(Element a, Element b) { return is_bool(a) ? a & b : a * b; }
Element max_of(Element a, Element b) { return is_bool(a) ? a | b : maximum(a, b); }
Element min_of(Element a, Element b) { return is_bool(a) ? a & b : minimum(a, b); }
Element is_true(Element v) { return v.cast(DType::Bool); }

Element divide(Element a, Element b, const ops::Value& rounding) {
  if (rounding.as_string() == "floor") return floor_div(a, b);
  return is_floating(a.dtype()) ? trunc(a / b) : trunc_div(a, b);
}

Element xlogy(Element a, Element b) { return where(isnan(b), b, where(eq(a, 0.0), a.number(0), a * log(b))); }
Element xlog1py(Element a, Element b) { return where(isnan(b), b, where(eq(a, 0.0), a.number(0), a * log1p(b))); }

Element logaddexp(Element a, Element b) {
  Element high = maximum(a, b);
  return where(isinf(a) & eq(a, b), a, high + log1p(exp(-abs(a - b))));
}

Element logaddexp2(Element a, Element b) {
  constexpr double kInverseLn2 = 1.4426950408889634;
  Element high = maximum(a, b);
  return where(isinf(a) & eq(a, b), a, high + log1p(exp2(-abs(a - b))) * kInverseLn2);
}

Element lcm(Element a, Element b) {
  Element g = gcd(a, b);
  return where(eq(g, 0.0), a.number(0), abs(trunc_div(a, g) * b));
}

Element heaviside(Element a, Element b) {
  return where(eq(a, 0.0), b, where(gt(a, 0.0), a.number(1), a.number(0)));  // 0 for NaN
}

const std::pair<std::string_view, Unary> kUnary[] = {
    {"abs", abs},
    {"neg", [](Element a) { return -a; }},
    {"positive", [](Element a) { return a; }},
    {"sqrt", sqrt},
    {"rsqrt", rsqrt},
    {"reciprocal", recip},
    {"fix", trunc},
    {"square", [](Element a) { return mul(a, a); }},
    {"exp", exp},
    {"exp2", exp2},
    {"expm1", expm1},
    {"log", log},
    {"log2", log2},
    {"log10", log10},
    {"log1p", log1p},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
    {"erf", erf},
    {"erfc", erfc},
    {"erfinv", erfinv},
    {"sigmoid", sigmoid},
    {"special_expit", sigmoid},
    {"lgamma", lgamma},
    {"digamma", digamma},
    {"deg2rad", [](Element a) { return a * (M_PI / 180.0); }},
    {"rad2deg", [](Element a) { return a * (180.0 / M_PI); }},
    {"sinc",
     [](Element a) {
       Element t = a * M_PI;
       return where(eq(a, 0.0), a.number(1), sin(t) / t);
     }},
    {"special_entr",
     [](Element a) {
       return where(isnan(a), a, where(gt(a, 0.0), -a * log(a), where(eq(a, 0.0), a.number(0), a.number(-INFINITY))));
     }},
    {"bitwise_not", [](Element a) { return !a; }},
};

/// Functions that jump.
const std::pair<std::string_view, Unary> kSteps[] = {
    {"floor", floor},
    {"ceil", ceil},
    {"trunc", trunc},
    {"round", round_even},
    {"sign", sign},
    {"sgn", sign},
    {"frac", [](Element a) { return a - trunc(a); }},
};

/// Predicates of the input in its own type, giving bool.
const std::pair<std::string_view, Unary> kPredicates[] = {
    {"isnan", isnan},
    {"isinf", isinf},
    {"signbit", [](Element a) { return is_floating(a.dtype()) ? signbit(a) : lt(a, a.number(0)); }},
    {"isfinite", [](Element a) { return (!isnan(a)) & (!isinf(a)); }},
    {"isposinf", [](Element a) { return eq(a, INFINITY); }},
    {"isneginf", [](Element a) { return eq(a, -INFINITY); }},
    {"logical_not", [](Element a) { return !is_true(a); }},
    {"isreal", [](Element a) { return Element{a.pool, a.pool->constant_int(DType::Bool, 1)}; }},
};

const std::pair<std::string_view, Binary> kBinary[] = {
    {"mul.Tensor", mul},
    {"mul.Scalar", mul},
    {"maximum.default", max_of},
    {"minimum.default", min_of},
    {"fmax.default", [](Element a, Element b) { return is_floating(a.dtype()) ? fmax(a, b) : max_of(a, b); }},
    {"fmin.default", [](Element a, Element b) { return is_floating(a.dtype()) ? fmin(a, b) : min_of(a, b); }},
    {"gcd.default", gcd},
    {"lcm.default", lcm},
    {"atan2.default", atan2},
    {"hypot.default", hypot},
    {"nextafter.default", nextafter},
    {"copysign.Tensor", copysign},
    {"copysign.Scalar", copysign},
    {"true_divide.Tensor", [](Element a, Element b) { return a / b; }},
    {"bitwise_and.Tensor", [](Element a, Element b) { return a & b; }},
    {"bitwise_and.Scalar", [](Element a, Element b) { return a & b; }},
    {"bitwise_and.Scalar_Tensor", [](Element a, Element b) { return a & b; }},
    {"bitwise_or.Tensor", [](Element a, Element b) { return a | b; }},
    {"bitwise_or.Scalar", [](Element a, Element b) { return a | b; }},
    {"bitwise_or.Scalar_Tensor", [](Element a, Element b) { return a | b; }},
    {"bitwise_xor.Tensor", [](Element a, Element b) { return a ^ b; }},
    {"bitwise_xor.Scalar", [](Element a, Element b) { return a ^ b; }},
    {"bitwise_xor.Scalar_Tensor", [](Element a, Element b) { return a ^ b; }},
    {"bitwise_left_shift.Tensor", shift_left},
    {"bitwise_left_shift.Tensor_Scalar", shift_left},
    {"bitwise_left_shift.Scalar_Tensor", shift_left},
    {"bitwise_right_shift.Tensor", shift_right},
    {"bitwise_right_shift.Tensor_Scalar", shift_right},
    {"bitwise_right_shift.Scalar_Tensor", shift_right},
    {"__lshift__.Tensor", shift_left},
    {"__lshift__.Scalar", shift_left},
    {"__rshift__.Tensor", shift_right},
    {"__rshift__.Scalar", shift_right},
    {"pow.Tensor_Tensor", pow},
    {"pow.Scalar", pow},
    {"xlogy.Tensor", xlogy},
    {"xlogy.Scalar_Self", xlogy},
    {"xlogy.Scalar_Other", xlogy},
    {"special_xlog1py.default", xlog1py},
    {"logaddexp.default", logaddexp},
    {"logaddexp2.default", logaddexp2},
    {"heaviside.default", heaviside},
};

const std::pair<std::string_view, Binary> kRemainders[] = {
    {"fmod.Tensor", fmod},
    {"fmod.Scalar", fmod},
    {"remainder.Tensor", remainder},
    {"remainder.Scalar", remainder},
    {"remainder.Scalar_Tensor", remainder},
};

/// Comparisons of both inputs in their promoted type, giving bool.
const std::pair<std::string_view, Binary> kComparisons[] = {
    {"eq", eq}, {"ne", ne}, {"lt", lt}, {"le", le}, {"gt", gt}, {"ge", ge},
};

const std::pair<std::string_view, Binary> kLogical[] = {
    {"logical_and", [](Element a, Element b) { return is_true(a) & is_true(b); }},
    {"logical_or", [](Element a, Element b) { return is_true(a) | is_true(b); }},
    {"logical_xor", [](Element a, Element b) { return is_true(a) ^ is_true(b); }},
};

/// An integer that something is divided by. As in eager, dividing by 0 fails the run on the CPU, and not on a GPU.
Element divisor(Context& ctx, Element b) {
  if (is_floating(b.dtype()) || is_bool(b) || !device_of(ctx).is_host()) return b;
  return {b.pool, b.pool->require(b, ne(b, 0.0))};
}

LoweringFunction in_result_type(Unary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype))));
  };
}

/// Of the value as it would be stored: in 16 bits, what is almost 1 is 1, and what is large is infinite.
LoweringFunction in_own_type(Unary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    const TensorBox box = ctx.tensor(args[0]);
    return result(ctx, f(as_stored(element(ctx, box, ctx.result().sizes), box.dtype())));
  };
}

LoweringFunction in_result_type(Binary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    const DType t = register_type(ctx.result().dtype);
    return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, t), operand(ctx, args[1], ctx.result().sizes, t)));
  };
}

/// An operand of a division that rounds, in the result's type as it would be stored: the quotient jumps.
Element rounded_operand(Context& ctx, const ops::Value& arg) {
  const DType stored = ctx.result().dtype;
  return as_stored(operand(ctx, arg, ctx.result().sizes, register_type(stored)), stored);
}

LoweringFunction of_remainder(Binary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, f(rounded_operand(ctx, args[0]), divisor(ctx, rounded_operand(ctx, args[1]))));
  };
}

/// A quotient that is made whole. A number to divide by stays what it is, as in eager.
Lowered whole_quotient(Context& ctx, const ops::Values& args, const ops::Value& rounding) {
  const DType t = register_type(ctx.result().dtype);
  const Element b =
      ctx.optional_tensor(args[1]) ? rounded_operand(ctx, args[1]) : operand(ctx, args[1], ctx.result().sizes, t);
  return result(ctx, divide(rounded_operand(ctx, args[0]), divisor(ctx, b), rounding));
}

LoweringFunction in_promoted_type(Binary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    const ops::Value* both[] = {&args[0], &args[1]};
    // Rounded to the narrow type when that is it: eager compares what it has stored.
    const DType t = promoted(ctx, both);
    auto value = [&](const ops::Value& arg) { return operand(ctx, arg, ctx.result().sizes, register_type(t)).cast(t); };
    return result(ctx, f(value(args[0]), value(args[1])));
  };
}

/// a + alpha*b, with the arguments in the order that `reversed` says, and `sign` before alpha.
LoweringFunction sum_with_alpha(bool reversed, double sign) {
  return [=](Context& ctx, const ops::Values& args) -> Lowered {
    const DType t = register_type(ctx.result().dtype);
    Element a = operand(ctx, args[reversed ? 1 : 0], ctx.result().sizes, t),
            b = operand(ctx, args[reversed ? 0 : 1], ctx.result().sizes, t);
    const ops::Value& alpha = ctx.node->arg("alpha");
    const auto* one = alpha.get_if<Expr>();
    if (!one || !one->is_constant(1)) b = b * Element{&ctx.graph.pool(), ctx.number(alpha, t)};
    return result(ctx, sign > 0 ? add(a, b) : a - b);
  };
}

/// The number that an argument is, if it is known while compiling.
std::optional<double> known_number(const ops::Value& arg) {
  const Expr* integer = arg.get_if<Expr>();
  if (arg.is<double>() || (integer && integer->is_constant())) return arg.as_double();
  return std::nullopt;
}

Lowered division(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  const bool exact = args.size() <= 2 || args[2].is_none();
  if (!exact) return whole_quotient(ctx, args, args[2]);
  const Element a = operand(ctx, args[0], ctx.result().sizes, t);
  // Eager multiplies by the inverse of a number on a GPU (aten/src/ATen/native/cuda/BinaryDivTrueKernel.cu).
  if (const auto divisor = known_number(args[1]);
      divisor && is_floating(t) && ctx.target().has(target::Feature::ThreadGrids))
    return result(ctx, a * (t == DType::F32 ? 1.0f / static_cast<float>(*divisor) : 1.0 / *divisor));
  return result(ctx, a / operand(ctx, args[1], ctx.result().sizes, t));
}

/// x^n by repeated squaring.
Element integer_power(const Element& x, std::int64_t n) {
  if (n == 1) return x;
  const Element half = integer_power(x, n / 2), square = half * half;
  return n % 2 ? square * x : square;
}

/// Exponents that eager computes without pow (aten/src/ATen/native/cpu/PowKernel.cpp), and small integer powers of
/// integers.
Lowered pow_scalar(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  Element x = operand(ctx, args[0], ctx.result().sizes, t);
  const double exponent = known_number(args[1]).value_or(NAN);
  if (exponent == 0) return result(ctx, x.number(1));
  if (exponent == 1) return result(ctx, x);
  if (exponent == 2) return result(ctx, x * x);
  if (exponent == 3) return result(ctx, x * x * x);
  if (is_floating(t)) {
    if (exponent == 0.5) return result(ctx, sqrt(x));
    if (exponent == -0.5) return result(ctx, rsqrt(x));
    if (exponent == -1) return result(ctx, recip(x));
    if (exponent == -2) return result(ctx, recip(x * x));
    // What is rounded to 16 bits does not show the roundings of a few products in f32, nor f32 those in f64.
    constexpr double kMost = 32;
    const double n = std::fabs(exponent);
    const bool narrow = t != ctx.result().dtype,
               wide = t == DType::F32 && !ctx.target().has(target::Feature::ThreadGrids);
    if ((narrow || wide) && n <= kMost && n == std::trunc(n)) {
      const Element power = integer_power(narrow ? x : x.cast(DType::F64), static_cast<std::int64_t>(n));
      return result(ctx, (exponent < 0 ? recip(power) : power).cast(t));
    }
  }
  return result(ctx, pow(x, Element{&ctx.graph.pool(), ctx.number(args[1], t)}));
}

Lowered select_where(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  const Exprs& sizes = ctx.result().sizes;
  Element c = element(ctx, ctx.tensor(args[0]), sizes).cast(DType::Bool);
  return result(ctx, where(c, operand(ctx, args[1], sizes, t), operand(ctx, args[2], sizes, t)));
}

Lowered masked_fill(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  const Exprs& sizes = ctx.result().sizes;
  Element mask = element(ctx, ctx.tensor(args[1]), sizes).cast(DType::Bool);
  return result(ctx, where(mask, operand(ctx, args[2], sizes, t), operand(ctx, args[0], sizes, t)));
}

/// min(high, max(low, x)), either bound absent; x comes second so that of equal zeros it is x that is returned.
LoweringFunction clamp(int low, int high) {
  return [=](Context& ctx, const ops::Values& args) -> Lowered {
    const DType t = register_type(ctx.result().dtype);
    const Exprs& sizes = ctx.result().sizes;
    Element x = operand(ctx, args[0], sizes, t);
    if (low > 0 && !args[static_cast<std::size_t>(low)].is_none())
      x = max_of(operand(ctx, args[static_cast<std::size_t>(low)], sizes, t), x);
    if (high > 0 && !args[static_cast<std::size_t>(high)].is_none())
      x = min_of(operand(ctx, args[static_cast<std::size_t>(high)], sizes, t), x);
    return result(ctx, x);
  };
}

Lowered lerp(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  const Exprs& sizes = ctx.result().sizes;
  Element a = operand(ctx, args[0], sizes, t), b = operand(ctx, args[1], sizes, t), w = operand(ctx, args[2], sizes, t);
  // Eager's two forms, so that a weight of 1 gives the end exactly.
  return result(ctx, where(lt(abs(w), 0.5), a + w * (b - a), b - (b - a) * (1.0 - w)));
}

/// self + value * f(tensor1, tensor2)
LoweringFunction add_combined(Binary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    const DType t = register_type(ctx.result().dtype);
    const Exprs& sizes = ctx.result().sizes;
    Element value{&ctx.graph.pool(), ctx.number(ctx.node->arg("value"), t)};
    Element combined = f(operand(ctx, args[1], sizes, t), operand(ctx, args[2], sizes, t));
    return result(ctx, operand(ctx, args[0], sizes, t) + value * combined);
  };
}

Lowered nan_to_num(Context& ctx, const ops::Values& args) {
  const DType dtype = ctx.result().dtype;
  Element x = operand(ctx, args[0], ctx.result().sizes, register_type(dtype));
  if (!is_floating(dtype)) return result(ctx, x);
  const double largest = dtype == DType::F64    ? std::numeric_limits<double>::max()
                         : dtype == DType::F16  ? 65504.0
                         : dtype == DType::BF16 ? 0x1.fep127
                                                : static_cast<double>(std::numeric_limits<float>::max());
  auto given = [&](std::size_t i, double otherwise) { return args[i].is_none() ? otherwise : args[i].as_double(); };
  Element low = where(eq(x, -INFINITY), x.number(given(3, -largest)), x);
  return result(ctx, where(isnan(x), x.number(given(1, 0)), where(eq(x, INFINITY), x.number(given(2, largest)), low)));
}

Lowered round_decimals(Context& ctx, const ops::Values& args) {
  Element x = operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype));
  if (!is_floating(x.dtype())) return result(ctx, x);
  const auto decimals = static_cast<double>(constant(ctx, args[1]));
  const double scale = std::pow(10.0, std::fabs(decimals));
  return result(ctx, decimals < 0 ? round_even(x / scale) * scale : round_even(x * scale) / scale);
}

Lowered ldexp(Context& ctx, const ops::Values& args) {
  const DType t = register_type(ctx.result().dtype);
  return result(ctx, operand(ctx, args[0], ctx.result().sizes, t) * exp2(operand(ctx, args[1], ctx.result().sizes, t)));
}

/// The second argument in the shape and dtype of the first.
LoweringFunction replace_by(std::size_t source) {
  return [source](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, operand(ctx, args[source], ctx.result().sizes, register_type(ctx.result().dtype)));
  };
}

}  // namespace

void add_arithmetic(Table& t) {
  auto aten = [](std::string_view name, std::string_view overload = "default") {
    return fmt::format("aten.{}.{}", name, overload);
  };
  for (auto& [name, f] : kUnary) t[aten(name)] = in_result_type(f);
  for (auto& [name, f] : kPredicates) t[aten(name)] = in_own_type(f);
  for (auto& [name, f] : kSteps) t[aten(name)] = in_own_type(f);
  for (auto& [name, f] : kBinary) t[fmt::format("aten.{}", name)] = in_result_type(f);
  for (auto& [name, f] : kRemainders) t[fmt::format("aten.{}", name)] = of_remainder(f);
  for (const char* name : {"aten.floor_divide.default", "aten.floor_divide.Scalar"})
    t[name] = [](Context& ctx, const ops::Values& args) {
      return whole_quotient(ctx, args, ops::Value(std::string("floor")));
    };
  for (auto& [name, f] : kComparisons) t[aten(name, "Tensor")] = t[aten(name, "Scalar")] = in_promoted_type(f);
  for (auto& [name, f] : kLogical) t[aten(name)] = in_promoted_type(f);
  t["aten.add.Tensor"] = t["aten.add.Scalar"] = sum_with_alpha(false, 1);
  t["aten.sub.Tensor"] = t["aten.sub.Scalar"] = sum_with_alpha(false, -1);
  t["aten.rsub.Tensor"] = t["aten.rsub.Scalar"] = sum_with_alpha(true, -1);
  t["aten.div.Tensor"] = t["aten.div.Scalar"] = t["aten.div.Tensor_mode"] = t["aten.div.Scalar_mode"] = division;
  t["aten.pow.Tensor_Scalar"] = pow_scalar;
  t["aten.where.self"] = t["aten.where.Scalar"] = t["aten.where.ScalarSelf"] = t["aten.where.ScalarOther"] =
      select_where;
  t["aten.masked_fill.Scalar"] = t["aten.masked_fill.Tensor"] = masked_fill;
  t["aten.clamp.default"] = t["aten.clamp.Tensor"] = clamp(1, 2);
  t["aten.clamp_min.default"] = t["aten.clamp_min.Tensor"] = clamp(1, 0);
  t["aten.clamp_max.default"] = t["aten.clamp_max.Tensor"] = clamp(0, 1);
  t["aten.lerp.Scalar"] = t["aten.lerp.Tensor"] = lerp;
  t["aten.addcmul.default"] = add_combined([](Element a, Element b) { return a * b; });
  t["aten.addcdiv.default"] = add_combined([](Element a, Element b) { return a / b; });
  t["aten.nan_to_num.default"] = nan_to_num;
  t["aten.round.decimals"] = round_decimals;
  t["aten.ldexp.Tensor"] = ldexp;
  t["aten.copy.default"] = replace_by(1);
  t["aten.fill.Scalar"] = t["aten.fill.Tensor"] = replace_by(1);
}

}  // namespace coil::lowering
