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
// Element `at` of a buffer becomes what `op` makes of it and x. `bits`: the element's, as an unsigned number.
#define C_UPDATE(d, element, bits)                                                                        \
  template <class X, class Op> C_FN void c_update_##d(device element* buffer, i64 at, X x, Op op) {       \
    const i64 of_word = 4 / sizeof(element);                                                              \
    device metal::atomic_uint* const word = (device metal::atomic_uint*)buffer + at / of_word;            \
    const u32 shift = (u32)(at % of_word) * 8 * (u32)sizeof(element), mask = (u32)(bits)~0u << shift;     \
    u32 seen = metal::atomic_load_explicit(word, metal::memory_order_relaxed), now;                       \
    do {                                                                                                  \
      const element old = c_bits_as<element>((bits)(seen >> shift));                                      \
      now = (seen & ~mask) | (u32)c_bits_as<bits>(c_put_##d(op(c_get_##d(old), x))) << shift;             \
    } while (!metal::atomic_compare_exchange_weak_explicit(word, &seen, now, metal::memory_order_relaxed, \
                                                           metal::memory_order_relaxed));                 \
  }
C_UPDATE(f32, f32, u32)
C_UPDATE(i32, i32, u32)
C_UPDATE(u32, u32, u32)
C_UPDATE(f16, u16, u16)
C_UPDATE(bf16, u16, u16)
C_UPDATE(i16, i16, u16)
C_UPDATE(u16, u16, u16)
C_UPDATE(i8, i8, u8)
C_UPDATE(u8, u8, u8)
C_UPDATE(b8, u8, u8)
C_UPDATE(f8e5m2, u8, u8)
C_UPDATE(f8e4m3fn, u8, u8)
