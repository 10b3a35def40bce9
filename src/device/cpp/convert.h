// Selection, bit casts, and the floats of 16 and 8 bits. Conversions between the register types are made by
// codegen/cpp/prelude_casts.cpp.
#pragma once
#include "masks.h"

// @piece c_cast_b8
template <class T> COIL_FN bool c_cast_b8(T x) { return x != 0; }
// @for $t $m: f32 i32, i8 i8, i16 i16, i32 i32, u8 i8, u16 i16, u32 i32
COIL_FN boolv c_cast_b8($tv x) { return c_mask(($mv)(x != 0)); }
// @end
// @for $t: f64, i64, u64
COIL_FN boolv c_cast_b8($tv x) { return c_mask(i64v{(i64h)(x.a != 0), (i64h)(x.b != 0)}); }
// @end
COIL_FN boolv c_cast_b8(boolv x) { return x; }

// @piece c_where
template <class T> COIL_FN T c_where(bool c, T x, T y) { return c ? x : y; }
// @for $t: f32, i32, u32
COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return c.m ? x : y; }
// @end
// @for $t: i16, u16
COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return COIL_CV(c.m, i16v) ? x : y; }
// @end
// @for $t: i8, u8
COIL_FN $tv c_where(boolv c, $tv x, $tv y) { return COIL_CV(COIL_CV(c.m, i16v), i8v) ? x : y; }
// @end
// @for $t: f64, i64, u64
COIL_FN $tv c_where(boolv c, $tv x, $tv y) {
  return {COIL_CV(COIL_LO(c.m), i64h) ? x.a : y.a, COIL_CV(COIL_HI(c.m), i64h) ? x.b : y.b};
}
// @end
COIL_FN boolv c_where(boolv c, boolv x, boolv y) { return {(c.m & x.m) | (~c.m & y.m)}; }

// @for $t: f32, i32, u32
// @piece c_bitcast_$t
template <class T> COIL_FN $t c_bitcast_$t(T x) { return __builtin_bit_cast($t, x); }
// @for $s: f32, i32, u32
COIL_FN $tv c_bitcast_$t($sv x) { return __builtin_bit_cast($tv, x); }
// @end
// @end

// @for $t: f64, i64, u64
// @piece c_bitcast_$t
template <class T> COIL_FN $t c_bitcast_$t(T x) { return __builtin_bit_cast($t, x); }
// @for $s: f64, i64, u64
COIL_FN $tv c_bitcast_$t($sv x) { return __builtin_bit_cast($tv, x); }
// @end
// @end

// @for $b: 8, 16
// @for $t: i$b, u$b
// @piece c_bitcast_$t
template <class T> COIL_FN $t c_bitcast_$t(T x) { return __builtin_bit_cast($t, x); }
COIL_FN $tv c_bitcast_$t(i$bv x) { return __builtin_bit_cast($tv, x); }
COIL_FN $tv c_bitcast_$t(u$bv x) { return __builtin_bit_cast($tv, x); }
// @end
// @end

// @piece c_narrow16
// The lower halves of 32-bit lanes, in the one instruction that GCC does not find.
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_short16n COIL_VECTOR(short, 16);
COIL_FN u16v c_narrow16(u32v x) { return (u16v)__builtin_ia32_pmovdw512_mask((i32v)x, c_short16n{}, (u16)-1); }
#elif COIL_L == 8 && defined(__AVX2__)
typedef i32 c_int4n COIL_VECTOR(i32, 4);
// What is narrowed has no upper halves.
COIL_FN u16v c_narrow16(u32v x) { return (u16v)__builtin_ia32_packusdw128((c_int4n)COIL_LO(x), (c_int4n)COIL_HI(x)); }
#else
COIL_FN u16v c_narrow16(u32v x) { return COIL_CV(x, u16v); }
#endif

// @piece c_bits_bf16
// Round to nearest, ties to even; NaN stays NaN. The bits of a bf16 are the upper half of an f32's.
COIL_FN u32 c_bits_bf16(f32 x) {
  u32 u = __builtin_bit_cast(u32, x);
  return x != x ? 0x7fc0u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
COIL_FN u32v c_bits_bf16(f32v x) {
  u32v u = (u32v)x, r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return x != x ? (u32v{} + 0x7fc0u) : r;
}

// @piece c_narrow_bf16
COIL_FN u16v c_narrow_bf16(f32v x) {
#if COIL_L == 16 && defined(__AVX512BF16__) && defined(__AVX512DQ__) && !defined(__clang__)
  // The instruction takes denormals for zeros.
  if (__builtin_expect(__builtin_ia32_fpclassps512_mask(x, 0x20, (u16)-1) == 0, 1))
    return (u16v)__builtin_ia32_cvtneps2bf16_v16sf(x);
#endif
  return c_narrow16(c_bits_bf16(x));
}

// @piece c_round_bf16
COIL_FN f32 c_round_bf16(f32 x) { return __builtin_bit_cast(f32, c_bits_bf16(x) << 16); }
COIL_FN f32v c_round_bf16(f32v x) { return (f32v)(c_bits_bf16(x) << 16); }

// @piece c_bits_f16
// Without F16C: add a power of two that makes f32's own rounding cut at f16's last bit, also for f16's denormals; then
// rebias. And back: move the bits, multiply by 2^112, which also scales denormals right.
COIL_FN u32 c_bits_f16(f32 x) {
  u32 u = __builtin_bit_cast(u32, x), s = (u >> 16) & 0x8000u, e, r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return s | 0x7e00u;
  if (u >= 0x477ff000u) return s | 0x7c00u;
  e = (u & 0x7f800000u) < 0x38800000u ? 0x38800000u : u & 0x7f800000u;
  f32 big = __builtin_bit_cast(f32, e + (13u << 23));
  r = __builtin_bit_cast(u32, __builtin_bit_cast(f32, u) + big) - __builtin_bit_cast(u32, big);
  return s | (r + ((e - 0x38800000u) >> 13));
}
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_i16x16 __attribute__((vector_size(32)));
COIL_FN u32v c_bits_f16(f32v x) {
  return COIL_CV((u16v)(c_i16x16)__builtin_ia32_vcvtps2ph512_mask(x, 0, c_i16x16{}, (u16)-1), u32v);
}
#elif COIL_L == 8 && defined(__F16C__)
typedef short c_i16x8 __attribute__((vector_size(16)));
COIL_FN u32v c_bits_f16(f32v x) { return COIL_CV((u16v)(c_i16x8)__builtin_ia32_vcvtps2ph256(x, 0), u32v); }
#else
COIL_FN u32v c_bits_f16(f32v x) {
  u32v u = (u32v)x, s = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  u32v e = u & 0x7f800000u;
  e = e < 0x38800000u ? (u32v{} + 0x38800000u) : e;
  u32v big = e + (13u << 23), r = (u32v)((f32v)u + (f32v)big) - big + ((e - 0x38800000u) >> 13);
  r = u >= 0x477ff000u ? (u32v{} + 0x7c00u) : r;
  return s | (u > 0x7f800000u ? (u32v{} + 0x7e00u) : r);
}
#endif

// @piece c_from_f16
COIL_FN f32 c_from_f16(u16 h) {
  u32 u = (h & 0x7fffu) << 13;
  f32 x = __builtin_bit_cast(f32, u) * 0x1p112f;
  u = __builtin_bit_cast(u32, x) | ((h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
  return __builtin_bit_cast(f32, u | (h & 0x8000u) << 16);
}
#if COIL_L == 16 && defined(__AVX512F__)
typedef short c_i16x16h __attribute__((vector_size(32)));
COIL_FN f32v c_from_f16(u16v h) { return (f32v)__builtin_ia32_vcvtph2ps512_mask((c_i16x16h)h, f32v{}, (u16)-1, 4); }
#elif COIL_L == 8 && defined(__F16C__)
typedef short c_i16x8h __attribute__((vector_size(16)));
COIL_FN f32v c_from_f16(u16v h) { return (f32v)__builtin_ia32_vcvtph2ps256((c_i16x8h)h); }
#else
COIL_FN f32v c_from_f16(u16v h) {
  u32v w = COIL_CV(h, u32v), u = (w & 0x7fffu) << 13;
  u = (u32v)((f32v)u * 0x1p112f);
  u |= (w & 0x7c00u) == 0x7c00u ? (u32v{} + 0x7f800000u) : u32v{};
  return (f32v)(u | (w & 0x8000u) << 16);
}
#endif

// @piece c_round_f16
COIL_FN f32 c_round_f16(f32 x) { return c_from_f16((u16)c_bits_f16(x)); }
COIL_FN f32v c_round_f16(f32v x) { return c_from_f16(c_narrow16(c_bits_f16(x))); }

// Floats of 8 bits, as f16 is made without F16C. $top: the bits of the least f32 that overflows, which gives $over;
// $low: those of the least normal number; $cut: the digits of f32's mantissa that are cut off.
// @for $f $top $over $low $cut: f8e5m2 0x47800000u 0x7cu 0x38800000u 21u, f8e4m3fn 0x43e80000u 0x7eu 0x3c800000u 20u
// @piece c_bits_$f
COIL_FN u32 c_bits_$f(f32 x) {
  u32 u = __builtin_bit_cast(u32, x), s = (u >> 24) & 0x80u, e, r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return s | 0x7fu;
  if (u >= $top) return s | $over;
  e = (u & 0x7f800000u) < $low ? $low : u & 0x7f800000u;
  f32 big = __builtin_bit_cast(f32, e + ($cut << 23));
  r = __builtin_bit_cast(u32, __builtin_bit_cast(f32, u) + big) - __builtin_bit_cast(u32, big);
  return s | (r + ((e - $low) >> $cut));
}
COIL_FN u32v c_bits_$f(f32v x) {
  u32v u = (u32v)x, s = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  u32v e = u & 0x7f800000u;
  e = e < $low ? (u32v{} + $low) : e;
  u32v big = e + ($cut << 23), r = (u32v)((f32v)u + (f32v)big) - big + ((e - $low) >> $cut);
  r = u >= $top ? (u32v{} + $over) : r;
  return s | (u > 0x7f800000u ? (u32v{} + 0x7fu) : r);
}
// @end

// @piece c_from_f8e5m2
COIL_FN f32 c_from_f8e5m2(u8 h) { return c_from_f16((u16)(h << 8)); }
COIL_FN f32v c_from_f8e5m2(u8v h) { return c_from_f16((u16v)(COIL_CV(h, u16v) << 8)); }

// @piece c_from_f8e4m3fn
COIL_FN f32 c_from_f8e4m3fn(u8 h) {
  return __builtin_bit_cast(
      f32, ((h & 0x7fu) == 0x7fu ? 0x7fc00000u
                                 : __builtin_bit_cast(u32, __builtin_bit_cast(f32, (h & 0x7fu) << 20) * 0x1p120f)) |
               (h & 0x80u) << 24);
}
COIL_FN f32v c_from_f8e4m3fn(u8v h) {
  u32v w = COIL_CV(COIL_CV(h, u16v), u32v);
  return (f32v)(((w & 0x7fu) == 0x7fu ? u32v{} + 0x7fc00000u : (u32v)((f32v)((w & 0x7fu) << 20) * 0x1p120f)) |
                (w & 0x80u) << 24);
}

// @for $f: f8e5m2, f8e4m3fn
// @piece c_round_$f
COIL_FN f32 c_round_$f(f32 x) { return c_from_$f((u8)c_bits_$f(x)); }
COIL_FN f32v c_round_$f(f32v x) { return c_from_$f(COIL_CV(COIL_CV(c_bits_$f(x), u16v), u8v)); }
// @end

// @for $f: f16, bf16, f8e4m3fn, f8e5m2
// @piece c_cast_$f
template <class T> COIL_FN auto c_cast_$f(T x) { return c_round_$f(c_cast_f32(x)); }
// @end
