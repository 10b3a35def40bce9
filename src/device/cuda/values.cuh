// Conversions, arithmetic, comparison, bits: torch's answers where C++ has none.
#pragma once
#include "machine.cuh"

// @piece values
template <class T> struct c_is_float {
  static constexpr bool value = false;
};
template <> struct c_is_float<f32> {
  static constexpr bool value = true;
};
template <> struct c_is_float<f64> {
  static constexpr bool value = true;
};

// ---- Conversions. Floats to small integers go the way of torch's scalar conversions: to u8 through i64, to the other
// small ones through i32.
template <class T> C_FN f32 c_cast_f32(T x) { return (f32)x; }
template <class T> C_FN f64 c_cast_f64(T x) { return (f64)x; }
template <class T> C_FN i64 c_cast_i64(T x) { return (i64)x; }
template <class T> C_FN i32 c_cast_i32(T x) { return (i32)x; }
template <class T> C_FN i16 c_cast_i16(T x) { return (i16)(i32)x; }
template <class T> C_FN i8 c_cast_i8(T x) { return (i8)(i32)x; }
template <class T> C_FN u64 c_cast_u64(T x) { return (u64)x; }
template <class T> C_FN u32 c_cast_u32(T x) { return (u32)(i64)x; }
template <class T> C_FN u16 c_cast_u16(T x) { return (u16)(i32)x; }
template <class T> C_FN u8 c_cast_u8(T x) { return (u8)(i64)x; }
template <class T> C_FN bool c_cast_b8(T x) { return x != 0; }
C_FN f32 c_get_bf16(u16 x) { return c_f32_of((u32)x << 16); }
C_FN f32 c_round_f16(f32 x) { return c_get_f16(c_put_f16(x)); }
C_FN f32 c_round_bf16(f32 x) { return c_f32_of(c_put_bf16_pair(0.0f, x)); }
template <class T> C_FN f32 c_cast_f16(T x) { return c_round_f16((f32)x); }
template <class T> C_FN f32 c_cast_bf16(T x) { return c_round_bf16((f32)x); }
// Floats of 8 bits: f32's own rounding, made to cut at their last digit by a large number added; what overflows is
// infinity in e5m2, the greatest number in e4m3fn.
C_FN u8 c_put_float8(f32 x, u32 shift, u32 least, u32 limit, u32 overflow) {
  u32 u = c_bits_of(x);
  const u32 s = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return (u8)(s | 0x7fu);
  if (u >= limit) return (u8)(s | overflow);
  const u32 e = (u & 0x7f800000u) < least ? least : u & 0x7f800000u;
  const f32 big = c_f32_of(e + (shift << 23));
  return (u8)(s | (c_bits_of(c_f32_of(u) + big) - c_bits_of(big) + ((e - least) >> shift)));
}
C_FN u8 c_put_f8e5m2(f32 x) { return c_put_float8(x, 21, 0x38800000u, 0x47800000u, 0x7cu); }
C_FN u8 c_put_f8e4m3fn(f32 x) { return c_put_float8(x, 20, 0x3c800000u, 0x43e80000u, 0x7eu); }
C_FN f32 c_get_f8e5m2(u8 x) { return c_get_f16((u16)(x << 8)); }
C_FN f32 c_get_f8e4m3fn(u8 x) {
  return c_f32_of(
      ((x & 0x7fu) == 0x7fu ? 0x7fc00000u : c_bits_of(c_f32_of((x & 0x7fu) << 20) * c_f32_of(0x7b800000u))) |
      (u32)(x & 0x80u) << 24);
}
C_FN f32 c_round_f8e5m2(f32 x) { return c_get_f8e5m2(c_put_f8e5m2(x)); }
C_FN f32 c_round_f8e4m3fn(f32 x) { return c_get_f8e4m3fn(c_put_f8e4m3fn(x)); }
template <class T> C_FN f32 c_cast_f8e5m2(T x) { return c_round_f8e5m2((f32)x); }
template <class T> C_FN f32 c_cast_f8e4m3fn(T x) { return c_round_f8e4m3fn((f32)x); }
template <class To, class From> C_FN To c_bits_as(From x) {
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}
template <class T> C_FN f32 c_bitcast_f32(T x) { return c_bits_as<f32>(x); }
template <class T> C_FN f64 c_bitcast_f64(T x) { return c_bits_as<f64>(x); }
template <class T> C_FN i64 c_bitcast_i64(T x) { return c_bits_as<i64>(x); }
template <class T> C_FN i32 c_bitcast_i32(T x) { return c_bits_as<i32>(x); }
template <class T> C_FN i16 c_bitcast_i16(T x) { return c_bits_as<i16>(x); }
template <class T> C_FN i8 c_bitcast_i8(T x) { return c_bits_as<i8>(x); }
template <class T> C_FN u64 c_bitcast_u64(T x) { return c_bits_as<u64>(x); }
template <class T> C_FN u32 c_bitcast_u32(T x) { return c_bits_as<u32>(x); }
template <class T> C_FN u16 c_bitcast_u16(T x) { return c_bits_as<u16>(x); }
template <class T> C_FN u8 c_bitcast_u8(T x) { return c_bits_as<u8>(x); }

// ---- Arithmetic. bool + bool is or, bool * bool is and.
template <class T> C_FN T c_add(T x, T y) { return (T)(x + y); }
C_FN bool c_add(bool x, bool y) { return x || y; }
template <class T> C_FN T c_sub(T x, T y) { return (T)(x - y); }
template <class T> C_FN T c_mul(T x, T y) { return (T)(x * y); }
C_FN bool c_mul(bool x, bool y) { return x && y; }
template <class T> C_FN T c_div(T x, T y) { return x / y; }
template <class T> C_FN T c_neg(T x) { return (T)-x; }
template <class T> C_FN T c_recip(T x) { return (T)1 / x; }
template <class T> C_FN T c_abs(T x) { return x < 0 ? (T)-x : x; }
C_FN u8 c_abs(u8 x) { return x; }
C_FN u16 c_abs(u16 x) { return x; }
C_FN u32 c_abs(u32 x) { return x; }
C_FN u64 c_abs(u64 x) { return x; }
C_FN bool c_abs(bool x) { return x; }
C_FN f32 c_abs(f32 x) { return fabsf(x); }
C_FN f64 c_abs(f64 x) { return fabs(x); }
// NaN has the sign 0.
template <class T> C_FN T c_sign(T x) { return (T)((x > 0) - (x < 0)); }
C_FN bool c_sign(bool x) { return x; }
C_FN f32 c_sqrt(f32 x) { return sqrtf(x); }
C_FN f64 c_sqrt(f64 x) { return sqrt(x); }
C_FN f32 c_rsqrt(f32 x) { return 1 / sqrtf(x); }
C_FN f64 c_rsqrt(f64 x) { return 1 / sqrt(x); }
// NaN of either side goes through max and min; fmax and fmin ignore it.
template <class T> C_FN T c_max(T x, T y) { return x > y ? x : y; }
template <class T> C_FN T c_min(T x, T y) { return x < y ? x : y; }
C_FN f32 c_max(f32 x, f32 y) { return c_max_nan(x, y); }
C_FN f32 c_min(f32 x, f32 y) { return c_min_nan(x, y); }
C_FN f64 c_max(f64 x, f64 y) { return x != x ? x : x > y ? x : y; }
C_FN f64 c_min(f64 x, f64 y) { return x != x ? x : x < y ? x : y; }
template <class T> C_FN T c_fmax(T x, T y) { return y != y ? x : x > y ? x : y; }
template <class T> C_FN T c_fmin(T x, T y) { return y != y ? x : x < y ? x : y; }
template <class T> C_FN bool c_eq(T x, T y) { return x == y; }
template <class T> C_FN bool c_ne(T x, T y) { return x != y; }
template <class T> C_FN bool c_lt(T x, T y) { return x < y; }
template <class T> C_FN bool c_le(T x, T y) { return x <= y; }
template <class T> C_FN bool c_gt(T x, T y) { return x > y; }
template <class T> C_FN bool c_ge(T x, T y) { return x >= y; }
template <class T> C_FN T c_where(bool c, T x, T y) { return c ? x : y; }
template <class T> C_FN bool c_isnan(T x) { return x != x; }
C_FN bool c_isinf(f32 x) { return fabsf(x) == c_f32_of(0x7f800000u); }
C_FN bool c_isinf(f64 x) { return fabs(x) == c_f64_of(0x7ff0000000000000ull); }
template <class T> C_FN bool c_signbit(T x) { return x < 0; }
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

// ---- Bits. Shifts by less than 0 or by the width and more: 0 to the left, the sign to the right.
template <class T> C_FN T c_and(T x, T y) { return (T)(x & y); }
template <class T> C_FN T c_or(T x, T y) { return (T)(x | y); }
template <class T> C_FN T c_xor(T x, T y) { return (T)(x ^ y); }
template <class T> C_FN T c_not(T x) { return (T)~x; }
C_FN bool c_not(bool x) { return !x; }
template <class T> C_FN T c_shl(T x, T n) { return (u64)n >= sizeof(T) * 8 ? (T)0 : (T)((u64)x << n); }
template <class T> C_FN T c_shr(T x, T n) {
  const u64 m = (u64)n, b = sizeof(T) * 8;
  return (T)-1 < (T)0 ? (T)(x >> (m >= b ? b - 1 : m)) : m >= b ? (T)0 : (T)(x >> m);
}

// ---- Divisions of integers never trap: by zero they give 0, and the least number by -1 gives itself.
template <class T> C_FN T c_truncdiv(T x, T y) {
  return y == 0 ? (T)0 : (T)-1 < (T)0 && y == (T)-1 ? (T)((T)0 - x) : (T)(x / y);
}
C_FN f32 c_truncdiv(f32 x, f32 y) { return truncf(x / y); }
C_FN f64 c_truncdiv(f64 x, f64 y) { return trunc(x / y); }
// What is left after c_truncdiv, with the sign of x.
template <class T> C_FN T c_fmod(T x, T y) { return y == 0 ? (T)0 : (T)(x - c_truncdiv(x, y) * y); }
C_FN f32 c_fmod(f32 x, f32 y) { return fmodf(x, y); }
C_FN f64 c_fmod(f64 x, f64 y) { return fmod(x, y); }
// Python's %: the sign of y.
template <class T> C_FN T c_rem(T x, T y) {
  const T r = c_fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;
}
// Python's //. Floats as in torch's div_floor_floating, which is exact where x / y would round up to a whole number.
template <class T> C_FN T c_floordiv(T x, T y) {
  const T q = c_truncdiv(x, y), r = (T)(x - q * y);
  return y != 0 && r != 0 && (r < 0) != (y < 0) ? (T)(q - 1) : q;
}
template <class T> C_FN T c_floordiv_float(T x, T y) {
  if (y == 0) return x / y;
  const T r = c_fmod(x, y);
  T d = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) d -= 1;
  if (d == 0) return c_copysign((T)0, x / y);
  const T f = c_floor(d);
  return d - f > (T)0.5 ? f + 1 : f;
}
C_FN f32 c_floordiv(f32 x, f32 y) { return c_floordiv_float(x, y); }
C_FN f64 c_floordiv(f64 x, f64 y) { return c_floordiv_float(x, y); }
