// The functions that models spend their time in: exp, log, tanh, erf, sigmoid and their kin.
//
// f32: range reduction and minimax polynomials (Remez, weighted for relative error of the result), one template for
// scalars and vectors. f64: the C library, lane by lane.
#pragma once
#include "lanes.h"

// @piece c_ibits c_fbits c_like c_tofloat
// Views of f32 as bits and constants of either shape, for templates over f32 and f32v.
COIL_FN i32 c_ibits(f32 x) { return __builtin_bit_cast(i32, x); }
COIL_FN i32v c_ibits(f32v x) { return (i32v)x; }
COIL_FN f32 c_fbits(i32 x) { return __builtin_bit_cast(f32, x); }
COIL_FN f32v c_fbits(i32v x) { return (f32v)x; }
COIL_FN f32 c_like(f32, f32 k) { return k; }
COIL_FN f32v c_like(f32v, f32 k) { return k - f32v{}; }
COIL_FN i32 c_like(i32, i32 k) { return k; }
COIL_FN i32v c_like(i32v, i32 k) { return k + i32v{}; }
COIL_FN f32 c_tofloat(i32 x) { return (f32)x; }
COIL_FN f32v c_tofloat(i32v x) { return COIL_CV(x, f32v); }

// @piece c_atmost c_atleast
// The lesser and the greater of x and a number; NaN stays. (The instructions give their second operand where one is
// NaN.)
COIL_FN f32 c_atmost(f32 x, f32 k) { return k < x ? k : x; }
COIL_FN f32 c_atleast(f32 x, f32 k) { return k > x ? k : x; }
#if COIL_L == 16 && defined(__AVX512F__) && defined(__clang__)
COIL_FN f32v c_atmost(f32v x, f32 k) { return (f32v)__builtin_ia32_minps512(k - f32v{}, x, 4); }
COIL_FN f32v c_atleast(f32v x, f32 k) { return (f32v)__builtin_ia32_maxps512(k - f32v{}, x, 4); }
#elif COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_atmost(f32v x, f32 k) { return (f32v)__builtin_ia32_minps512_mask(k - f32v{}, x, x, (u16)-1, 4); }
COIL_FN f32v c_atleast(f32v x, f32 k) { return (f32v)__builtin_ia32_maxps512_mask(k - f32v{}, x, x, (u16)-1, 4); }
#elif COIL_L == 8 && defined(__AVX__)
COIL_FN f32v c_atmost(f32v x, f32 k) { return (f32v)__builtin_ia32_minps256(k - f32v{}, x); }
COIL_FN f32v c_atleast(f32v x, f32 k) { return (f32v)__builtin_ia32_maxps256(k - f32v{}, x); }
#elif COIL_L == 4 && defined(__SSE__)
COIL_FN f32v c_atmost(f32v x, f32 k) { return (f32v)__builtin_ia32_minps(k - f32v{}, x); }
COIL_FN f32v c_atleast(f32v x, f32 k) { return (f32v)__builtin_ia32_maxps(k - f32v{}, x); }
#else
COIL_FN f32v c_atmost(f32v x, f32 k) { return k < x ? k - f32v{} : x; }
COIL_FN f32v c_atleast(f32v x, f32 k) { return k > x ? k - f32v{} : x; }
#endif

// @piece c_clamp
// x within [low, high]; NaN stays.
template <class V> COIL_FN V c_clamp(V x, f32 low, f32 high) { return c_atmost(c_atleast(x, low), high); }

// @piece c_whole
// The nearest whole number of x, |x| < 2^21, as c_whole(x) - 12583166: its bits, `c_ibits`, end with that number plus
// 254.
template <class V> COIL_FN V c_whole(V x) { return x + 12583166.0f; }

// @piece c_scale c_scale1
// p * 2^n for t = c_whole(n), n in [-252, 254], rounded once: by 2^floor(n/2) and by 2^ceil(n/2), whose biased
// exponents are the halves of those bits.
template <class V> COIL_FN V c_scale2(V p, V t) {
  auto i = c_ibits(t), j = i >> 1;
  return p * c_fbits(j << 23) * c_fbits((i - j) << 23);
}
COIL_FN f32 c_scale(f32 p, f32 t) { return c_scale2(p, t); }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_scale(f32v p, f32v t) {
  return (f32v)__builtin_ia32_scalefps512_mask(p, t - 12583166.0f, p, (u16)-1, 4);
}
#else
COIL_FN f32v c_scale(f32v p, f32v t) { return c_scale2(p, t); }
#endif
// The same for n in [-126, 127].
template <class V> COIL_FN V c_scale1(V p, V t) { return p * c_fbits((c_ibits(t) - 127) << 23); }

// @piece c_inverse
// 1 / x for |x| in [2^-64, 2^64], within an ulp. AVX-512 divides 16 numbers in 16 cycles.
COIL_FN f32 c_inverse(f32 x) { return 1.0f / x; }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_inverse(f32v x) {
  f32v r = (f32v)__builtin_ia32_rcp14ps512_mask(x, x, (u16)-1);
  return (1.0f - x * r) * r + r;
}
#else
COIL_FN f32v c_inverse(f32v x) { return 1.0f / x; }
#endif

// @piece c_fused
// x y + z with one rounding, also where the compiler makes no such thing of a product and a sum.
#ifdef __FMA__
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
COIL_FN f32v c_fused(f32v x, f32v y, f32v z) { return __builtin_elementwise_fma(x, y, z); }
#elif COIL_L == 16
COIL_FN f32v c_fused(f32v x, f32v y, f32v z) { return (f32v)__builtin_ia32_vfmaddps512_mask(x, y, z, (u16)-1, 4); }
#elif COIL_L == 8
COIL_FN f32v c_fused(f32v x, f32v y, f32v z) { return (f32v)__builtin_ia32_vfmaddps256(x, y, z); }
#else
COIL_FN f32v c_fused(f32v x, f32v y, f32v z) { return (f32v)__builtin_ia32_vfmaddps(x, y, z); }
#endif
#endif

// @piece c_div_by c_coarse_div_by
// x / y for many x: by the reciprocal, whose rounding the quotient's residual makes up for, where that is one
// instruction and exact. A zero, an infinity and NaN stand as they are.
#ifdef __FMA__
COIL_FN f32v c_div_by(f32v x, f32 y) {
  f32 size = c_absbits(y), r = 1.0f / y;
  if (__builtin_expect(!(size > 0x1p-64f && size < 0x1p64f), 0)) return x / y;
  f32v q = x * r, rest = c_fused(-q, f32v{} + y, x), better = c_fused(rest, f32v{} + r, q);
  return c_pick((u32v)(c_ibits(c_absbits(q)) - 1) < 0x7f7fffffu, better, q);
}
#else
COIL_FN f32v c_div_by(f32v x, f32 y) { return x / y; }
#endif
// For quotients that are rounded to f16 or bf16.
COIL_FN f32v c_coarse_div_by(f32v x, f32 y) {
  f32 size = c_absbits(y), r = 1.0f / y;
  if (__builtin_expect(!(size > 0x1p-64f && size < 0x1p64f), 0)) return x / y;
  return x * r;
}

// @piece c_exp_parts
// x = n ln 2 + r with n whole and |r| <= ln 2 / 2; gives exp(r) - 1, and t = c_whole(n). |x| < 2^15. The parts of ln 2:
// n times the first is exact.
template <class V> COIL_FN V c_exp_parts(V x, V& t) {
  t = c_whole(x * 1.44269504f);
  V n = t - 12583166.0f;
  V r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  V q = (((r * 1.3918873e-3f + 8.3676730e-3f) * r + 4.1666610e-2f) * r + 1.6666535e-1f) * r + 0.5f;
  return q * (r * r) + r;
}

// @piece c_exp
extern "C" double exp(double);
template <class V> COIL_FN V c_expf(V x) {
  V t, q = c_exp_parts(c_clamp(x, -104.0f, 89.0f), t);
  return c_scale(q + 1.0f, t);
}
COIL_FN f32 c_exp(f32 x) { return c_expf(x); }
COIL_FN f32v c_exp(f32v x) { return c_expf(x); }
COIL_FN f64 c_exp(f64 x) { return exp(x); }
COIL_FN f64v c_exp(f64v x) { return c_map(x, exp); }

// @piece c_coarse_exp
// For results that are rounded to f16 or bf16: within 2^-16 of the value. 2^y as 2^floor(y) P(y - floor(y)), P(0) = 1.
// AVX-512 has instructions for both parts, which take all numbers.
template <class V> COIL_FN V c_exp2_part(V r) {
  return (((r * 0.0134266843f + 0.0522424742f) * r + 0.241280205f) * r + 0.693044845f) * r + 1.0f;
}
template <class V> COIL_FN V c_coarse_expf(V x) {
  V y = c_clamp(x, -104.0f, 89.0f) * 1.44269504f, t = c_whole(y - 0.5f);
  return c_scale(c_exp2_part(y - (t - 12583166.0f)), t);
}
COIL_FN f32 c_coarse_exp(f32 x) { return c_coarse_expf(x); }
#if COIL_L == 16 && defined(__AVX512DQ__)
#ifdef __clang__
#define COIL_FRACTION(x) (f32v) __builtin_ia32_reduceps512_mask(x, 9, x, (u16) - 1, 4)
#else
#define COIL_FRACTION(x) (f32v) __builtin_ia32_reduceps512_mask(x, 9, x, (u16) - 1)
#endif
COIL_FN f32v c_coarse_exp(f32v x) {
  f32v y = x * 1.44269504f, p = c_exp2_part(COIL_FRACTION(y));
  return (f32v)__builtin_ia32_scalefps512_mask(p, y, p, (u16)-1, 4);
}
#else
COIL_FN f32v c_coarse_exp(f32v x) { return c_coarse_expf(x); }
#endif

// @piece c_exp2
extern "C" double exp2(double);
template <class V> COIL_FN V c_exp2f(V x) {
  x = c_clamp(x, -151.0f, 128.0f);
  V t = c_whole(x), r = x - (t - 12583166.0f);
  V q = ((((r * 0.0001547019f + 0.0013390878f) * r + 0.00961803f) * r + 0.05550357f) * r + 0.2402265f) * r + 0.6931472f;
  return c_scale(q * r + 1.0f, t);
}
COIL_FN f32 c_exp2(f32 x) { return c_exp2f(x); }
COIL_FN f32v c_exp2(f32v x) { return c_exp2f(x); }
COIL_FN f64 c_exp2(f64 x) { return exp2(x); }
COIL_FN f64v c_exp2(f64v x) { return c_map(x, exp2); }

// @piece c_expm1
// 2^n (q + 1) - 1 = 2^n q + (2^n - 1), where q keeps its relative precision near 0.
extern "C" double expm1(double);
template <class V> COIL_FN V c_expm1f(V x) {
  V y = c_clamp(x, -18.0f, 89.0f), t, q = c_exp_parts(y, t);
  // In halves, since 2^128 is not an f32.
  V s = c_scale(c_like(x, 0.5f), t), r = (s * q + (s - 0.5f)) * 2.0f;
  return c_pick(x == 0.0f, x, r);
}
COIL_FN f32 c_expm1(f32 x) { return c_expm1f(x); }
COIL_FN f32v c_expm1(f32v x) { return c_expm1f(x); }
COIL_FN f64 c_expm1(f64 x) { return expm1(x); }
COIL_FN f64v c_expm1(f64v x) { return c_map(x, expm1); }

// @piece c_tanh
// Below 0.6: x + x^3 P(x^2). Above: 1 - 2 / (exp(2x) + 1), which is 1 from 9.02 on.
extern "C" double tanh(double);
template <class V> COIL_FN V c_tanhf(V x) {
  V y = c_absbits(x), z = x * x;
  V p = (((z * -0.005900052f + 0.02079962f) * z - 0.05378481f) * z + 0.13331936f) * z - 0.333333f;
  p = p * z * x + x;
  V a = c_atmost(y, 9.02f), t, q = c_exp_parts(a + a, t), e = c_scale1(q + 1.0f, t);
  return c_copysign(c_pick(y > 0.6f, 1.0f - 2.0f * c_inverse(e + 1.0f), p), x);
}
COIL_FN f32 c_tanh(f32 x) { return c_tanhf(x); }
COIL_FN f32v c_tanh(f32v x) { return c_tanhf(x); }
COIL_FN f64 c_tanh(f64 x) { return tanh(x); }
COIL_FN f64v c_tanh(f64v x) { return c_map(x, tanh); }

// @piece c_sigmoid
COIL_FN f32 c_sigmoid(f32 x) { return 1.0f / (1.0f + c_exp(-x)); }
COIL_FN f32v c_sigmoid(f32v x) { return 1.0f / (1.0f + c_exp(-x)); }
COIL_FN f64 c_sigmoid(f64 x) { return 1 / (1 + c_exp(-x)); }
COIL_FN f64v c_sigmoid(f64v x) {
  x = c_exp(-x);
  return {1.0 / (1.0 + x.a), 1.0 / (1.0 + x.b)};
}

// @piece c_coarse_sigmoid
template <class V> COIL_FN V c_coarse_sigmoid(V x) { return 1.0f / (1.0f + c_coarse_exp(-x)); }

// @piece c_log_parts c_log_specials
// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt 2): gives log(1 + f) - f + f^2 / 2. Denormals are scaled first.
template <class V> COIL_FN V c_log_parts(V x, V& e, V& f) {
  auto small = x < 0x1p-126f;
  x = c_pick(small, x * 0x1p23f, x);
  auto i = c_ibits(x) - 0x3f3504f3;
  e = c_tofloat(i >> 23) - c_pick(small, c_like(x, 23.0f), c_like(x, 0.0f));
  f = c_fbits((i & 0x7fffff) + 0x3f3504f3) - 1.0f;
  V p = ((((((f * -0.07852245f + 0.128829f) * f - 0.1312994f) * f + 0.14180768f) * f - 0.16624503f) * f + 0.2000231f) *
             f -
         0.2500081f) *
            f +
        0.33333316f;
  return p * f * (f * f);
}
// log of 0, of less, of infinity and of NaN; y otherwise.
template <class V> COIL_FN V c_log_specials(V x, V y) {
  y = c_pick(x == 0.0f, c_like(x, -__builtin_inff()), y);
  y = c_pick(x == __builtin_inff(), x, y);
  return c_pick(x >= 0.0f, y, c_like(x, __builtin_nanf("")));
}

// @piece c_log
extern "C" double log(double);
template <class V> COIL_FN V c_logf(V x) {
  V e, f, p = c_log_parts(x, e, f);
  V y = e * -2.12194440e-4f + p;
  y = f * f * -0.5f + y;
  return c_log_specials(x, e * 0.693359375f + (f + y));
}
COIL_FN f32 c_log(f32 x) { return c_logf(x); }
COIL_FN f32v c_log(f32v x) { return c_logf(x); }
COIL_FN f64 c_log(f64 x) { return log(x); }
COIL_FN f64v c_log(f64v x) { return c_map(x, log); }

// @piece c_erf
// Below 0.9: x + x P(x^2). Above: 1 - 2^P(x), which is 1 from 3.95 on.
extern "C" double erf(double);
template <class V> COIL_FN V c_erff(V x) {
  V y = c_absbits(x), z = y * y;
  V p = ((((z * -0.0006016133f + 0.0049984376f) * z - 0.026770374f) * z + 0.112819225f) * z - 0.37612504f) * z +
        0.12837915f;
  p = x * p + x;
  y = c_atmost(y, 3.95f);
  V l = (((((y * 0.00028447245f - 0.0044082985f) * y + 0.03213898f) * y - 0.15009402f) * y - 0.9190832f) * y -
         1.6269985f) *
            y -
        0.00025610905f;
  V t = c_whole(l), r = l - (t - 12583166.0f);
  V q = ((((r * 0.0013434287f + 0.009673548f) * r + 0.055502422f) * r + 0.24022208f) * r + 0.69314724f) * r + 1.0f;
  q = c_scale1(q, t);
  return c_pick(c_absbits(x) > 0.9f, c_copysign(1.0f - q, x), p);
}
COIL_FN f32 c_erf(f32 x) { return c_erff(x); }
COIL_FN f32v c_erf(f32v x) { return c_erff(x); }
COIL_FN f64 c_erf(f64 x) { return erf(x); }
COIL_FN f64v c_erf(f64v x) { return c_map(x, erf); }

// @piece c_coarse_erf
// For results that are rounded to f16 or bf16, in half the instructions: erf within 15 ulp of f32, tanh within 6. x
// P(x^2) / Q(x^2) where the function is not yet 1.
template <class V> COIL_FN V c_coarse_erf(V x) {
  V y = c_clamp(x, -3.92f, 3.92f), z = y * y;
  V p = ((((z * -1.72342115e-06f + 0.000308472314f) * z + 0.0122055082f) * z + 0.0786620165f) * z + 0.409978607f) * z +
        1.1283787f;
  V q = (((z * 0.00288889894f + 0.0321603906f) * z + 0.201997348f) * z + 0.696654493f) * z + 1.0f;
  return y * p * c_inverse(q);
}

// @piece c_coarse_one_plus_erf
// erfc(-x), within 2^-14 of the value also where that is small: exp(-x^2) times a quotient that fits erfcx(|x|) within
// 2^-15 over [0, 12]. Further out it is 0 or 2 in f32.
template <class V> COIL_FN V c_coarse_one_plus_erf(V x) {
  V a = c_absbits(c_clamp(x, -12.0f, 12.0f));
  V p = (a * 0.25299868f + 0.793215f) * a + 1.0f;
  V q = ((a * 0.4480152f + 1.4151503f) * a + 1.922455f) * a + 1.0f;
  V tail = c_coarse_exp(a * -a) * p * c_inverse(q);
  return c_pick(x > 0.0f, 2.0f - tail, tail);
}

// @piece c_coarse_one_plus_tanh
template <class V> COIL_FN V c_coarse_one_plus_tanh(V x) { return 2.0f / (1.0f + c_coarse_exp(x * -2.0f)); }

// @piece c_coarse_tanh
template <class V> COIL_FN V c_coarse_tanh(V x) {
  V y = c_clamp(x, -9.01f, 9.01f), z = y * y;
  V p =
      ((((z * -1.01761682e-11f + 2.7558509e-08f) * z + 2.66498475e-05f) * z + 0.00379816971f) * z + 0.136231929f) * z +
      1.0f;
  V q = (((z * 1.19567336e-06f + 0.000381697665f) * z + 0.0269866813f) * z + 0.469565175f) * z + 1.0f;
  return y * p * c_inverse(q);
}
