// What Metal has of floats: its elementary functions, and those of C that it lacks.
#pragma once
#include "machine.h"

// @piece values
C_FN f32 c_abs(f32 x) { return metal::fabs(x); }
C_FN f32 c_sqrt(f32 x) { return metal::sqrt(x); }
C_FN f32 c_rsqrt(f32 x) { return 1.0f / metal::sqrt(x); }
C_FN f32 c_max(f32 x, f32 y) { return c_max_nan(x, y); }
C_FN f32 c_min(f32 x, f32 y) { return c_min_nan(x, y); }
C_FN bool c_isinf(f32 x) { return metal::fabs(x) == c_f32_of(0x7f800000u); }
C_FN bool c_signbit(f32 x) { return c_bits_of(x) >> 31; }
C_FN f32 c_copysign(f32 x, f32 y) { return c_f32_of((c_bits_of(x) & 0x7fffffffu) | (c_bits_of(y) & 0x80000000u)); }
C_FN f32 c_round(f32 x) { return metal::rint(x); }
C_FN f32 c_floor(f32 x) { return metal::floor(x); }
C_FN f32 c_ceil(f32 x) { return metal::ceil(x); }
C_FN f32 c_trunc(f32 x) { return metal::trunc(x); }
C_FN f32 c_truncdiv(f32 x, f32 y) { return metal::trunc(x / y); }
C_FN f32 c_fma(f32 x, f32 y, f32 z) { return metal::fma(x, y, z); }
// NaN is left out of this.
C_FN f32 c_max_number(f32 x, f32 y) { return metal::fmax(x, y); }
// Exact, by what is left at each digit of the quotient: Metal's own goes by one division, which rounds.
C_FN f32 c_fmod(f32 x, f32 y) {
  const u32 sign = c_bits_of(x) & 0x80000000u, a = c_bits_of(x) & 0x7fffffffu, b = c_bits_of(y) & 0x7fffffffu;
  if (b == 0 || a >= 0x7f800000u || b > 0x7f800000u) return c_f32_of(0x7fc00000u);
  if (a < b) return x;
  i32 ea = (i32)(a >> 23), eb = (i32)(b >> 23);
  u32 ma = ea ? (a & 0x7fffffu) | 0x800000u : a, mb = eb ? (b & 0x7fffffu) | 0x800000u : b;
  if (!ea)
    for (ea = 1; ma < 0x800000u; --ea) ma <<= 1;
  if (!eb)
    for (eb = 1; mb < 0x800000u; --eb) mb <<= 1;
  for (; ea > eb; --ea) ma = (ma >= mb ? ma - mb : ma) << 1;
  if (ma >= mb) ma -= mb;
  if (ma == 0) return c_f32_of(sign);
  for (; ma < 0x800000u; --ea) ma <<= 1;
  return c_f32_of(sign | (ea > 0 ? (ma & 0x7fffffu) | (u32)ea << 23 : ma >> (1 - ea)));
}
C_FN f32 c_nextafter(f32 x, f32 y) {
  if (x != x || y != y) return c_f32_of(0x7fc00000u);
  if (x == y) return y;
  if (x == 0) return c_f32_of((c_bits_of(y) & 0x80000000u) | 1u);
  return c_f32_of(c_bits_of(x) + ((x < y) == (x > 0) ? 1u : ~0u));
}
// @for $f: exp, exp2, log, log2, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh
C_FN f32 c_$f(f32 x) { return metal::$f(x); }
// @end
// What rounds in 1 + x, or in exp(x), is made up for (Kahan).
C_FN f32 c_log1p(f32 x) {
  const f32 u = 1.0f + x;
  if (u == 1.0f) return x;
  return u == c_f32_of(0x7f800000u) ? u : metal::log(u) * (x / (u - 1.0f));
}
C_FN f32 c_expm1(f32 x) {
  if (x != x || metal::fabs(x) > 20.0f) return metal::exp(x) - 1.0f;
  const f32 u = metal::exp(x);
  if (u == 1.0f) return x;
  return u - 1.0f == -1.0f ? -1.0f : (u - 1.0f) * (x / metal::log(u));
}
C_FN f32 c_atan2(f32 x, f32 y) { return metal::atan2(x, y); }
C_FN f32 c_pow(f32 x, f32 y) { return metal::pow(x, y); }
C_FN f32 c_hypot(f32 x, f32 y) {
  const f32 a = metal::fabs(x), b = metal::fabs(y);
  if (c_isinf(a) || c_isinf(b)) return c_f32_of(0x7f800000u);
  const f32 m = c_max_nan(a, b), l = c_min_nan(a, b);
  if (m == 0) return m;
  const f32 q = l / m;
  return m * metal::sqrt(1.0f + q * q);
}
