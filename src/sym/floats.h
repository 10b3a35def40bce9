// Floats inside sizes: `TruncToInt(FloatMul(0.3, ToFloat(s0)))`. A float that is read from data is one whose bits an
// unbacked symbol holds (`FloatOfBits(u0)`). A float stands only among the operands of Kind::Float, as the call that
// makes it or, where it is known, as the constant of its bits.
#pragma once
#include "support/float_functions.h"
#include "sym/shape_env.h"

namespace coil::sym {

/// The operand that a known float is.
inline Expr float_constant(double x) { return float_bits(x); }
/// The call, in canonical form: operands of sums and products ordered, what is known computed, and roundings that are
/// exact in integers (a quotient of integers; a product with a short binary fraction, for sizes below 2^43) made so.
Expr float_call(FloatFunction, Expr a, Expr b = 0);
/// The function and the operands of a Kind::Float.
FloatFunction float_function(Expr call);
std::span<const Expr> float_operands(Expr call);
/// Whether the expression is a call that gives a float.
bool is_float(Expr);
/// Bounds of a call that gives an integer; `interval` has those of the integers it is made of.
Range float_interval(Expr call, const std::function<Range(Expr)>& interval);
/// Whether there is such a call anywhere in the expression.
bool has_float(Expr);
/// Reads the text of a float, as `to_string` writes it inside a size: a number or a call. Throws Error with the
/// position of the fault.
Expr parse_float(std::string_view text, const std::function<Expr(std::string_view name)>& define);
/// The text of one.
std::string float_to_string(Expr);
/// `0.5`, `1e+30`, `-inf`: always to be told from an integer.
std::string float_text(double);

}  // namespace coil::sym
