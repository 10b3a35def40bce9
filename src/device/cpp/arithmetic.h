// Arithmetic, comparison, rounding: one template serves scalars, vectors and 64-bit pairs wherever the operator itself
// does.
#pragma once
#include "convert.h"

// @piece c_iota_i32v
COIL_FN i32v c_iota_i32v(i32 start) { return i32v{COIL_IOTA} + start; }

// @piece c_iota_i64v
COIL_FN i64v c_iota_i64v(i64 start) { return {i64h{COIL_IOTA_LO} + start, i64h{COIL_IOTA_HI} + start}; }

// @piece c_below
// Lanes below n, which may be any number.
COIL_FN boolv c_below(i64 n) { return {i32v{COIL_IOTA} < (i32)(n < 0 ? 0 : n > COIL_L ? COIL_L : n)}; }

// @piece c_firstn
COIL_FN boolv c_firstn(i64 n) { return {i32v{COIL_IOTA} < (i32)n}; }

// @piece c_map c_map2 c_map3
// One function on each lane, for what has no vector form. `f` takes and gives scalars.
template <class V, class F> COIL_FN V c_map(V x, F f) {
  auto t = x[0];
  decltype(t) lanes[COIL_L] __attribute__((aligned(64)));
  __builtin_memcpy(lanes, &x, sizeof x);
  for (int i = 0; i < COIL_L; i++) lanes[i] = f(lanes[i]);
  __builtin_memcpy(&x, lanes, sizeof x);
  return x;
}
template <class V, class F> COIL_FN V c_map2(V x, V y, F f) {
  auto t = x[0];
  decltype(t) lanes[COIL_L] __attribute__((aligned(64))), others[COIL_L] __attribute__((aligned(64)));
  __builtin_memcpy(lanes, &x, sizeof x);
  __builtin_memcpy(others, &y, sizeof y);
  for (int i = 0; i < COIL_L; i++) lanes[i] = f(lanes[i], others[i]);
  __builtin_memcpy(&x, lanes, sizeof x);
  return x;
}
template <class V, class F> COIL_FN V c_map3(V x, V y, V z, F f) {
  auto t = x[0];
  decltype(t) lanes[COIL_L] __attribute__((aligned(64))), others[COIL_L] __attribute__((aligned(64))),
      thirds[COIL_L] __attribute__((aligned(64)));
  __builtin_memcpy(lanes, &x, sizeof x);
  __builtin_memcpy(others, &y, sizeof y);
  __builtin_memcpy(thirds, &z, sizeof z);
  for (int i = 0; i < COIL_L; i++) lanes[i] = f(lanes[i], others[i], thirds[i]);
  __builtin_memcpy(&x, lanes, sizeof x);
  return x;
}

// @piece c_add
// bool + bool is or, bool * bool is and, as in torch.
template <class T> COIL_FN T c_add(T x, T y) { return x + y; }
COIL_FN boolv c_add(boolv x, boolv y) { return x | y; }

// @piece c_rounded
// The value in a register: a product is rounded as eager rounds it, and not taken into a fused multiply-add.
#ifdef __x86_64__
#define COIL_ROUNDED(x) __asm__("" : "+v"(x))
#else
#define COIL_ROUNDED(x) __asm__("" : "+w"(x))
#endif
// @for $t: f32, f64, f32v, f64h
COIL_FN $t c_rounded($t x) {
  COIL_ROUNDED(x);
  return x;
}
// @end
COIL_FN f64v c_rounded(f64v x) { return {c_rounded(x.a), c_rounded(x.b)}; }

// @piece c_sub
template <class T> COIL_FN T c_sub(T x, T y) { return x - y; }
// A difference of products that cancel is zero, as in eager: a fused multiply-add would leave the error of one of them.
// @for $t: f32, f64, f32v, f64v
COIL_FN $t c_sub($t x, $t y) { return c_rounded(x) - c_rounded(y); }
// @end

// @piece c_mul
template <class T> COIL_FN T c_mul(T x, T y) { return x * y; }
COIL_FN boolv c_mul(boolv x, boolv y) { return x & y; }

// @piece c_div
template <class T> COIL_FN T c_div(T x, T y) { return x / y; }

// @piece c_fma
template <class T> COIL_FN T c_fma(T x, T y, T z) { return x * y + z; }

// @piece c_neg
template <class T> COIL_FN T c_neg(T x) { return -x; }

// @piece c_recip
COIL_FN f32 c_recip(f32 x) { return 1 / x; }
COIL_FN f64 c_recip(f64 x) { return 1 / x; }
COIL_FN f32v c_recip(f32v x) { return 1.0f / x; }
COIL_FN f64v c_recip(f64v x) { return {1.0 / x.a, 1.0 / x.b}; }

// @piece c_absbits
// The sign bit of floats, in the integer of their width.
COIL_FN f32 c_absbits(f32 x) { return __builtin_fabsf(x); }
COIL_FN f64 c_absbits(f64 x) { return __builtin_fabs(x); }
COIL_FN f32v c_absbits(f32v x) { return (f32v)((i32v)x & 0x7fffffff); }
COIL_FN f64h c_absbits(f64h x) { return (f64h)((i64h)x & 0x7fffffffffffffff); }
COIL_FN f64v c_absbits(f64v x) { return {c_absbits(x.a), c_absbits(x.b)}; }

// @piece c_abs
template <class T> COIL_FN T c_abs(T x) { return c_pick(x < T{}, -x, x); }
template <class T> COIL_FN twice<T> c_abs(twice<T> x) { return c_pick(x < twice<T>{}, -x, x); }
COIL_FN i8 c_abs(i8 x) { return x < 0 ? -x : x; }
COIL_FN i16 c_abs(i16 x) { return x < 0 ? -x : x; }
COIL_FN u8 c_abs(u8 x) { return x; }
COIL_FN u16 c_abs(u16 x) { return x; }
COIL_FN bool c_abs(bool x) { return x; }
COIL_FN f32 c_abs(f32 x) { return c_absbits(x); }
COIL_FN f64 c_abs(f64 x) { return c_absbits(x); }
COIL_FN f32v c_abs(f32v x) { return c_absbits(x); }
COIL_FN f64v c_abs(f64v x) { return c_absbits(x); }

// @piece c_sign
// NaN has the sign 0 in torch: (0 < x) - (x < 0).
template <class T> COIL_FN T c_sign(T x) { return (x > 0) - (x < 0); }
// @for $t: i8, i16, i32, u8, u16, u32
COIL_FN $tv c_sign($tv x) { return ($tv)((x < 0) - (x > 0)); }
// @end
COIL_FN f32v c_sign(f32v x) { return COIL_CV((i32v)(x < 0) - (i32v)(x > 0), f32v); }
template <class H> COIL_FN twice<H> c_sign(twice<H> x) {
  return {COIL_CV((i64h)(x.a < 0) - (i64h)(x.a > 0), H), COIL_CV((i64h)(x.b < 0) - (i64h)(x.b > 0), H)};
}
COIL_FN boolv c_sign(boolv x) { return x; }

// @piece c_sqrt
COIL_FN f32 c_sqrt(f32 x) { return __builtin_sqrtf(x); }
COIL_FN f64 c_sqrt(f64 x) { return __builtin_sqrt(x); }
#if COIL_L == 16 && defined(__AVX512F__)
#ifdef __clang__
#define COIL_SQRT(t, x) __builtin_ia32_sqrt##t##512(x, 4)
#else
#define COIL_SQRT(t, x) __builtin_ia32_sqrt##t##512_mask(x, x, -1, 4)
#endif
#elif COIL_L == 8 && defined(__AVX__)
#define COIL_SQRT(t, x) __builtin_ia32_sqrt##t##256(x)
#elif COIL_L == 4
#define COIL_SQRT(t, x) __builtin_ia32_sqrt##t(x)
#endif
#ifdef COIL_SQRT
COIL_FN f32v c_sqrt(f32v x) { return (f32v)COIL_SQRT(ps, x); }
COIL_FN f64v c_sqrt(f64v x) { return {(f64h)COIL_SQRT(pd, x.a), (f64h)COIL_SQRT(pd, x.b)}; }
#else
COIL_FN f32v c_sqrt(f32v x) {
  return c_map(x, [](f32 y) { return __builtin_sqrtf(y); });
}
COIL_FN f64v c_sqrt(f64v x) {
  return c_map(x, [](f64 y) { return __builtin_sqrt(y); });
}
#endif

// @piece c_rsqrt
COIL_FN f32 c_rsqrt(f32 x) { return 1 / c_sqrt(x); }
COIL_FN f64 c_rsqrt(f64 x) { return 1 / c_sqrt(x); }
COIL_FN f32v c_rsqrt(f32v x) { return 1.0f / c_sqrt(x); }
COIL_FN f64v c_rsqrt(f64v x) {
  x = c_sqrt(x);
  return {1.0 / x.a, 1.0 / x.b};
}

// @piece c_greater c_lesser
// x > y ? x : y and x < y ? x : y as the instructions have it: y where one is NaN.
#if COIL_L == 8 && defined(__AVX__)
COIL_FN f32v c_greater(f32v x, f32v y) { return (f32v)__builtin_ia32_maxps256(x, y); }
COIL_FN f32v c_lesser(f32v x, f32v y) { return (f32v)__builtin_ia32_minps256(x, y); }
COIL_FN f64h c_greater(f64h x, f64h y) { return (f64h)__builtin_ia32_maxpd256(x, y); }
COIL_FN f64h c_lesser(f64h x, f64h y) { return (f64h)__builtin_ia32_minpd256(x, y); }
#elif COIL_L == 4 && defined(__SSE__)
COIL_FN f32v c_greater(f32v x, f32v y) { return (f32v)__builtin_ia32_maxps(x, y); }
COIL_FN f32v c_lesser(f32v x, f32v y) { return (f32v)__builtin_ia32_minps(x, y); }
COIL_FN f64h c_greater(f64h x, f64h y) { return (f64h)__builtin_ia32_maxpd(x, y); }
COIL_FN f64h c_lesser(f64h x, f64h y) { return (f64h)__builtin_ia32_minpd(x, y); }
#elif COIL_L == 16 && defined(__AVX512F__) && defined(__clang__)
COIL_FN f32v c_greater(f32v x, f32v y) { return (f32v)__builtin_ia32_maxps512(x, y, 4); }
COIL_FN f32v c_lesser(f32v x, f32v y) { return (f32v)__builtin_ia32_minps512(x, y, 4); }
COIL_FN f64h c_greater(f64h x, f64h y) { return (f64h)__builtin_ia32_maxpd512(x, y, 4); }
COIL_FN f64h c_lesser(f64h x, f64h y) { return (f64h)__builtin_ia32_minpd512(x, y, 4); }
#elif COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_greater(f32v x, f32v y) { return (f32v)__builtin_ia32_maxps512_mask(x, y, x, (u16)-1, 4); }
COIL_FN f32v c_lesser(f32v x, f32v y) { return (f32v)__builtin_ia32_minps512_mask(x, y, x, (u16)-1, 4); }
COIL_FN f64h c_greater(f64h x, f64h y) { return (f64h)__builtin_ia32_maxpd512_mask(x, y, x, (u8)-1, 4); }
COIL_FN f64h c_lesser(f64h x, f64h y) { return (f64h)__builtin_ia32_minpd512_mask(x, y, x, (u8)-1, 4); }
#else
COIL_FN f32v c_greater(f32v x, f32v y) { return x > y ? x : y; }
COIL_FN f32v c_lesser(f32v x, f32v y) { return x < y ? x : y; }
COIL_FN f64h c_greater(f64h x, f64h y) { return x > y ? x : y; }
COIL_FN f64h c_lesser(f64h x, f64h y) { return x < y ? x : y; }
#endif

// @piece c_max
// NaN of either side goes through max and min. The choice is written out: with c_pick, whose mask is a value of its
// own, GCC takes 30 times as long over a chain of eighteen (a window) as over one of six.
template <class T> COIL_FN T c_max(T x, T y) { return c_pick(x > y, x, y); }
template <class T> COIL_FN T c_maxn(T x, T y) { return c_pick(x != x, x, c_pick(x > y, x, y)); }
COIL_FN f32 c_max(f32 x, f32 y) { return c_maxn(x, y); }
COIL_FN f64 c_max(f64 x, f64 y) { return c_maxn(x, y); }
COIL_FN f32v c_max(f32v x, f32v y) { return x != x ? x : c_greater(x, y); }
COIL_FN f64h c_max(f64h x, f64h y) { return x != x ? x : c_greater(x, y); }
COIL_FN f64v c_max(f64v x, f64v y) { return {c_max(x.a, y.a), c_max(x.b, y.b)}; }
COIL_FN boolv c_max(boolv x, boolv y) { return x | y; }

// @piece c_min
template <class T> COIL_FN T c_min(T x, T y) { return c_pick(x < y, x, y); }
template <class T> COIL_FN T c_minn(T x, T y) { return c_pick(x != x, x, c_pick(x < y, x, y)); }
COIL_FN f32 c_min(f32 x, f32 y) { return c_minn(x, y); }
COIL_FN f64 c_min(f64 x, f64 y) { return c_minn(x, y); }
COIL_FN f32v c_min(f32v x, f32v y) { return x != x ? x : c_lesser(x, y); }
COIL_FN f64h c_min(f64h x, f64h y) { return x != x ? x : c_lesser(x, y); }
COIL_FN f64v c_min(f64v x, f64v y) { return {c_min(x.a, y.a), c_min(x.b, y.b)}; }
COIL_FN boolv c_min(boolv x, boolv y) { return x & y; }

// @piece c_fmax
// NaN of one side is ignored.
template <class T> COIL_FN T c_fmax(T x, T y) { return c_pick(y != y, x, c_pick(x > y, x, y)); }

// @piece c_fmin
template <class T> COIL_FN T c_fmin(T x, T y) { return c_pick(y != y, x, c_pick(x < y, x, y)); }

// @piece c_eq
template <class T> COIL_FN auto c_eq(T x, T y) { return c_mask(x == y); }
COIL_FN boolv c_eq(boolv x, boolv y) { return ~(x ^ y); }

// @piece c_ne
template <class T> COIL_FN auto c_ne(T x, T y) { return c_mask(x != y); }
COIL_FN boolv c_ne(boolv x, boolv y) { return x ^ y; }

// @piece c_lt
template <class T> COIL_FN auto c_lt(T x, T y) { return c_mask(x < y); }
COIL_FN boolv c_lt(boolv x, boolv y) { return ~x & y; }

// @piece c_le
template <class T> COIL_FN auto c_le(T x, T y) { return c_mask(x <= y); }
COIL_FN boolv c_le(boolv x, boolv y) { return ~x | y; }

// @piece c_gt
template <class T> COIL_FN auto c_gt(T x, T y) { return c_mask(x > y); }
COIL_FN boolv c_gt(boolv x, boolv y) { return x & ~y; }

// @piece c_ge
template <class T> COIL_FN auto c_ge(T x, T y) { return c_mask(x >= y); }
COIL_FN boolv c_ge(boolv x, boolv y) { return x | ~y; }

// @piece c_isnan
template <class T> COIL_FN auto c_isnan(T x) { return c_mask(x != x); }

// @piece c_isinf
COIL_FN bool c_isinf(f32 x) { return c_absbits(x) == __builtin_inff(); }
COIL_FN bool c_isinf(f64 x) { return c_absbits(x) == __builtin_inf(); }
COIL_FN boolv c_isinf(f32v x) { return c_mask(c_absbits(x) == __builtin_inff()); }
COIL_FN boolv c_isinf(f64v x) {
  return c_mask(i64v{(i64h)(c_absbits(x.a) == __builtin_inf()), (i64h)(c_absbits(x.b) == __builtin_inf())});
}

// @piece c_signbit
template <class T> COIL_FN bool c_signbit(T x) { return x < 0; }
COIL_FN bool c_signbit(f32 x) { return __builtin_signbit(x); }
COIL_FN bool c_signbit(f64 x) { return __builtin_signbit(x); }
COIL_FN boolv c_signbit(f32v x) { return {(i32v)x >> 31}; }
COIL_FN boolv c_signbit(f64v x) { return c_mask(i64v{(i64h)x.a >> 63, (i64h)x.b >> 63}); }

// @piece c_copysign
COIL_FN f32 c_copysign(f32 x, f32 y) { return __builtin_copysignf(x, y); }
COIL_FN f64 c_copysign(f64 x, f64 y) { return __builtin_copysign(x, y); }
COIL_FN f32v c_copysign(f32v x, f32v y) { return (f32v)(((i32v)x & 0x7fffffff) | ((i32v)y & (-0x7fffffff - 1))); }
COIL_FN f64h c_copysign(f64h x, f64h y) {
  return (f64h)(((i64h)x & 0x7fffffffffffffff) | ((i64h)y & (-0x7fffffffffffffff - 1)));
}
COIL_FN f64v c_copysign(f64v x, f64v y) { return {c_copysign(x.a, y.a), c_copysign(x.b, y.b)}; }

// @piece c_round
// Rounding without the instruction: a number below 2^23 (2^52) loses its fraction when that is added and taken away.
COIL_FN f32 c_round(f32 x) { return __builtin_rintf(x); }
COIL_FN f64 c_round(f64 x) { return __builtin_rint(x); }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_round(f32v x) { return (f32v)__builtin_ia32_rndscaleps_mask(x, 0, x, (u16)-1, 4); }
COIL_FN f64h c_round(f64h x) { return (f64h)__builtin_ia32_rndscalepd_mask(x, 0, x, (u8)-1, 4); }
#elif COIL_L == 8 && defined(__AVX__)
COIL_FN f32v c_round(f32v x) { return (f32v)__builtin_ia32_roundps256(x, 0); }
COIL_FN f64h c_round(f64h x) { return (f64h)__builtin_ia32_roundpd256(x, 0); }
#else
COIL_FN f32v c_round(f32v x) {
  f32v y = c_absbits(x);
  return c_copysign(y < 0x1p23f ? (y + 0x1p23f) - 0x1p23f : y, x);
}
COIL_FN f64h c_round(f64h x) {
  f64h y = c_absbits(x);
  return c_copysign(y < 0x1p52 ? (y + 0x1p52) - 0x1p52 : y, x);
}
#endif
COIL_FN f64v c_round(f64v x) { return {c_round(x.a), c_round(x.b)}; }

// @piece c_floor
COIL_FN f32 c_floor(f32 x) { return __builtin_floorf(x); }
COIL_FN f64 c_floor(f64 x) { return __builtin_floor(x); }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_floor(f32v x) { return (f32v)__builtin_ia32_rndscaleps_mask(x, 1, x, (u16)-1, 4); }
COIL_FN f64h c_floor(f64h x) { return (f64h)__builtin_ia32_rndscalepd_mask(x, 1, x, (u8)-1, 4); }
#else
COIL_FN f32v c_floor(f32v x) {
  f32v y = c_round(x);
  return c_copysign(y > x ? y - 1.0f : y, x);
}
COIL_FN f64h c_floor(f64h x) {
  f64h y = c_round(x);
  return c_copysign(y > x ? y - 1.0 : y, x);
}
#endif
COIL_FN f64v c_floor(f64v x) { return {c_floor(x.a), c_floor(x.b)}; }

// @piece c_ceil
COIL_FN f32 c_ceil(f32 x) { return __builtin_ceilf(x); }
COIL_FN f64 c_ceil(f64 x) { return __builtin_ceil(x); }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_ceil(f32v x) { return (f32v)__builtin_ia32_rndscaleps_mask(x, 2, x, (u16)-1, 4); }
COIL_FN f64h c_ceil(f64h x) { return (f64h)__builtin_ia32_rndscalepd_mask(x, 2, x, (u8)-1, 4); }
#else
COIL_FN f32v c_ceil(f32v x) {
  f32v y = c_round(x);
  return c_copysign(y < x ? y + 1.0f : y, x);
}
COIL_FN f64h c_ceil(f64h x) {
  f64h y = c_round(x);
  return c_copysign(y < x ? y + 1.0 : y, x);
}
#endif
COIL_FN f64v c_ceil(f64v x) { return {c_ceil(x.a), c_ceil(x.b)}; }

// @piece c_trunc
COIL_FN f32 c_trunc(f32 x) { return __builtin_truncf(x); }
COIL_FN f64 c_trunc(f64 x) { return __builtin_trunc(x); }
#if COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_trunc(f32v x) { return (f32v)__builtin_ia32_rndscaleps_mask(x, 3, x, (u16)-1, 4); }
COIL_FN f64h c_trunc(f64h x) { return (f64h)__builtin_ia32_rndscalepd_mask(x, 3, x, (u8)-1, 4); }
#else
COIL_FN f32v c_trunc(f32v x) { return c_copysign(c_floor(c_absbits(x)), x); }
COIL_FN f64h c_trunc(f64h x) { return c_copysign(c_floor(c_absbits(x)), x); }
#endif
COIL_FN f64v c_trunc(f64v x) { return {c_trunc(x.a), c_trunc(x.b)}; }
