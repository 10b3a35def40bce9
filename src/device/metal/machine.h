// Types, and what Metal has in its own way: bits, exchanges between the lanes of a simd group, barriers, the status
// word.
#pragma once
#include <metal_stdlib>

// @piece machine
typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
#define C_FN static inline
#define C_METHOD inline
#define C_LARGE_FN static inline
#define C_LOCAL thread
#define COIL_LOCAL thread
C_FN f32 c_f32_of(u32 x) { return as_type<f32>(x); }
C_FN u32 c_bits_of(f32 x) { return as_type<u32>(x); }
template <class To, class From> C_FN To c_bits_as(From x) { return as_type<To>(x); }
C_FN f32 c_max_nan(f32 x, f32 y) { return x != x || y != y ? c_f32_of(0x7fffffffu) : x > y ? x : y; }
C_FN f32 c_min_nan(f32 x, f32 y) { return x != x || y != y ? c_f32_of(0x7fffffffu) : x < y ? x : y; }
C_FN f32 c_get_f16(u16 x) { return (f32)as_type<half>(x); }
C_FN u16 c_put_f16(f32 x) { return as_type<u16>((half)x); }
// To the nearest, by whole numbers: every version of the language has these.
C_FN u16 c_put_bf16(f32 x) {
  const u32 u = c_bits_of(x);
  return x != x ? (u16)0x7fffu : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
C_FN u32 c_put_bf16_pair(f32 x, f32 y) { return c_put_bf16(x) | (u32)c_put_bf16(y) << 16; }
C_FN f32 c_ex2(f32 x) { return metal::exp2(x); }
C_FN f32 c_rcp_fast(f32 x) { return 1.0f / x; }
C_FN f32 c_product_of(f32 x, f32 y) { return x * y; }
C_FN u32 c_mul_high(u32 x, u32 y) { return metal::mulhi(x, y); }
C_FN void c_sync() { metal::threadgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup); }
C_FN void c_sync_warp() { metal::simdgroup_barrier(metal::mem_flags::mem_device | metal::mem_flags::mem_threadgroup); }
C_FN void c_begin() {}
// One word tells which call failed, for all of a queue: the host looks at it when the commands are done, and kernels
// after the one that failed write nothing.
struct c_status {
  device i64* failed;
  i64 site;
};
C_FN bool c_stop(c_status s) { return s.failed && *s.failed; }
C_FN void c_fail(c_status s) { *s.failed = s.site | 1l << 62; }
// A kernel's numbers, where they are too many for a parameter each.
template <int N> struct c_numbers {
  i64 n[N];
};

// @piece lanes
// ---- Exchanges. Numbers of 64 bits go as two, truth values and small numbers as one of 32.
// @for $t $w: f32 f32, i32 i32, u32 u32, i16 i32, u16 u32, i8 i32, u8 u32, bool u32
C_FN $t c_lane_xor($t x, int o) { return ($t)metal::simd_shuffle_xor(($w)x, (u16)o); }
C_FN $t c_lane_up($t x, int o) { return ($t)metal::simd_shuffle_up(($w)x, (u16)o); }
C_FN $t c_lane_from($t x, int o) { return ($t)metal::simd_shuffle(($w)x, (u16)o); }
// @end
// @for $t: i64, u64
C_FN $t c_lane_xor($t x, int o) { return as_type<$t>(metal::simd_shuffle_xor(as_type<uint2>(x), (u16)o)); }
C_FN $t c_lane_up($t x, int o) { return as_type<$t>(metal::simd_shuffle_up(as_type<uint2>(x), (u16)o)); }
C_FN $t c_lane_from($t x, int o) { return as_type<$t>(metal::simd_shuffle(as_type<uint2>(x), (u16)o)); }
// @end
template <class T> C_FN T c_infinity();
template <> C_METHOD f32 c_infinity<f32>() { return c_f32_of(0x7f800000u); }
