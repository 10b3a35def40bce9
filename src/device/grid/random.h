// Random bits: of one element, and of an element of a run.
#pragma once
#include "products.h"

#include "../shared/philox.h"

// @piece random
C_FN u32 c_random(i64 seed, i64 salt, u64 at) {
  u32 a = (u32)(at >> 2), b = (u32)(at >> 34), c = (u32)salt, d = 0;
  c_philox(a, b, c, d, (u32)seed, (u32)((u64)seed >> 32));
  const u32 k = (u32)at & 3u;
  return k == 0 ? a : k == 1 ? b : k == 2 ? c : d;
}
// Element j of a run that begins with a block: the compiler sees that four neighbours share it.
C_FN u32 c_random_in_run(i64 seed, i64 salt, u64 begin, int j) {
  const u64 block = (begin >> 2) + (u32)(j / 4);
  u32 a = (u32)block, b = (u32)(block >> 32), c = (u32)salt, d = 0;
  c_philox(a, b, c, d, (u32)seed, (u32)((u64)seed >> 32));
  const int k = j % 4;
  return k == 0 ? a : k == 1 ? b : k == 2 ? c : d;
}
