// Elementary and special functions, by what every CUDA compiler brings where that is right.
#pragma once
#include "values.cuh"

#include "../grid/arithmetic.h"

// @piece math
#define C_FUNCTION(name)                          \
  C_FN f32 c_##name(f32 x) { return name##f(x); } \
  C_FN f64 c_##name(f64 x) { return name(x); }
C_FUNCTION(exp)
C_FUNCTION(exp2)
C_FUNCTION(expm1)
C_FUNCTION(log)
C_FUNCTION(log2)
C_FUNCTION(log10)
C_FUNCTION(log1p)
C_FUNCTION(sin)
C_FUNCTION(cos)
C_FUNCTION(tan)
C_FUNCTION(asin)
C_FUNCTION(acos)
C_FUNCTION(atan)
C_FUNCTION(sinh)
C_FUNCTION(cosh)
C_FUNCTION(tanh)
C_FUNCTION(asinh)
C_FUNCTION(acosh)
C_FUNCTION(atanh)
C_FN f64 c_floordiv(f64 x, f64 y) { return c_floordiv_float(x, y); }
C_FN f64 c_erf(f64 x) { return erf(x); }
C_FUNCTION(erfc)
C_FUNCTION(lgamma)
C_FN f64 c_sigmoid(f64 x) { return 1 / (1 + exp(-x)); }
C_FN f32 c_atan2(f32 x, f32 y) { return atan2f(x, y); }
C_FN f64 c_atan2(f64 x, f64 y) { return atan2(x, y); }
C_FN f32 c_hypot(f32 x, f32 y) { return hypotf(x, y); }
C_FN f64 c_hypot(f64 x, f64 y) { return hypot(x, y); }
C_FN f32 c_pow(f32 x, f32 y) { return powf(x, y); }
C_FN f64 c_pow(f64 x, f64 y) { return pow(x, y); }
static __device__ f64 c_digamma(f64 x) {
  if (x == 0) return copysign(c_f64_of(0x7ff0000000000000ull), -x);
  f64 r = 0;
  if (x < 0) {
    if (x == trunc(x)) return c_f64_of(0x7ff8000000000000ull);
    const f64 f = x - trunc(x);
    r = -3.14159265358979323846 / tan(3.14159265358979323846 * f);
    x = 1 - x;
  }
  for (; x < 10; x += 1) r -= 1 / x;
  const f64 z = 1 / (x * x);
  const f64 series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return r + log(x) - 0.5 / x - series;
}
C_FN f32 c_digamma(f32 x) { return (f32)c_digamma((f64)x); }
C_FN f64 c_erfinv(f64 x) { return c_erfinv_machine(x); }
C_FN f32 c_erfinv(f32 x) { return (f32)c_erfinv_machine((f64)x); }
