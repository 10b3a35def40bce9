// Conversions, arithmetic, comparison, bits, for kernels that run as grids of threads: torch's answers where C++ has
// none. Behind what a language has of floats: their overloads of what is a template here.
#pragma once

// @piece arithmetic
// ---- Conversions. Floats to small integers go the way of torch's scalar conversions: to u8 through i64, to the other
// small ones through i32.
template <class T> C_FN f32 c_cast_f32(T x) { return (f32)x; }
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
template <class T> C_FN f32 c_bitcast_f32(T x) { return c_bits_as<f32>(x); }
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
// NaN has the sign 0.
template <class T> C_FN T c_sign(T x) { return (T)((x > 0) - (x < 0)); }
C_FN bool c_sign(bool x) { return x; }
// NaN of either side goes through max and min; fmax and fmin ignore it.
template <class T> C_FN T c_max(T x, T y) { return x > y ? x : y; }
template <class T> C_FN T c_min(T x, T y) { return x < y ? x : y; }
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
template <class T> C_FN bool c_signbit(T x) { return x < 0; }

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
// What is left after c_truncdiv, with the sign of x.
template <class T> C_FN T c_fmod(T x, T y) { return y == 0 ? (T)0 : (T)(x - c_truncdiv(x, y) * y); }
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
  return d - f > (T)0.5f ? f + 1 : f;
}
C_FN f32 c_floordiv(f32 x, f32 y) { return c_floordiv_float(x, y); }
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

// ---- Elements: as stored, and as registers.
#define C_PLAIN(t)                    \
  C_FN t c_get_##t(t x) { return x; } \
  C_FN t c_put_##t(t x) { return x; }
C_PLAIN(f32)
C_PLAIN(i8)
C_PLAIN(i16)
C_PLAIN(i32)
C_PLAIN(i64)
C_PLAIN(u8)
C_PLAIN(u16)
C_PLAIN(u32)
C_PLAIN(u64)
C_FN bool c_get_b8(u8 x) { return x != 0; }
C_FN u8 c_put_b8(bool x) { return x; }
