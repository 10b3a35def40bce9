// The products of 32-bit words that Philox is made of: of one word, and of half a vector of them.
#pragma once
#include "lanes.h"

// @piece c_wide_mul c_high_of c_low_of c_factor c_product8
// A number of 32 bits stands in the low half of one of 64, whose high half says nothing.
COIL_FN u64 c_wide_mul(u32 x, u32 m) { return (u64)x * m; }
COIL_FN u32 c_high_of(u64 x) { return (u32)(x >> 32); }
COIL_FN u32 c_low_of(u64 x) { return (u32)x; }
#if COIL_L == 16 && defined(__AVX512F__)
typedef int c_factor COIL_VECTOR(int, 16);
#if defined(__clang__)
COIL_FN u64h c_wide_mul(u64h x, u32 m) {
  return (u64h)__builtin_ia32_pmuludq512((c_factor)x, (c_factor)(u64h{} + (u64)m));
}
#else
COIL_FN u64h c_wide_mul(u64h x, u32 m) {
  typedef long long c_product8 COIL_VECTOR(long long, 8);
  return (u64h)__builtin_ia32_pmuludq512_mask((c_factor)x, (c_factor)(u64h{} + (u64)m), (c_product8)x, (u8)-1);
}
#endif
#elif COIL_L == 8 && defined(__AVX2__)
typedef int c_factor COIL_VECTOR(int, 8);
COIL_FN u64h c_wide_mul(u64h x, u32 m) {
  return (u64h)__builtin_ia32_pmuludq256((c_factor)x, (c_factor)(u64h{} + (u64)m));
}
#elif COIL_L == 4 && defined(__SSE2__)
typedef int c_factor COIL_VECTOR(int, 4);
COIL_FN u64h c_wide_mul(u64h x, u32 m) {
  return (u64h)__builtin_ia32_pmuludq128((c_factor)x, (c_factor)(u64h{} + (u64)m));
}
#else
COIL_FN u64h c_wide_mul(u64h x, u32 m) { return (x & 0xfffffffful) * (u64)m; }
#endif
COIL_FN u64h c_high_of(u64h x) { return x >> 32; }
COIL_FN u64h c_low_of(u64h x) { return x; }
