// Updates of memory that several threads share. Metal's atomics are of 32 bits; buffers begin at multiples of 16 bytes,
// so that an element narrower than that changes with the word around it.
#pragma once
#include "memory.h"

#include "../grid/reductions.h"

#include "../grid/indices.h"

// @piece scatter
C_FN void c_atomic_add(device f32* p, f32 x) {
  metal::atomic_fetch_add_explicit((device metal::atomic_float*)p, x, metal::memory_order_relaxed);
}
C_FN void c_atomic_add(device i32* p, i32 x) {
  metal::atomic_fetch_add_explicit((device metal::atomic_int*)p, x, metal::memory_order_relaxed);
}
// The low half, and the high one with what the low one carried: in whatever order, the sum is whole when all are done.
C_FN void c_atomic_add(device i64* p, i64 x) {
  device metal::atomic_uint* const half_of = (device metal::atomic_uint*)p;
  const u32 low = (u32)x;
  const u32 old = metal::atomic_fetch_add_explicit(half_of, low, metal::memory_order_relaxed);
  const u32 high = (u32)((u64)x >> 32) + (old + low < old ? 1u : 0u);
  if (high != 0) metal::atomic_fetch_add_explicit(half_of + 1, high, metal::memory_order_relaxed);
}
// Element `at` of a buffer becomes what `op` makes of it and x.
// @for $d $e $w: f32 f32 u32, i32 i32 u32, u32 u32 u32, f16 u16 u16, bf16 u16 u16, i16 i16 u16, u16 u16 u16, i8 i8 u8, u8 u8 u8, b8 u8 u8, f8e5m2 u8 u8, f8e4m3fn u8 u8
template <class X, class Op> C_FN void c_update_$d(device $e* buffer, i64 at, X x, Op op) {
  const i64 of_word = 4 / sizeof($e);
  device metal::atomic_uint* const word = (device metal::atomic_uint*)buffer + at / of_word;
  const u32 shift = (u32)(at % of_word) * 8 * (u32)sizeof($e);
  const u32 mask = (u32)($w)~0u << shift;
  u32 seen = metal::atomic_load_explicit(word, metal::memory_order_relaxed), now;
  do {
    const $e old = c_bits_as<$e>(($w)(seen >> shift));
    now = (seen & ~mask) | (u32)c_bits_as<$w>(c_put_$d(op(c_get_$d(old), x))) << shift;
  } while (!metal::atomic_compare_exchange_weak_explicit(word, &seen, now, metal::memory_order_relaxed,
                                                         metal::memory_order_relaxed));
}
// @end
