// Bits, shifts, and the divisions that round down or truncate, with torch's answers where C++ has none.
#pragma once
#include "arithmetic.h"

// @piece c_minus_one
template <class T> COIL_FN T c_minus_one(T) { return (T)-1; }
template <class H> COIL_FN twice<H> c_minus_one(twice<H>) { return {H{} - 1, H{} - 1}; }
// @for $t: i8, i16, i32, u8, u16, u32
COIL_FN $tv c_minus_one($tv) { return $tv{} - ($t)1; }
// @end

// @piece c_gcd c_gcd1
template <class T> COIL_FN T c_gcd1(T x, T y) {
  x = x < (T)0 ? (T)-x : x, y = y < (T)0 ? (T)-y : y;
  while (x != 0) {
    T r = (T)(y % x);
    y = x;
    x = r;
  }
  return y;
}
// @for $t: i8, i16, i32, i64, u8, u16, u32, u64
COIL_FN $t c_gcd($t x, $t y) { return c_gcd1(x, y); }
COIL_FN $tv c_gcd($tv x, $tv y) {
  return c_map2(x, y, []($t a, $t b) { return c_gcd1(a, b); });
}
// @end

// @piece c_and
template <class T> COIL_FN T c_and(T x, T y) { return x & y; }

// @piece c_or
template <class T> COIL_FN T c_or(T x, T y) { return x | y; }

// @piece c_xor
template <class T> COIL_FN T c_xor(T x, T y) { return x ^ y; }

// @piece c_not
template <class T> COIL_FN T c_not(T x) { return ~x; }
COIL_FN bool c_not(bool x) { return !x; }

// @piece c_shl
// Shifts by less than 0 or by the width and more: 0 to the left, the sign to the right
// (ATen/native/cpu/BinaryOpsKernel.cpp).
template <class T> COIL_FN T c_shl(T x, T n) { return (u64)n >= sizeof(T) * 8 ? (T)0 : (T)((u64)x << n); }
// @for $t $b: i8 8, i16 16, i32 32, u8 8, u16 16, u32 32
COIL_FN $tv c_shl($tv x, $tv n) { return (u$bv)n >= (u$b)$b ? $tv{} : ($tv)(x << (n & ($t)($b - 1))); }
// @end
template <class H> COIL_FN H c_shlh(H x, H n) { return (u64h)n >= 64ul ? H{} : (H)(x << (n & 63)); }
template <class H> COIL_FN twice<H> c_shl(twice<H> x, twice<H> n) { return {c_shlh(x.a, n.a), c_shlh(x.b, n.b)}; }

// @piece c_shr
template <class T> COIL_FN T c_shr(T x, T n) {
  u64 m = (u64)n, b = sizeof(T) * 8;
  return (T)-1 < (T)0 ? (T)(x >> (m >= b ? b - 1 : m)) : m >= b ? (T)0 : (T)(x >> m);
}
// @for $b: 8, 16, 32
COIL_FN i$bv c_shr(i$bv x, i$bv n) {
  n = (u$bv)n >= (u$b)$b ? i$bv{} + (i$b)($b - 1) : n;
  return x >> n;
}
COIL_FN u$bv c_shr(u$bv x, u$bv n) { return n >= (u$b)$b ? u$bv{} : x >> (n & (u$b)($b - 1)); }
// @end
COIL_FN i64h c_shrh(i64h x, i64h n) {
  n = (u64h)n >= 64ul ? i64h{} + 63l : n;
  return x >> n;
}
COIL_FN u64h c_shrh(u64h x, u64h n) { return n >= 64ul ? u64h{} : x >> (n & 63ul); }
template <class H> COIL_FN twice<H> c_shr(twice<H> x, twice<H> n) { return {c_shrh(x.a, n.a), c_shrh(x.b, n.b)}; }

// @piece c_truncdiv c_divh
// Division of integers that never traps: by zero it is 0, and the least number by -1 is itself. i32 goes through f64,
// whose quotient truncates right: two different quotients of 32-bit numbers lie 2^-32 apart at least.
template <class T> COIL_FN T c_truncdiv(T x, T y) {
  return y == 0 ? (T)0 : (T)-1 < (T)0 && y == (T)-1 ? (T)-x : (T)(x / y);
}
COIL_FN f32 c_truncdiv(f32 x, f32 y) { return c_trunc(x / y); }
COIL_FN f64 c_truncdiv(f64 x, f64 y) { return c_trunc(x / y); }
COIL_FN f32v c_truncdiv(f32v x, f32v y) { return c_trunc(x / y); }
COIL_FN f64v c_truncdiv(f64v x, f64v y) { return c_trunc(x / y); }
COIL_FN i32h c_divh(i32h x, i32h y) {
  return y == 0 ? i32h{} : COIL_CV(COIL_CV(COIL_CV(x, f64h) / COIL_CV(y, f64h), i64h), i32h);
}
COIL_FN u32h c_divh(u32h x, u32h y) {
  return y == 0 ? u32h{} : (u32h)COIL_CV(COIL_CV(COIL_CV(x, f64h) / COIL_CV(y, f64h), i64h), i32h);
}
COIL_FN i32v c_truncdiv(i32v x, i32v y) {
  return COIL_CAT(c_divh(COIL_LO(x), COIL_LO(y)), c_divh(COIL_HI(x), COIL_HI(y)));
}
COIL_FN u32v c_truncdiv(u32v x, u32v y) {
  return COIL_CAT(c_divh(COIL_LO(x), COIL_LO(y)), c_divh(COIL_HI(x), COIL_HI(y)));
}
COIL_FN i8v c_truncdiv(i8v x, i8v y) { return c_cast_i8(c_truncdiv(c_cast_i32(x), c_cast_i32(y))); }
COIL_FN i16v c_truncdiv(i16v x, i16v y) { return c_cast_i16(c_truncdiv(c_cast_i32(x), c_cast_i32(y))); }
COIL_FN u8v c_truncdiv(u8v x, u8v y) { return c_cast_u8(c_truncdiv(c_cast_i32(x), c_cast_i32(y))); }
COIL_FN u16v c_truncdiv(u16v x, u16v y) { return c_cast_u16(c_truncdiv(c_cast_i32(x), c_cast_i32(y))); }
COIL_FN i64v c_truncdiv(i64v x, i64v y) {
  return c_map2(x, y, [](i64 a, i64 b) { return c_truncdiv(a, b); });
}
COIL_FN u64v c_truncdiv(u64v x, u64v y) {
  return c_map2(x, y, [](u64 a, u64 b) { return c_truncdiv(a, b); });
}

// @piece c_fmod
// What is left after c_truncdiv, with the sign of x: C's % and fmod.
extern "C" float fmodf(float, float);
extern "C" double fmod(double, double);
template <class T> COIL_FN T c_fmod(T x, T y) { return c_pick(y == T{}, T{}, (T)(x - c_truncdiv(x, y) * y)); }
COIL_FN f32 c_fmod(f32 x, f32 y) { return fmodf(x, y); }
COIL_FN f64 c_fmod(f64 x, f64 y) { return fmod(x, y); }
COIL_FN f32v c_fmod(f32v x, f32v y) {
  return c_map2(x, y, [](f32 a, f32 b) { return fmodf(a, b); });
}
COIL_FN f64v c_fmod(f64v x, f64v y) {
  return c_map2(x, y, [](f64 a, f64 b) { return fmod(a, b); });
}

// @piece c_rem
// Python's %: the sign of y. Integers: x - floor(x / y) * y.
template <class T> COIL_FN T c_rem(T x, T y) {
  T r = c_fmod(x, y);
  return c_pick((r != T{}) & ((r < T{}) != (y < T{})), (T)(r + y), r);
}

// @piece c_floordiv
// Python's //. Floats as in torch's div_floor_floating, which is exact where x / y would round up to a whole number.
template <class T> COIL_FN T c_floordiv(T x, T y) {
  T q = c_truncdiv(x, y), r = x - q * y;
  return c_pick((y != T{}) & (r != T{}) & ((r < T{}) != (y < T{})), (T)(q + c_minus_one(x)), q);
}
template <class T> COIL_FN T c_floordivf(T x, T y, T one, T half) {
  T zero = one - one, r = c_fmod(x, y), d = (x - r) / y;
  d = c_pick((r != zero) & ((y < zero) != (r < zero)), d - one, d);
  T f = c_floor(d);
  f = c_pick(d - f > half, f + one, f);
  f = c_pick(d != zero, f, c_copysign(zero, x / y));
  return c_pick(y == zero, x / y, f);
}
COIL_FN f32 c_floordiv(f32 x, f32 y) { return c_floordivf(x, y, 1.0f, 0.5f); }
COIL_FN f64 c_floordiv(f64 x, f64 y) { return c_floordivf(x, y, 1.0, 0.5); }
COIL_FN f32v c_floordiv(f32v x, f32v y) { return c_floordivf(x, y, f32v{} + 1.0f, f32v{} + 0.5f); }
COIL_FN f64v c_floordiv(f64v x, f64v y) {
  return c_floordivf(x, y, f64v{f64h{} + 1.0, f64h{} + 1.0}, f64v{f64h{} + 0.5, f64h{} + 0.5});
}
