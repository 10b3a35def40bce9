// Elementary and special functions, by what every CUDA compiler brings where that is right.
#pragma once
#include "values.cuh"

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
C_FN f64 c_erf(f64 x) { return erf(x); }
// x P(x²) / Q(x²), both of degree 5, fitted for the least relative error over [0, 4], past which f32 has no digit left
// below 1: 3e-7, without a branch.
C_FN f32 c_erf(f32 x) {
  x = c_min_nan(c_max_nan(x, -4.0f), 4.0f);
  const f32 s = x * x;
  const f32 p = fmaf(fmaf(fmaf(fmaf(fmaf(0x1.0a9ea6p-19f, s, 0x1.2a5cdep-12f), s, 0x1.fcfd14p-9f), s, 0x1.b301dcp-5f),
                          s, 0x1.8c623ep-3f),
                     s, 0x1.20dd74p+0f);
  const f32 q = fmaf(fmaf(fmaf(fmaf(fmaf(0x1.39dd6ep-15f, s, 0x1.36c63ap-10f), s, 0x1.f24eb8p-7f), s, 0x1.d87978p-4f),
                          s, 0x1.027cdep-1f),
                     s, 1.0f);
  return c_min_nan(c_max_nan(x * p * c_rcp_fast(q), -1.0f), 1.0f);
}
// 1 + erf(x) = erfc(-x). 2 to the power of a P(a), of degree 7, is erfc(a) for a > 0, fitted for the least absolute
// error (2e-8) over [0, 4.2]; further out its tail keeps falling.
C_FN f32 c_one_plus_erf(f32 x) {
  const f32 a = fabsf(x);
  const f32 p = fmaf(
      fmaf(fmaf(fmaf(fmaf(fmaf(fmaf(-0x1.7c7e7p-15f, a, 0x1.d325a2p-12f), a, -0x1.867268p-10f), a, -0x1.962214p-11f), a,
                     0x1.cee88ep-6f),
                a, -0x1.301722p-3f),
           a, -0x1.d63aacp-1f),
      a, -0x1.a0be9ep+0f);
  const f32 tail = c_ex2(a * p);
  return x > 0 ? 2 - tail : tail;
}
C_FN f32 c_one_plus_tanh(f32 x) { return 2 * c_rcp_fast(1.0f + expf(-2 * x)); }
C_FUNCTION(erfc)
C_FUNCTION(lgamma)
C_FN f32 c_sigmoid(f32 x) { return c_rcp_fast(1.0f + expf(-x)); }
C_FN f64 c_sigmoid(f64 x) { return 1 / (1 + exp(-x)); }
C_FN f32 c_atan2(f32 x, f32 y) { return atan2f(x, y); }
C_FN f64 c_atan2(f64 x, f64 y) { return atan2(x, y); }
C_FN f32 c_hypot(f32 x, f32 y) { return hypotf(x, y); }
C_FN f64 c_hypot(f64 x, f64 y) { return hypot(x, y); }
C_FN f32 c_pow(f32 x, f32 y) { return powf(x, y); }
C_FN f64 c_pow(f64 x, f64 y) { return pow(x, y); }
// Integers wrap; a negative exponent gives 0, but for the bases 1 and -1.
template <class T> C_FN T c_pow(T x, T y) {
  if (y < 0) return x == (T)1 ? (T)1 : x == (T)-1 ? ((y & 1) ? (T)-1 : (T)1) : (T)0;
  T r = 1;
  for (; y; y = (T)(y >> 1), x = (T)(x * x))
    if (y & 1) r = (T)(r * x);
  return r;
}
template <class T> C_FN T c_gcd(T x, T y) {
  x = x < (T)0 ? (T)-x : x, y = y < (T)0 ? (T)-y : y;
  while (x != 0) {
    const T r = (T)(y % x);
    y = x;
    x = r;
  }
  return y;
}
// For what ends rounded to 16 bits, and for softmax: the relative error is at most that of x by the rounding of x log2
// e, |x| times 6e-8, and results under the least normal number are 0.
C_FN f32 c_exp_coarse(f32 x) { return c_ex2(x * 0x1.715476p+0f); }
C_FN f32 c_sigmoid_coarse(f32 x) { return c_rcp_fast(1.0f + c_exp_coarse(-x)); }
C_FN f32 c_one_plus_tanh_coarse(f32 x) { return 2 * c_rcp_fast(1.0f + c_exp_coarse(-2 * x)); }
C_FN f32 c_one_plus_erf_coarse(f32 x) { return c_one_plus_erf(x); }
// x / y for many x and one y: y and its reciprocal, both scaled by a power of two where y is very large or small, so
// that neither they nor quotients leave the range that a quotient of any use stays in.
struct c_divisor {
  f32 y, r, scale;
};
C_FN c_divisor c_divisor_of(f32 y) {
  const f32 a = fabsf(y), scale = a < 0x1p-64f ? 0x1p64f : a > 0x1p64f ? 0x1p-64f : 1.0f;
  return {y * scale, 1.0f / (y * scale), scale};
}
// The quotient's residual makes up for the reciprocal's rounding.
C_FN f32 c_div_by(f32 x, c_divisor d) {
  x *= d.scale;
  const f32 q = x * d.r, better = fmaf(fmaf(-q, d.y, x), d.r, q);
  return fabsf(better) < c_f32_of(0x7f800000u) ? better : q;
}
C_FN f32 c_div_by_coarse(f32 x, c_divisor d) { return x * d.scale * d.r; }
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
