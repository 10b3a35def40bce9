// Numbers that the threads of a threadgroup count up together, and the order of floats that Metal does not have.
#pragma once
#include "doubles.h"

// @piece counters
typedef metal::atomic_int c_counter;
template <class P> C_FN i32 c_counted(P p) { return metal::atomic_load_explicit(p, metal::memory_order_relaxed); }
template <class P> C_FN void c_count_from(P p, i32 x) {
  metal::atomic_store_explicit(p, x, metal::memory_order_relaxed);
}
template <class P> C_FN i32 c_count(P p) { return metal::atomic_fetch_add_explicit(p, 1, metal::memory_order_relaxed); }
template <class U> C_FN U c_key_of_float(U bits, U sign, U infinity);
C_FN u64 c_key_f64(f64 e) { return c_key_of_float<u64>(e.bits, (u64)1 << 63, (u64)0x7ff << 52); }
