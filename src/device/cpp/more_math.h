// The rarer functions: some in vectors, the others lane by lane through the C library.
#pragma once
#include "math.h"

// @piece COIL_OF_LIBRARY COIL_OF_LIBRARY_2
// What a function of one number, or of two, takes from the C library: numbers, and f64 lane by lane.
#define COIL_OF_LIBRARY(name)                        \
  extern "C" double name(double);                    \
  extern "C" float name##f(float);                   \
  COIL_FN f32 c_##name(f32 x) { return name##f(x); } \
  COIL_FN f64 c_##name(f64 x) { return name(x); }    \
  COIL_FN f64v c_##name(f64v x) { return c_map(x, name); }
#define COIL_OF_LIBRARY_2(name)                                \
  extern "C" double name(double, double);                      \
  extern "C" float name##f(float, float);                      \
  COIL_FN f32 c_##name(f32 x, f32 y) { return name##f(x, y); } \
  COIL_FN f64 c_##name(f64 x, f64 y) { return name(x, y); }    \
  COIL_FN f64v c_##name(f64v x, f64v y) { return c_map2(x, y, name); }

// @piece c_erfc
COIL_OF_LIBRARY(erfc)
COIL_FN f32v c_erfc(f32v x) { return c_map(x, erfcf); }

// @piece c_nextafter
COIL_OF_LIBRARY_2(nextafter)
COIL_FN f32v c_nextafter(f32v x, f32v y) { return c_map2(x, y, nextafterf); }

// @piece c_hypot
// Of f32 in f64, where squares neither overflow nor vanish. Infinity beside NaN is infinity.
COIL_OF_LIBRARY_2(hypot)
COIL_FN f32v c_hypot(f32v x, f32v y) {
  f64h a = COIL_CV(COIL_LO(x), f64h), b = COIL_CV(COIL_HI(x), f64h);
  f64h c = COIL_CV(COIL_LO(y), f64h), d = COIL_CV(COIL_HI(y), f64h);
  f64v sum = c_sqrt(f64v{a * a + c * c, b * b + d * d});
  f32v r = COIL_CAT(COIL_CV(sum.a, f32h), COIL_CV(sum.b, f32h)), infinite = f32v{} + __builtin_inff();
  return (c_absbits(x) == infinite) | (c_absbits(y) == infinite) ? infinite : r;
}

// @piece c_with_sign
// |x| with y's sign.
COIL_FN f32v c_with_sign(f32v x, f32v y) {
  const i32 sign = -0x7fffffff - 1;
  return (f32v)(((i32v)x & ~sign) | ((i32v)y & sign));
}

// @piece c_arcsine
// asin |x| up to a half; beyond it asin sqrt((1 - |x|) / 2), half of the angle that is left to pi / 2: as the sine and
// what the angle has more, with what the root's rounding lost.
struct c_arc {
  f32v sine, more;
  i32v beyond;
};
COIL_FN c_arc c_arcsine(f32v x) {
  f32v a = c_absbits(x);
  i32v beyond = a > 0.5f;
  f32v z = beyond ? (1.0f - a) * 0.5f : a * a, s = beyond ? c_sqrt(z) : a;
  f32v lost = beyond ? (z - s * s) / (s + s + 0x1p-60f) : f32v{};
  f32v p = (((z * 0.0382064506f + 0.0264942776f) * z + 0.0450107008f) * z + 0.0749880895f) * z + 0.166666731f;
  return {s, s * z * p + lost, beyond};
}

// @piece c_asin
COIL_OF_LIBRARY(asin)
COIL_FN f32v c_asin(f32v x) {
  c_arc r = c_arcsine(x);
  f32v far = (1.57079637f - 2.0f * r.sine) - (2.0f * r.more + 4.37113883e-8f);
  return x != x ? x : c_with_sign(r.beyond ? far : r.sine + r.more, x);
}

// @piece c_acos
COIL_OF_LIBRARY(acos)
COIL_FN f32v c_acos(f32v x) {
  c_arc r = c_arcsine(x);
  f32v left = (3.14159274f - 2.0f * r.sine) - (2.0f * r.more + 8.74227766e-8f), right = 2.0f * (r.sine + r.more);
  f32v near = (1.57079637f - c_with_sign(r.sine, x)) - (c_with_sign(r.more, x) + 4.37113883e-8f);
  return r.beyond ? (x < 0.0f ? left : right) : near;
}

// @piece c_arctangent
// atan(y / x) of numbers that are not negative, y at most x: beyond a half pi / 4 and the angle of (y - x) / (y + x),
// whose difference is exact, with what the sum's rounding lost.
COIL_FN f32v c_arctangent(f32v y, f32v x) {
  i32v beyond = y > x * 0.5f;
  f32v sum = x + y, lost = (x - sum) + y, divisor = beyond ? sum : x;
  f32v t = (beyond ? y - x : y) / divisor, z = t * t;
  f32v p = (((z * 0.0423579439f - 0.0824185535f) * z + 0.110082783f) * z - 0.142799273f) * z + 0.199998796f;
  f32v r = t * z * (p * z - 0.333333343f), more = r - (t * (lost / divisor) + 2.18556941e-8f);
  return beyond ? 0.785398185f + (t + more) : r + t;
}

// @piece c_atan
COIL_OF_LIBRARY(atan)
COIL_FN f32v c_atan(f32v x) {
  f32v a = c_absbits(x), one = f32v{} + 1.0f;
  i32v steep = a > 1.0f;
  f32v r = c_arctangent(steep ? one : a, steep ? a : one);
  r = steep ? 1.57079637f - (r + 4.37113883e-8f) : r;
  return x != x ? x : c_with_sign(r, x);
}

// @piece c_atan2
COIL_OF_LIBRARY_2(atan2)
COIL_FN f32v c_atan2(f32v y, f32v x) {
  f32v a = c_absbits(y), b = c_absbits(x);
  i32v steep = a > b, same = a == b;
  f32v low = steep ? b : a, high = steep ? a : b;
  // Two zeros have the angle of the first one, two infinities half of a right angle.
  high = same & (a == 0.0f) ? f32v{} + 1.0f : high;
  low = same & (a == __builtin_inff()) ? f32v{} + 1.0f : low;
  high = same & (a == __builtin_inff()) ? f32v{} + 1.0f : high;
  f32v scale = high > 0x1p126f ? f32v{} + 0.25f : f32v{} + 1.0f;  // a sum of two may overflow
  f32v r = c_arctangent(low * scale, high * scale);
  r = steep ? 1.57079637f - (r + 4.37113883e-8f) : r;
  r = (i32v)x < 0 ? 3.14159274f - (r + 8.74227766e-8f) : r;
  return (x != x) | (y != y) ? x + y : c_with_sign(r, y);
}

// @piece c_sinh
// By e^x - 1, which has all digits near 0; beyond 88 in two factors, since e^x overflows before half of it does.
COIL_OF_LIBRARY(sinh)
COIL_FN f32v c_sinh(f32v x) {
  f32v a = c_absbits(x), t = c_expm1(a), e = c_exp(a * 0.5f);
  f32v r = a > 88.0f ? e * 0.5f * e : 0.5f * (t + t / (t + 1.0f));
  return x != x ? x : c_with_sign(r, x);
}

// @piece c_cosh
COIL_OF_LIBRARY(cosh)
COIL_FN f32v c_cosh(f32v x) {
  f32v a = c_absbits(x), t = c_exp(a), e = c_exp(a * 0.5f);
  return a > 88.0f ? e * 0.5f * e : 0.5f * t + 0.5f / t;
}

// @piece c_log2
extern "C" double log2(double);
template <class V> COIL_FN V c_log2f(V x) {
  V e, f, p = c_log_parts(x, e, f), y = f + (f * f * -0.5f + p);
  return c_log_specials(x, y * 1.44269504f + e);
}
COIL_FN f32 c_log2(f32 x) { return c_log2f(x); }
COIL_FN f32v c_log2(f32v x) { return c_log2f(x); }
COIL_FN f64 c_log2(f64 x) { return log2(x); }
COIL_FN f64v c_log2(f64v x) { return c_map(x, log2); }

// @piece c_log10
extern "C" double log10(double);
template <class V> COIL_FN V c_log10f(V x) {
  V e, f, p = c_log_parts(x, e, f), y = f + (f * f * -0.5f + p);
  return c_log_specials(x, e * 0.301025390625f + (y * 0.434294482f + e * 4.605038981e-6f));
}
COIL_FN f32 c_log10(f32 x) { return c_log10f(x); }
COIL_FN f32v c_log10(f32v x) { return c_log10f(x); }
COIL_FN f64 c_log10(f64 x) { return log10(x); }
COIL_FN f64v c_log10(f64v x) { return c_map(x, log10); }

// @piece c_log1p
// log(1 + x) where 1 + x rounds to u: log u, and what the rounding lost over u.
extern "C" double log1p(double);
template <class V> COIL_FN V c_log1pf(V x) {
  V u = x + 1.0f, lost = c_pick(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f)) / u;
  V e, f, p = c_log_parts(u, e, f), y = e * -2.12194440e-4f + p;
  y = f * f * -0.5f + y;
  y = c_log_specials(u, e * 0.693359375f + (f + (y + lost)));
  return c_pick(c_absbits(x) < 0x1p-26f, x, y);
}
COIL_FN f32 c_log1p(f32 x) { return c_log1pf(x); }
COIL_FN f32v c_log1p(f32v x) { return c_log1pf(x); }
COIL_FN f64 c_log1p(f64 x) { return log1p(x); }
COIL_FN f64v c_log1p(f64v x) { return c_map(x, log1p); }

// @piece c_asinh
// Beyond 2^12 the logarithm of 2 |x|.
COIL_OF_LIBRARY(asinh)
COIL_FN f32v c_asinh(f32v x) {
  f32v a = c_absbits(x), square = a * a;
  f32v near = c_log1p(a + square / (1.0f + c_sqrt(square + 1.0f))), far = c_log(a) + 0.693147182f;
  return x != x ? x : c_with_sign(a > 4096.0f ? far : near, x);
}

// @piece c_acosh
COIL_OF_LIBRARY(acosh)
COIL_FN f32v c_acosh(f32v x) {
  f32v t = x - 1.0f, near = c_log1p(t + c_sqrt(t * 2.0f + t * t)), far = c_log(x) + 0.693147182f;
  return x < 1.0f ? f32v{} + __builtin_nanf("") : x > 4096.0f ? far : near;
}

// @piece c_atanh
COIL_OF_LIBRARY(atanh)
COIL_FN f32v c_atanh(f32v x) {
  f32v a = c_absbits(x), r = 0.5f * c_log1p(2.0f * a / (1.0f - a));
  return x != x ? x : a > 1.0f ? f32v{} + __builtin_nanf("") : c_with_sign(r, x);
}

// @piece c_quarters
// x less `turns` times pi/2, the nearest multiple: pi/2 in three parts, which needs the fused multiply-add and |x|
// below 2^16.
#ifdef __FMA__
COIL_FN f32v c_quarters(f32v x, i32v& turns) {
  f32v t = x * 0.636619772f + 12582912.0f, n = t - 12582912.0f;
  turns = (i32v)t;
  f32v r = c_fused(n, f32v{} - 1.57079637f, x);
  r = c_fused(n, f32v{} + 4.37113883e-8f, r);
  return c_fused(n, f32v{} + 1.71512451e-15f, r);
}
#endif

// @piece c_trig
// sin(x + shift pi/2). A vector with a lane past 2^16 goes through the C library.
extern "C" double sin(double);
extern "C" float sinf(float);
extern "C" double cos(double);
extern "C" float cosf(float);
#ifdef __FMA__
COIL_FN f32v c_trig(f32v x, i32 shift) {
  i32v k;
  f32v r = c_quarters(x, k);
  k = k + shift;
  f32v z = r * r, s = ((z * 2.717568e-06f - 1.9839259e-4f) * z + 8.333329e-3f) * z - 0.16666667f;
  f32v c = ((z * 2.4431243e-05f - 1.3887306e-3f) * z + 4.1666646e-2f) * z - 0.5f;
  s = s * z * r + r;
  c = c * z + 1.0f;
  f32v y = (k & 1) != 0 ? c : s;
  return (f32v)((i32v)y ^ ((k & 2) << 30));
}
#endif

// @piece c_sin
COIL_FN f32 c_sin(f32 x) { return sinf(x); }
COIL_FN f64 c_sin(f64 x) { return sin(x); }
COIL_FN f32v c_sin(f32v x) {
#ifdef __FMA__
  if (__builtin_expect(c_hall(boolv{c_absbits(x) < 65536.0f}), 1)) {
    f32v y = c_trig(x, 0);
    return x == 0.0f ? x : y;
  }
#endif
  return c_map(x, sinf);
}
COIL_FN f64v c_sin(f64v x) { return c_map(x, sin); }

// @piece c_cos
COIL_FN f32 c_cos(f32 x) { return cosf(x); }
COIL_FN f64 c_cos(f64 x) { return cos(x); }
COIL_FN f32v c_cos(f32v x) {
#ifdef __FMA__
  if (__builtin_expect(c_hall(boolv{c_absbits(x) < 65536.0f}), 1)) return c_trig(x, 1);
#endif
  return c_map(x, cosf);
}
COIL_FN f64v c_cos(f64v x) { return c_map(x, cos); }

// @piece c_tan
// tan of what quarter turns leave, or -1 / tan of it behind an odd number of them.
COIL_OF_LIBRARY(tan)
COIL_FN f32v c_tan(f32v x) {
#ifdef __FMA__
  if (__builtin_expect(c_hall(boolv{c_absbits(x) < 65536.0f}), 1)) {
    i32v turns;
    f32v r = c_quarters(x, turns), z = r * r;
    f32v p = ((z * 3.86516843e-3f + 1.1451022e-3f) * z + 9.98964719e-3f) * z + 0.0216124766f;
    p = ((p * z + 0.0539956912f) * z + 0.133332253f) * z + 0.333333343f;
    f32v t = r * z * p + r;
    f32v y = (turns & 1) != 0 ? -1.0f / t : t;
    return x == 0.0f ? x : y;
  }
#endif
  return c_map(x, tanf);
}

// @piece c_pow c_powh
// Powers of f32 vectors are 2^(y log2 |x|) in f64. Integers by squaring; a negative exponent gives 0 unless the base is
// 1 or -1.
extern "C" double pow(double, double);
extern "C" float powf(float, float);
COIL_FN f32 c_pow(f32 x, f32 y) { return powf(x, y); }
COIL_FN f64 c_pow(f64 x, f64 y) { return pow(x, y); }
COIL_FN f64v c_pow(f64v x, f64v y) { return c_map2(x, y, pow); }
COIL_FN f64h c_powh(f64h x, f64h y) {
  i64h i = (i64h)x - 0x3fe6a09e667f3bcd;
  f64h e = COIL_CV(i >> 52, f64h), m = (f64h)((i & 0xfffffffffffff) + 0x3fe6a09e667f3bcd), s = (m - 1.0) / (m + 1.0),
       z = s * s;
  f64h l = ((((z * 0.2829297627991932 + 0.3199036695936105) * z + 0.4122093006974874) * z + 0.5770779418979564) * z +
            0.9617966941149081) *
               z +
           2.885390081777849;
  l = x == 0.0 ? f64h{} - __builtin_inf() : x == __builtin_inf() ? x : l * s + e;
  f64h t = y * l, top = f64h{} + 300.0;
  t = top < t ? top : t;
  t = -top > t ? -top : t;
  f64h n = (t + 6755399441055744.0) - 6755399441055744.0, r = t - n;
  f64h p = (((((((r * 1.3175872805048894e-06 + 1.5309738637991285e-05) * r + 0.00015403851663706904) * r +
                0.0013333452056846081) *
                   r +
               0.009618128543033044) *
                  r +
              0.055504109393485525) *
                 r +
             0.24022650698879033) *
                r +
            0.693147180546512) *
               r +
           1.0;
  return p * (f64h)(((i64h)(n + 6755399441055744.0) - 0x4338000000000000 + 1023) << 52);
}
COIL_FN f32v c_pow(f32v x, f32v y) {
  f32v a = c_absbits(x), b = c_absbits(y);
  f32v r = COIL_CAT(COIL_CV(c_powh(COIL_CV(COIL_LO(a), f64h), COIL_CV(COIL_LO(y), f64h)), f32h),
                    COIL_CV(c_powh(COIL_CV(COIL_HI(a), f64h), COIL_CV(COIL_HI(y), f64h)), f32h));
  i32v whole = c_round(y) == y, odd = whole & (b < 0x1p24f) & ((COIL_CV(b < 0x1p24f ? b : f32v{}, i32v) & 1) != 0);
  r = (f32v)((i32v)r | ((i32v)x & odd & (-0x7fffffff - 1)));
  r = (x < 0.0f) & (a < __builtin_inff()) & ~whole ? f32v{} + __builtin_nanf("") : r;
  r = (a == 1.0f) & (b == __builtin_inff()) ? a : r;
  r = (x != x) | (y != y) ? x + y : r;
  return (y == 0.0f) | (x == 1.0f) ? f32v{} + 1.0f : r;
}
template <class T> COIL_FN T c_pow(T x, T y) {
  if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? (T)-1 : (T)1) : (T)0;
  T r = 1;
  for (; y; y >>= 1, x = (T)(x * x)) r = y & 1 ? (T)(r * x) : r;
  return r;
}
// @for $t: i8, i16, i32, i64, u8, u16, u32, u64
COIL_FN $tv c_pow($tv x, $tv y) {
  return c_map2(x, y, []($t a, $t b) { return c_pow(a, b); });
}
// @end

// @piece c_lgamma
// log |gamma|; the _r forms write no global.
extern "C" double lgamma_r(double, int*);
extern "C" float lgammaf_r(float, int*);
COIL_FN f32 c_lgamma(f32 x) {
  int sign;
  return lgammaf_r(x, &sign);
}
COIL_FN f64 c_lgamma(f64 x) {
  int sign;
  return lgamma_r(x, &sign);
}
COIL_FN f32v c_lgamma(f32v x) {
  return c_map(x, [](f32 y) { return c_lgamma(y); });
}
COIL_FN f64v c_lgamma(f64v x) {
  return c_map(x, [](f64 y) { return c_lgamma(y); });
}

// @piece c_digamma
// Up to 10 by psi(x) = psi(x + 1) - 1 / x, then the asymptotic series; below 0 by reflection. At -n NaN, at 0 -inf with
// 0's sign turned.
extern "C" double log(double);
extern "C" double tan(double);
extern "C" double trunc(double);
static f64 c_digamma(f64 x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  f64 r = 0;
  if (x < 0) {
    f64 q = x - trunc(x);
    if (q == 0) return __builtin_nan("");
    r = -3.14159265358979323846 / tan(3.14159265358979323846 * q);
    x = 1 - x;
  }
  for (; x < 10; x += 1) r -= 1 / x;
  f64 z = 1 / (x * x);
  f64 s = z * (1.0 / 12 -
               z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return r + (log(x) - 0.5 / x - s);
}
COIL_FN f32 c_digamma(f32 x) { return (f32)c_digamma((f64)x); }
COIL_FN f32v c_digamma(f32v x) {
  return c_map(x, [](f32 y) { return c_digamma(y); });
}
COIL_FN f64v c_digamma(f64v x) {
  return c_map(x, [](f64 y) { return c_digamma(y); });
}

// @piece c_erfinv
// A start that is right to 2e-3 (Winitzki 2008), then Halley's method; near 1 on erfc, where erf has no digits left.
extern "C" double log1p(double);
extern "C" double sqrt(double);
extern "C" double exp(double);
extern "C" double erf(double);
extern "C" double erfc(double);
static f64 c_erfinv(f64 y) {
  f64 a = __builtin_fabs(y);
  if (!(a < 1)) return a == 1 ? __builtin_copysign(__builtin_inf(), y) : __builtin_nan("");
  if (a == 0) return y;
  f64 l = log1p(-a * a), b = 4.3307467507505 + 0.5 * l, x = sqrt(sqrt(b * b - l / 0.147) - b);
  for (int i = 0; i < 3; i++) {
    f64 miss = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x), step = miss / (1.12837916709551257390 * exp(-x * x));
    x -= step / (1 + x * step);
  }
  return __builtin_copysign(x, y);
}
COIL_FN f32 c_erfinv(f32 x) { return (f32)c_erfinv((f64)x); }
COIL_FN f32v c_erfinv(f32v x) {
  return c_map(x, [](f32 y) { return c_erfinv(y); });
}
COIL_FN f64v c_erfinv(f64v x) {
  return c_map(x, [](f64 y) { return c_erfinv(y); });
}
