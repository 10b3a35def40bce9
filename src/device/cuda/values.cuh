// What CUDA has of floats, and their bits.
#pragma once
#include "machine.cuh"

// @piece values
template <class T> C_FN f64 c_cast_f64(T x) { return (f64)x; }
template <class To, class From> C_FN To c_bits_as(From x) {
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}
template <class T> C_FN f64 c_bitcast_f64(T x) { return c_bits_as<f64>(x); }
C_FN f32 c_abs(f32 x) { return fabsf(x); }
C_FN f64 c_abs(f64 x) { return fabs(x); }
C_FN f32 c_sqrt(f32 x) { return sqrtf(x); }
C_FN f64 c_sqrt(f64 x) { return sqrt(x); }
C_FN f32 c_rsqrt(f32 x) { return 1 / sqrtf(x); }
C_FN f64 c_rsqrt(f64 x) { return 1 / sqrt(x); }
C_FN f32 c_max(f32 x, f32 y) { return c_max_nan(x, y); }
C_FN f32 c_min(f32 x, f32 y) { return c_min_nan(x, y); }
C_FN f64 c_max(f64 x, f64 y) { return x != x ? x : x > y ? x : y; }
C_FN f64 c_min(f64 x, f64 y) { return x != x ? x : x < y ? x : y; }
C_FN bool c_isinf(f32 x) { return fabsf(x) == c_f32_of(0x7f800000u); }
C_FN bool c_isinf(f64 x) { return fabs(x) == c_f64_of(0x7ff0000000000000ull); }
C_FN bool c_signbit(f32 x) { return c_bits_of(x) >> 31; }
C_FN bool c_signbit(f64 x) { return c_bits_of(x) >> 63; }
C_FN f32 c_copysign(f32 x, f32 y) { return copysignf(x, y); }
C_FN f64 c_copysign(f64 x, f64 y) { return copysign(x, y); }
C_FN f32 c_nextafter(f32 x, f32 y) { return nextafterf(x, y); }
C_FN f64 c_nextafter(f64 x, f64 y) { return nextafter(x, y); }
C_FN f32 c_round(f32 x) { return rintf(x); }
C_FN f64 c_round(f64 x) { return rint(x); }
C_FN f32 c_floor(f32 x) { return floorf(x); }
C_FN f64 c_floor(f64 x) { return floor(x); }
C_FN f32 c_ceil(f32 x) { return ceilf(x); }
C_FN f64 c_ceil(f64 x) { return ceil(x); }
C_FN f32 c_trunc(f32 x) { return truncf(x); }
C_FN f64 c_trunc(f64 x) { return trunc(x); }
C_FN f32 c_truncdiv(f32 x, f32 y) { return truncf(x / y); }
C_FN f64 c_truncdiv(f64 x, f64 y) { return trunc(x / y); }
C_FN f32 c_fmod(f32 x, f32 y) { return fmodf(x, y); }
C_FN f64 c_fmod(f64 x, f64 y) { return fmod(x, y); }
C_FN f32 c_fma(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
// NaN is left out of these.
C_FN f32 c_max_number(f32 x, f32 y) { return fmaxf(x, y); }
