// What shared/special.h is written in, where there is no f64, and functions of f32 that other machines' libraries have.
#pragma once
#include "scatter.h"

// @piece special
#define COIL_SPECIAL static inline
#define COIL_INFINITY c_f32_of(0x7f800000u)
#define COIL_NAN c_f32_of(0x7fc00000u)
#define COIL_LARGE 1e37f
#define COIL_SMALL 1e-37f
#define COIL_ERFCX_SERIES 5.0f
#define COIL_OF_ONE(f)
#define COIL_OF_TWO(f)
#define COIL_OF_THREE(f)

// @piece c_erfc
// From 1/2 on the integral of exp(-t^2) / (x^2 + t^2), which is pi / 2x exp(x^2) erfc(x), by the trapezoid rule of step
// 1/2, less what the poles at +-ix add to it.
C_FN f32 c_erfc(f32 x) {
  const f32 a = metal::fabs(x);
  if (!(a >= 0.5f)) return 1.0f - c_erf(x);
  if (a > 10.1f) return x < 0.0f ? 2.0f : 0.0f;
  const f32 q = a * a;
  f32 s = 0.5f / q;
  for (int k = 1; k <= 8; ++k) {
    const f32 t = 0.25f * (f32)(k * k);
    s += metal::exp(-t) / (q + t);
  }
  f32 r = 0.318309886f * a * metal::exp(-q) * s;
  if (a < 6.0f) r -= 2.0f / (metal::exp(12.5663706f * a) - 1.0f);
  return x < 0.0f ? 2.0f - r : r;
}

// @piece c_lgamma
// Stirling's series from 8 on, where the recurrence leads; reflected to the left of 1/2.
C_FN f32 c_log_gamma_right(f32 x) {
  f32 product = 1.0f;
  for (; x < 8.0f; x += 1.0f) product *= x;
  const f32 z = 1.0f / (x * x);
  const f32 series = (0.0833333333f - z * (0.00277777778f - z * 0.000793650794f)) / x;
  return (x - 0.5f) * metal::log(x) - x + 0.918938533f + series - metal::log(product);
}
C_FN f32 c_lgamma(f32 x) {
  if (c_isinf(x)) return c_f32_of(0x7f800000u);
  if (x == 1.0f || x == 2.0f) return 0.0f;
  if (!(x < 0.5f)) return c_log_gamma_right(x);
  if (x == metal::floor(x)) return c_f32_of(0x7f800000u);
  const f32 part = x - metal::floor(x);
  return metal::log(3.14159265f / metal::sin(3.14159265f * part)) - c_log_gamma_right(1.0f - x);
}

// @piece c_digamma
C_FN f32 c_digamma(f32 x) {
  if (x == 0.0f) return c_copysign(c_f32_of(0x7f800000u), -x);
  f32 r = 0.0f;
  if (x < 0.0f) {
    if (x == metal::trunc(x)) return c_f32_of(0x7fc00000u);
    r = -3.14159265f / metal::tan(3.14159265f * (x - metal::trunc(x)));
    x = 1.0f - x;
  }
  for (; x < 8.0f; x += 1.0f) r -= 1.0f / x;
  const f32 z = 1.0f / (x * x);
  return r + metal::log(x) - 0.5f / x - z * (0.0833333333f - z * (0.00833333333f - z * 0.00396825397f));
}

// @piece c_erfinv
// Halley's method: in the middle on erf, in the tails on erfc, which 1 - |x| is there without rounding.
C_FN f32 c_erfinv(f32 x) {
  const f32 a = metal::fabs(x);
  if (!(a < 1.0f)) return a == 1.0f ? c_copysign(c_f32_of(0x7f800000u), x) : c_f32_of(0x7fc00000u);
  const f32 q = 1.0f - a, t = metal::sqrt(-2.0f * metal::log(0.5f * q));
  f32 y = a < 0.5f ? a * (0.886226925f + a * a * 0.232013667f)
                   : 0.707106781f * (t - (2.515517f + t * (0.802853f + t * 0.010328f)) /
                                             (1.0f + t * (1.432788f + t * (0.189269f + t * 0.001308f))));
  for (int k = 0; k < 3; ++k) {
    const f32 u = (a < 0.5f ? c_erf(y) - a : q - c_erfc(y)) * 0.886226925f * metal::exp(y * y);
    y -= u / (1.0f + y * u);
  }
  return c_copysign(y, x);
}
