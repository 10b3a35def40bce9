// What goes across the lanes of a vector: reductions, prefixes, permutations, checked indices.
#pragma once
#include "integer.h"

// @piece COIL_FOLD
// Halves are combined until one lane is left: an order that does not depend on the values.
#if COIL_L == 16
#define COIL_FOLD(x, op)                                                                          \
  x = op(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
  x = op(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
#elif COIL_L == 8
#define COIL_FOLD(x, op)                                            \
  x = op(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3)); \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6));
#else
#define COIL_FOLD(x, op)                                \
  x = op(x, __builtin_shufflevector(x, x, 2, 3, 0, 1)); \
  x = op(x, __builtin_shufflevector(x, x, 1, 0, 3, 2));
#endif

// @piece c_lane
template <class V> COIL_FN auto c_lane(V x, i64 i) { return x[i]; }
COIL_FN bool c_lane(boolv x, i64 i) { return x.m[i] != 0; }

// @for $n $op: c_hsum c_add, c_hprod c_mul, c_hmax c_max, c_hmin c_min, c_hxor c_xor, c_hor c_or, c_hand c_and
// @piece $n
template <class V> COIL_FN auto $n(V x) { COIL_FOLD(x, $op) return x[0]; }
template <class H> COIL_FN auto $n(twice<H> x) {
  auto r = $op(x.a[0], x.b[0]);
  for (int i = 1; i < COIL_L / 2; i++) r = $op(r, $op(x.a[i], x.b[i]));
  return r;
}
// @end

// @piece c_bits
// One bit for each lane.
#if COIL_L == 16 && defined(__AVX512DQ__)
COIL_FN u32 c_bits(boolv x) {
  typedef int c_int16 COIL_VECTOR(int, 16);
  return (u16)__builtin_ia32_cvtd2mask512((c_int16)x.m);
}
#elif COIL_L == 8 && defined(__AVX__)
COIL_FN u32 c_bits(boolv x) { return (u32)__builtin_ia32_movmskps256((f32v)x.m); }
#elif COIL_L == 4 && defined(__SSE__)
COIL_FN u32 c_bits(boolv x) { return (u32)__builtin_ia32_movmskps((f32v)x.m); }
#else
COIL_FN u32 c_bits(boolv x) {
  u32 r = 0;
  for (int i = 0; i < COIL_L; i++) r |= (u32)(x.m[i] != 0) << i;
  return r;
}
#endif

// @piece c_hany
COIL_FN bool c_hany(bool x) { return x; }
COIL_FN bool c_hany(boolv x) { return c_bits(x) != 0; }

// @piece c_hall
COIL_FN bool c_hall(bool x) { return x; }
COIL_FN bool c_hall(boolv x) { return c_bits(x) == (1u << COIL_L) - 1u; }

// @piece c_permute
// Lane l is lane i[l] of x; of indices only the low bits count.
#if COIL_L == 16 && defined(__AVX512F__) && defined(__clang__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf512(x, i); }
#elif COIL_L == 16 && defined(__AVX512F__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf512_mask(x, i, x, (u16)-1); }
#elif COIL_L == 8 && defined(__AVX2__)
COIL_FN f32v c_permute(f32v x, i32v i) { return (f32v)__builtin_ia32_permvarsf256(x, i); }
#else
COIL_FN f32v c_permute(f32v x, i32v i) {
  f32v r;
  for (int l = 0; l < COIL_L; l++) r[l] = x[i[l] & (COIL_L - 1)];
  return r;
}
#endif
COIL_FN i32v c_permute(i32v x, i32v i) { return (i32v)c_permute((f32v)x, i); }
COIL_FN u32v c_permute(u32v x, i32v i) { return (u32v)c_permute((f32v)x, i); }

// Rows of n lanes' worth, `stride` elements apart, as columns.
// @for $d $r $size: f32 f32 4, f16 f32 2, bf16 f32 2, f8e4m3fn f32 1, f8e5m2 f32 1, i32 i32 4, u32 u32 4
// @piece c_tile_$dv
COIL_FN void c_tile_$dv($rv* r, const void* p, i64 stride, i64 n) {
  for (i64 l = 0; l < COIL_L; l++) r[l] = l < n ? c_load_$dv((const char*)p + $size * l * stride) : $rv{};
  c_transpose(r);
}
// @end

// @piece c_last
// The last lane in all.
template <class V> COIL_FN V c_last(V x) { return V{} + x[COIL_L - 1]; }
template <class H> COIL_FN twice<H> c_last(twice<H> x) {
  H y = H{} + x.b[COIL_L / 2 - 1];
  return {y, y};
}

// Lane l is x[0] op … op x[l], by shifts of 1, 2, 4, …; $fill stands before the first lane. An extreme of a lane with
// itself is the lane: it stands for what is missing.
// @for $f $fill: add V{}, mul V{}+1, max V{}+x[0], min V{}+x[0]
// @piece c_prefix_$f c_prefix_$f_half
#if COIL_L == 16
template <class V> COIL_FN V c_prefix_$f(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  x = c_$f(x, __builtin_shufflevector(x, e, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13));
  x = c_$f(x, __builtin_shufflevector(x, e, 16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  x = c_$f(x, __builtin_shufflevector(x, e, 16, 16, 16, 16, 16, 16, 16, 16, 0, 1, 2, 3, 4, 5, 6, 7));
  return x;
}
template <class V> COIL_FN V c_prefix_$f_half(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 0, 1, 2, 3, 4, 5, 6));
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 8, 0, 1, 2, 3, 4, 5));
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 8, 8, 8, 0, 1, 2, 3));
  return x;
}
#endif
#if COIL_L == 8
template <class V> COIL_FN V c_prefix_$f(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 0, 1, 2, 3, 4, 5, 6));
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 8, 0, 1, 2, 3, 4, 5));
  x = c_$f(x, __builtin_shufflevector(x, e, 8, 8, 8, 8, 0, 1, 2, 3));
  return x;
}
template <class V> COIL_FN V c_prefix_$f_half(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 4, 0, 1, 2));
  x = c_$f(x, __builtin_shufflevector(x, e, 4, 4, 0, 1));
  return x;
}
#endif
#if COIL_L == 4
template <class V> COIL_FN V c_prefix_$f(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 4, 0, 1, 2));
  x = c_$f(x, __builtin_shufflevector(x, e, 4, 4, 0, 1));
  return x;
}
template <class V> COIL_FN V c_prefix_$f_half(V x) {
  V e = $fill;
  x = c_$f(x, __builtin_shufflevector(x, e, 2, 0));
  return x;
}
#endif
template <class H> COIL_FN twice<H> c_prefix_$f(twice<H> x) {
  H a = c_prefix_$f_half(x.a);
  return {a, c_$f(H{} + a[COIL_L / 2 - 1], c_prefix_$f_half(x.b))};
}
// @end

// @piece c_require
// Sets the status where a condition does not hold for one of the first n lanes.
COIL_FN void c_require(boolv holds, i64 n, i64* status) {
  const u32 all = n == COIL_L ? (1u << COIL_L) - 1u : (1u << n) - 1u;
  if (__builtin_expect((c_bits(holds) & all) != all, 0)) *status = 1;
}

// @piece c_check
// Indices into a dimension of this size, of the first n lanes: those outside set the status and become 0.
COIL_FN i64v c_check(i64v x, i64 size, i64 n, i64* status) {
  const boolv in = c_and(c_mask(i64v{(i64h)((u64h)x.a < (u64)size), (i64h)((u64h)x.b < (u64)size)}), c_firstn(n));
  if (__builtin_expect(c_bits(in) != (n == COIL_L ? (1u << COIL_L) - 1u : (1u << n) - 1u), 0)) *status = 1;
  return c_where(in, x, i64v{});
}
