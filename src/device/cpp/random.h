// Random bits: of one element, of a vector of elements that lie anywhere, and of elements side by side, of which four
// share a block.
#pragma once
#include "products.h"

#include "../shared/philox.h"

// @piece c_random c_random_half
COIL_FN u32 c_random(i64 seed, i64 salt, i64 at) {
  u32 a = (u32)(at >> 2), b = (u32)(at >> 34), c = (u32)salt, d = 0;
  c_philox(a, b, c, d, (u32)seed, (u32)((u64)seed >> 32));
  const int k = (int)(at & 3);
  return k == 0 ? a : k == 1 ? b : k == 2 ? c : d;
}
COIL_FN u32h c_random_half(i64 seed, i64 salt, i64h at) {
  u64h a = (u64h)(at >> 2), b = (u64h)(at >> 34), c = u64h{} + (u64)salt, d = u64h{};
  c_philox(a, b, c, d, (u64)seed, (u64)seed >> 32);
  const u64h k = (u64h)at & 3ul;
  return COIL_CV((u64h)(k == 0ul ? a : k == 1ul ? b : k == 2ul ? c : d), u32h);
}
COIL_FN u32v c_random(i64 seed, i64 salt, i64v at) {
  return COIL_CAT(c_random_half(seed, salt, at.a), c_random_half(seed, salt, at.b));
}

// @piece c_random_at c_random_row c_random_fill
// 16 blocks at a time; two such rows, since a vector may begin in one and end in the next.
struct c_random_row {
  i64 row = -1;
  bool next = false;
  alignas(64) u32 words[128];
};
static __attribute__((noinline)) void c_random_fill(u32* to, i64 seed, i64 salt, i64 row) {
  u64h lane;
  for (int l = 0; l < COIL_L / 2; ++l) lane[l] = (u64)l;
  for (int l = 0; l < 16; l += COIL_L / 2) {
    const u64h block = lane + ((u64)row * 16 + (u64)l);
    u64h a = block, b = block >> 32, c = u64h{} + (u64)salt, d = u64h{};
    c_philox(a, b, c, d, (u64)seed, (u64)seed >> 32);
    const u64h low = (a & 0xfffffffful) | (b << 32), high = (c & 0xfffffffful) | (d << 32);
    u64h first, second;
#if COIL_L == 16
    first = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11),
    second = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif COIL_L == 8
    first = __builtin_shufflevector(low, high, 0, 4, 1, 5), second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
    first = __builtin_shufflevector(low, high, 0, 2), second = __builtin_shufflevector(low, high, 1, 3);
#endif
    __builtin_memcpy(to + 4 * l, &first, sizeof first);
    __builtin_memcpy(to + 4 * l + COIL_L, &second, sizeof second);
  }
}
COIL_FN u32v c_random_at(c_random_row& r, i64 seed, i64 salt, i64 at) {
  const i64 row = at >> 6, k = at & 63;
  if (row != r.row) {
    if (r.next && row == r.row + 1)
      __builtin_memcpy(r.words, r.words + 64, 256);
    else
      c_random_fill(r.words, seed, salt, row);
    r.row = row, r.next = false;
  }
  if (k > 64 - COIL_L && !r.next) c_random_fill(r.words + 64, seed, salt, row + 1), r.next = true;
  u32v x;
  __builtin_memcpy(&x, r.words + k, sizeof x);
  return x;
}
