// Raw lanes in memory, by their width: whole vectors, the first n lanes, strided and indexed ones, every second and
// fourth one, stores past the cache.
#pragma once
#include "convert.h"

// @piece c_unaligned c_u8m c_u16m c_u32m c_u64m c_ones
// Partial vectors use masked instructions where the machine has them, and else memcpy.
typedef u8 c_u8m __attribute__((may_alias));
typedef u16 c_u16m __attribute__((may_alias, aligned(1)));
typedef u32 c_u32m __attribute__((may_alias, aligned(1)));
typedef u64 c_u64m __attribute__((may_alias, aligned(1)));
template <class V> struct __attribute__((packed, may_alias)) c_unaligned {
  V v;
};
#if COIL_L == 16 && defined(__AVX512VL__) && defined(__AVX512BW__)
#define COIL_MASKED 512
#ifdef __clang__
#define COIL_P8(p) (char COIL_VECTOR(char, 16)*)(p)
#define COIL_P16(p) (short COIL_VECTOR(short, 16)*)(p)
#else
#define COIL_P8(p) (char*)(p)
#define COIL_P16(p) (short*)(p)
#endif
typedef char c_char16 COIL_VECTOR(char, 16);
typedef short c_short16 COIL_VECTOR(short, 16);
typedef long long c_long8 COIL_VECTOR(long long, 8);
COIL_FN u32 c_ones(i64 n) { return (1u << n) - 1u; }
#elif COIL_L == 8 && defined(__AVX2__)
#define COIL_MASKED 256
typedef long long c_long4 COIL_VECTOR(long long, 4);
COIL_FN i32v c_ones(i64 n) { return i32v{0, 1, 2, 3, 4, 5, 6, 7} < (i32)n; }
#endif

// @piece c_raw8 c_rawn8 c_put8 c_putn8
COIL_FN u8v c_raw8(const void* p) { return ((const c_unaligned<u8v>*)p)->v; }
COIL_FN void c_put8(void* p, u8v x) { ((c_unaligned<u8v>*)p)->v = x; }
#if COIL_MASKED == 512
COIL_FN u8v c_rawn8(const void* p, i64 n) {
  return (u8v)__builtin_ia32_loaddquqi128_mask(COIL_P8(p), c_char16{}, c_ones(n));
}
COIL_FN void c_putn8(void* p, u8v x, i64 n) { __builtin_ia32_storedquqi128_mask(COIL_P8(p), (c_char16)x, c_ones(n)); }
#else
COIL_FN u8v c_rawn8(const void* p, i64 n) {
  u8v x = {};
  __builtin_memcpy(&x, p, n * (8 / 8));
  return x;
}
COIL_FN void c_putn8(void* p, u8v x, i64 n) { __builtin_memcpy(p, &x, n * (8 / 8)); }
#endif

// @piece c_raw16 c_rawn16 c_put16 c_putn16
COIL_FN u16v c_raw16(const void* p) { return ((const c_unaligned<u16v>*)p)->v; }
COIL_FN void c_put16(void* p, u16v x) { ((c_unaligned<u16v>*)p)->v = x; }
#if COIL_MASKED == 512
COIL_FN u16v c_rawn16(const void* p, i64 n) {
  return (u16v)__builtin_ia32_loaddquhi256_mask(COIL_P16(p), c_short16{}, c_ones(n));
}
COIL_FN void c_putn16(void* p, u16v x, i64 n) {
  __builtin_ia32_storedquhi256_mask(COIL_P16(p), (c_short16)x, c_ones(n));
}
#else
COIL_FN u16v c_rawn16(const void* p, i64 n) {
  u16v x = {};
  __builtin_memcpy(&x, p, n * (16 / 8));
  return x;
}
COIL_FN void c_putn16(void* p, u16v x, i64 n) { __builtin_memcpy(p, &x, n * (16 / 8)); }
#endif

// @piece c_raw32 c_rawn32 c_put32 c_putn32
COIL_FN u32v c_raw32(const void* p) { return ((const c_unaligned<u32v>*)p)->v; }
COIL_FN void c_put32(void* p, u32v x) { ((c_unaligned<u32v>*)p)->v = x; }
#if COIL_MASKED == 512
COIL_FN u32v c_rawn32(const void* p, i64 n) {
  return (u32v)__builtin_ia32_loaddqusi512_mask((int*)p, i32v{}, c_ones(n));
}
COIL_FN void c_putn32(void* p, u32v x, i64 n) { __builtin_ia32_storedqusi512_mask((int*)p, (i32v)x, c_ones(n)); }
#elif COIL_MASKED == 256
COIL_FN u32v c_rawn32(const void* p, i64 n) { return (u32v)__builtin_ia32_maskloadd256((const i32v*)p, c_ones(n)); }
COIL_FN void c_putn32(void* p, u32v x, i64 n) { __builtin_ia32_maskstored256((i32v*)p, c_ones(n), (i32v)x); }
#else
COIL_FN u32v c_rawn32(const void* p, i64 n) {
  u32v x = {};
  __builtin_memcpy(&x, p, n * (32 / 8));
  return x;
}
COIL_FN void c_putn32(void* p, u32v x, i64 n) { __builtin_memcpy(p, &x, n * (32 / 8)); }
#endif

// @piece c_raw64 c_rawn64 c_put64 c_putn64
COIL_FN u64v c_raw64(const void* p) { return ((const c_unaligned<u64v>*)p)->v; }
COIL_FN void c_put64(void* p, u64v x) { ((c_unaligned<u64v>*)p)->v = x; }
#if COIL_MASKED == 512
COIL_FN u64v c_rawn64(const void* p, i64 n) {
  u32 m = c_ones(n);
  return {(u64h)__builtin_ia32_loaddqudi512_mask((long long*)p, c_long8{}, (u8)m),
          (u64h)__builtin_ia32_loaddqudi512_mask((long long*)p + 8, c_long8{}, (u8)(m >> 8))};
}
COIL_FN void c_putn64(void* p, u64v x, i64 n) {
  u32 m = c_ones(n);
  __builtin_ia32_storedqudi512_mask((long long*)p, (c_long8)x.a, (u8)m);
  __builtin_ia32_storedqudi512_mask((long long*)p + 8, (c_long8)x.b, (u8)(m >> 8));
}
#elif COIL_MASKED == 256
COIL_FN u64v c_rawn64(const void* p, i64 n) {
  i32v m = c_ones(n);
  return {(u64h)__builtin_ia32_maskloadq256((const c_long4*)p, COIL_CV(COIL_LO(m), c_long4)),
          (u64h)__builtin_ia32_maskloadq256((const c_long4*)p + 1, COIL_CV(COIL_HI(m), c_long4))};
}
COIL_FN void c_putn64(void* p, u64v x, i64 n) {
  i32v m = c_ones(n);
  __builtin_ia32_maskstoreq256((c_long4*)p, COIL_CV(COIL_LO(m), c_long4), (c_long4)x.a);
  __builtin_ia32_maskstoreq256((c_long4*)p + 1, COIL_CV(COIL_HI(m), c_long4), (c_long4)x.b);
}
#else
COIL_FN u64v c_rawn64(const void* p, i64 n) {
  u64v x = {};
  __builtin_memcpy(&x, p, n * (64 / 8));
  return x;
}
COIL_FN void c_putn64(void* p, u64v x, i64 n) { __builtin_memcpy(p, &x, n * (64 / 8)); }
#endif

// @piece COIL_EACH COIL_EACH_LO COIL_EACH_HI COIL_STRIDED COIL_STRIDED_N
// Lists of lanes: COIL_EACH(F) is F(0), F(1), …; the halves likewise.
#if COIL_L == 16
#define COIL_EACH_LO(F) F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7)
#define COIL_EACH_HI(F) F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15)
#elif COIL_L == 8
#define COIL_EACH_LO(F) F(0), F(1), F(2), F(3)
#define COIL_EACH_HI(F) F(4), F(5), F(6), F(7)
#else
#define COIL_EACH_LO(F) F(0), F(1)
#define COIL_EACH_HI(F) F(2), F(3)
#endif
#define COIL_EACH(F) COIL_EACH_LO(F), COIL_EACH_HI(F)
#define COIL_STRIDED(i) q[i * s]
#define COIL_STRIDED_N(i) (u64)(i < n ? q[i * s] : 0)
#define COIL_INDEXED_LO(i) q[s.a[i]]
#define COIL_INDEXED_HI(i) q[s.b[i - COIL_L / 2]]
#define COIL_INDEXED_N_LO(i) (u64)(i < n ? q[s.a[i]] : 0)
#define COIL_INDEXED_N_HI(i) (u64)(i < n ? q[s.b[i - COIL_L / 2]] : 0)

// @for $w: 8, 16, 32
// @piece c_raws$w c_rawsn$w c_rawg$w c_rawgn$w
#define COIL_LANE_LO(i) (u$w) COIL_STRIDED(i)
#define COIL_LANE_HI(i) (u$w) COIL_STRIDED(i)
COIL_FN u$wv c_raws$w(const void* p, i64 s) {
  const c_u$wm* q = (const c_u$wm*)p;
  return u$wv{COIL_EACH_LO(COIL_LANE_LO), COIL_EACH_HI(COIL_LANE_HI)};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u$w) COIL_STRIDED_N(i)
#define COIL_LANE_HI(i) (u$w) COIL_STRIDED_N(i)
COIL_FN u$wv c_rawsn$w(const void* p, i64 s, i64 n) {
  const c_u$wm* q = (const c_u$wm*)p;
  return u$wv{COIL_EACH_LO(COIL_LANE_LO), COIL_EACH_HI(COIL_LANE_HI)};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u$w) COIL_INDEXED_LO(i)
#define COIL_LANE_HI(i) (u$w) COIL_INDEXED_HI(i)
COIL_FN u$wv c_rawg$w(const void* p, i64v s) {
  const c_u$wm* q = (const c_u$wm*)p;
  return u$wv{COIL_EACH_LO(COIL_LANE_LO), COIL_EACH_HI(COIL_LANE_HI)};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u$w) COIL_INDEXED_N_LO(i)
#define COIL_LANE_HI(i) (u$w) COIL_INDEXED_N_HI(i)
COIL_FN u$wv c_rawgn$w(const void* p, i64v s, i64 n) {
  const c_u$wm* q = (const c_u$wm*)p;
  return u$wv{COIL_EACH_LO(COIL_LANE_LO), COIL_EACH_HI(COIL_LANE_HI)};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
// @end

// @piece c_raws64 c_rawsn64 c_rawg64 c_rawgn64
#define COIL_LANE_LO(i) (u64) COIL_STRIDED(i)
#define COIL_LANE_HI(i) (u64) COIL_STRIDED(i)
COIL_FN u64v c_raws64(const void* p, i64 s) {
  const c_u64m* q = (const c_u64m*)p;
  return {u64h{COIL_EACH_LO(COIL_LANE_LO)}, u64h{COIL_EACH_HI(COIL_LANE_HI)}};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u64) COIL_STRIDED_N(i)
#define COIL_LANE_HI(i) (u64) COIL_STRIDED_N(i)
COIL_FN u64v c_rawsn64(const void* p, i64 s, i64 n) {
  const c_u64m* q = (const c_u64m*)p;
  return {u64h{COIL_EACH_LO(COIL_LANE_LO)}, u64h{COIL_EACH_HI(COIL_LANE_HI)}};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u64) COIL_INDEXED_LO(i)
#define COIL_LANE_HI(i) (u64) COIL_INDEXED_HI(i)
COIL_FN u64v c_rawg64(const void* p, i64v s) {
  const c_u64m* q = (const c_u64m*)p;
  return {u64h{COIL_EACH_LO(COIL_LANE_LO)}, u64h{COIL_EACH_HI(COIL_LANE_HI)}};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI
#define COIL_LANE_LO(i) (u64) COIL_INDEXED_N_LO(i)
#define COIL_LANE_HI(i) (u64) COIL_INDEXED_N_HI(i)
COIL_FN u64v c_rawgn64(const void* p, i64v s, i64 n) {
  const c_u64m* q = (const c_u64m*)p;
  return {u64h{COIL_EACH_LO(COIL_LANE_LO)}, u64h{COIL_EACH_HI(COIL_LANE_HI)}};
}
#undef COIL_LANE_LO
#undef COIL_LANE_HI

// @piece COIL_EVENS COIL_EVENS_HALF
// Every second and every fourth element by whole loads. The second load ends with the last element wanted, so that none
// behind it is touched.
#if COIL_L == 16
#define COIL_EVENS 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#define COIL_EVENS_HALF 0, 2, 4, 6, 9, 11, 13, 15
#elif COIL_L == 8
#define COIL_EVENS 0, 2, 4, 6, 9, 11, 13, 15
#define COIL_EVENS_HALF 0, 2, 5, 7
#else
#define COIL_EVENS 0, 2, 5, 7
#define COIL_EVENS_HALF 0, 3
#endif

// @piece c_raws2x8 c_raws4x8 c_rawsn2x8 c_rawsn4x8
COIL_FN u8v c_raws2x8(const void* p) { return c_raws8(p, 2); }
COIL_FN u8v c_raws4x8(const void* p) { return c_raws8(p, 4); }
COIL_FN u8v c_rawsn2x8(const void* p, i64 n) { return c_rawsn8(p, 2, n); }
COIL_FN u8v c_rawsn4x8(const void* p, i64 n) { return c_rawsn8(p, 4, n); }

// @for $w: 16, 32
// @piece c_raws2x$w c_raws4x$w c_rawsn2x$w c_rawsn4x$w
COIL_FN u$wv c_raws2x$w(const void* p) {
  return __builtin_shufflevector(c_raw$w(p), c_raw$w((const c_u$wm*)p + (COIL_L - 1)), COIL_EVENS);
}
COIL_FN u$wv c_raws4x$w(const void* p) {
  return __builtin_shufflevector(c_raws2x$w(p), c_raws2x$w((const c_u$wm*)p + 2 * (COIL_L - 1)), COIL_EVENS);
}
COIL_FN u$wv c_rawsn2x$w(const void* p, i64 n) {
  const i64 m = 2 * n - 1;
  return __builtin_shufflevector(c_rawn$w(p, m < COIL_L ? m : COIL_L),
                                 c_rawn$w((const c_u$wm*)p + (COIL_L - 1), m > COIL_L - 1 ? m - (COIL_L - 1) : 0),
                                 COIL_EVENS);
}
COIL_FN u$wv c_rawsn4x$w(const void* p, i64 n) { return c_rawsn$w(p, 4, n); }
// @end

// @piece c_raws2x64 c_raws4x64 c_rawsn2x64 c_rawsn4x64 c_half2
COIL_FN u64h c_half2(const void* p) {
  return __builtin_shufflevector(((const c_unaligned<u64h>*)p)->v,
                                 ((const c_unaligned<u64h>*)((const c_u64m*)p + (COIL_L / 2 - 1)))->v, COIL_EVENS_HALF);
}
COIL_FN u64v c_raws2x64(const void* p) { return {c_half2(p), c_half2((const c_u64m*)p + COIL_L)}; }
COIL_FN u64v c_raws4x64(const void* p) { return c_raws64(p, 4); }
COIL_FN u64v c_rawsn2x64(const void* p, i64 n) { return c_rawsn64(p, 2, n); }
COIL_FN u64v c_rawsn4x64(const void* p, i64 n) { return c_rawsn64(p, 4, n); }

// @piece c_past_cache c_stream_end c_cache COIL_STREAM_32 COIL_STREAM_16
// Stores past the cache. `past` is 0, or all ones where the cache is to be kept (c_past_cache): the address then never
// looks aligned.
#ifdef __x86_64__
COIL_FN u64 c_cache_of(u32 leaf) {
  u32 a = leaf, b, c = 3, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return a & 31 ? (u64)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((u64)c + 1) : 0;
}
COIL_FN u64 c_last_cache() {
  u32 a = 0x80000000, b, c = 0, d;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  const u64 intel = c_cache_of(4);
  return intel ? intel : a >= 0x8000001d ? c_cache_of(0x8000001d) : 0;
}
static const u64 c_cache = c_last_cache();
COIL_FN u64 c_past_cache(i64 bytes) { return c_cache != 0 && 2 * (u64)bytes >= c_cache ? 0 : ~(u64)0; }
COIL_FN void c_stream_end(u64 past) {
  if (past == 0) __builtin_ia32_sfence();
}
#else
COIL_FN u64 c_past_cache(i64) { return ~(u64)0; }
COIL_FN void c_stream_end(u64) {}
#endif
#if defined(__x86_64__) && !defined(__clang__)
typedef long long c_quads2 COIL_VECTOR(long long, 2);
typedef long long c_quads4 COIL_VECTOR(long long, 4);
typedef long long c_quads8 COIL_VECTOR(long long, 8);
#if COIL_L == 16 && defined(__AVX512F__)
#define COIL_STREAM_32(p, x) __builtin_ia32_movntdq512((c_quads8*)(p), (c_quads8)(x))
#define COIL_STREAM_16(p, x) __builtin_ia32_movntdq256((c_quads4*)(p), (c_quads4)(x))
#elif COIL_L == 8 && defined(__AVX__)
#define COIL_STREAM_32(p, x) __builtin_ia32_movntdq256((c_quads4*)(p), (c_quads4)(x))
#define COIL_STREAM_16(p, x) __builtin_ia32_movntdq((c_quads2*)(p), (c_quads2)(x))
#endif
#elif defined(__x86_64__) && COIL_L >= 8
#define COIL_STREAM_32(p, x) __builtin_nontemporal_store(x, (decltype(x)*)(p))
#define COIL_STREAM_16(p, x) COIL_STREAM_32(p, x)
#endif

// @for $w: 16, 32
// @piece c_past$w
COIL_FN void c_past$w(void* p, u$wv x, u64 past) {
#ifdef COIL_STREAM_$w
  if (((u64)p & (past | (sizeof(x) - 1))) == 0) {
    COIL_STREAM_$w(p, x);
    return;
  }
#endif
  c_put$w(p, x);
}
// @end

// @piece c_past64
COIL_FN void c_past64(void* p, u64v x, u64 past) {
#ifdef COIL_STREAM_32
  if (((u64)p & (past | (sizeof(u64h) - 1))) == 0) {
    COIL_STREAM_32(p, x.a);
    COIL_STREAM_32((c_u64m*)p + COIL_L / 2, x.b);
    return;
  }
#endif
  c_put64(p, x);
}

// @piece c_fetch c_fetch_far
COIL_FN void c_fetch(const void* p) { __builtin_prefetch(p, 0, 3); }
COIL_FN void c_fetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

// @piece c_at
COIL_FN i64 c_at(i64 s, i64 i) { return s * i; }
COIL_FN i64 c_at(const i64* s, i64 i) { return s[i]; }

// @for $w: 8, 16, 32, 64
// @piece c_puts$w
template <class S, class V> COIL_FN void c_puts$w(void* p, S s, V x, i64 n) {
  c_u$wm* q = (c_u$wm*)p;
  u$w t[COIL_L];
  c_put$w(t, x);
  for (i64 i = 0; i < n; i++) q[c_at(s, i)] = t[i];
}
// @end

// @piece c_from_bf16
COIL_FN f32 c_from_bf16(u16 h) { return __builtin_bit_cast(f32, (u32)h << 16); }
#if COIL_L == 16 && defined(__AVX512F__) && !defined(__clang__)
typedef short c_short16b COIL_VECTOR(short, 16);
COIL_FN f32v c_from_bf16(u16v h) {
  return (f32v)((u32v)__builtin_ia32_pmovzxwd512_mask((c_short16b)h, i32v{}, (u16)-1) << 16);
}
#elif COIL_L == 8 && defined(__AVX2__) && !defined(__clang__)
typedef short c_short8b COIL_VECTOR(short, 8);
COIL_FN f32v c_from_bf16(u16v h) { return (f32v)((u32v)__builtin_ia32_pmovzxwd256((c_short8b)h) << 16); }
#else
COIL_FN f32v c_from_bf16(u16v h) { return (f32v)(COIL_CV(h, u32v) << 16); }
#endif
