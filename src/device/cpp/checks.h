// Indices that data decides, one at a time.
#pragma once
#include "types.h"

// @piece coil_check coil_place
static inline i64 coil_check(i64 index, i64 size, i64* status) {
  if ((u64)index >= (u64)size) {
    *status = 1;
    return 0;
  }
  return index;
}
static inline i64 coil_place(i64 index, i64 size) { return (u64)index < (u64)size ? index : -1; }
