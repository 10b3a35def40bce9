// Arithmetic notation for scalars: `0.5 * x * (1.0 + erf(x * kSqrtHalf))` builds the expression.
#pragma once
#include "ir/scalar.h"

namespace coil::lowering {

/// A scalar with its pool. Operands of one expression have one dtype; plain numbers take it.
struct Element {
  ir::ScalarPool* pool = nullptr;
  ir::Scalar scalar = nullptr;

  DType dtype() const { return scalar->dtype; }
  Element number(double v) const { return {pool, pool->constant(dtype(), v)}; }
  Element cast(DType to) const { return {pool, pool->cast(scalar, to)}; }
  operator ir::Scalar() const { return scalar; }  // NOLINT: a value is its scalar
};

inline Element apply(ir::ScalarOp op, Element a) { return {a.pool, a.pool->op(op, a.scalar)}; }
inline Element apply(ir::ScalarOp op, Element a, Element b) { return {a.pool, a.pool->op(op, a.scalar, b.scalar)}; }
inline Element apply(ir::ScalarOp op, Element a, Element b, Element c) {
  return {a.pool, a.pool->op(op, a.scalar, b.scalar, c.scalar)};
}
inline Element where(Element condition, Element yes, Element no) {
  return {yes.pool, yes.pool->op(ir::ScalarOp::Where, condition.scalar, yes.scalar, no.scalar)};
}

// X(C++ name, scalar operator)
// clang-format off
#define COIL_VALUE_BINARY(X)                                                                                           \
  X(operator+, Add) X(operator-, Sub) X(operator*, Mul) X(operator/, Div) X(floor_div, FloorDiv)                       \
  X(trunc_div, TruncDiv)                                                                                               \
  X(remainder, Rem) X(fmod, Fmod) X(pow, Pow) X(maximum, Max) X(minimum, Min) X(fmax, FMax) X(fmin, FMin)              \
  X(gcd, Gcd) X(atan2, Atan2) X(hypot, Hypot) X(copysign, Copysign) X(nextafter, Nextafter) X(operator&, And)          \
  X(operator|, Or)                                                                                                     \
  X(operator^, Xor) X(shift_left, Shl) X(shift_right, Shr) X(eq, Eq) X(ne, Ne) X(lt, Lt) X(le, Le) X(gt, Gt) X(ge, Ge)
// clang-format on
#define X(name, op)                                                                            \
  inline Element name(Element a, Element b) { return apply(ir::ScalarOp::op, a, b); }          \
  inline Element name(Element a, double b) { return apply(ir::ScalarOp::op, a, a.number(b)); } \
  inline Element name(double a, Element b) { return apply(ir::ScalarOp::op, b.number(a), b); }
COIL_VALUE_BINARY(X)
#undef X
#undef COIL_VALUE_BINARY

// X(C++ name, scalar operator)
// clang-format off
#define COIL_VALUE_UNARY(X)                                                                                   \
  X(operator-, Neg) X(operator!, Not) X(abs, Abs) X(sign, Sign) X(sqrt, Sqrt) X(rsqrt, Rsqrt) X(recip, Recip) \
  X(floor, Floor) X(ceil, Ceil) X(trunc, Trunc) X(round_even, RoundEven) X(isnan, IsNan) X(isinf, IsInf)      \
  X(signbit, Signbit) X(exp, Exp) X(exp2, Exp2) X(expm1, Expm1) X(log, Log) X(log2, Log2) X(log10, Log10)     \
  X(log1p, Log1p) X(sin, Sin) X(cos, Cos) X(tan, Tan) X(asin, Asin) X(acos, Acos) X(atan, Atan) X(sinh, Sinh) \
  X(cosh, Cosh) X(tanh, Tanh) X(asinh, Asinh) X(acosh, Acosh) X(atanh, Atanh) X(erf, Erf) X(erfc, Erfc)       \
  X(erfinv, Erfinv) X(sigmoid, Sigmoid) X(lgamma, Lgamma) X(digamma, Digamma)
// clang-format on
#define X(name, op) \
  inline Element name(Element a) { return apply(ir::ScalarOp::op, a); }
COIL_VALUE_UNARY(X)
#undef X
#undef COIL_VALUE_UNARY

}  // namespace coil::lowering
