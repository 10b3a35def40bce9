// Updates of memory that several threads share.
#pragma once
#include "reductions.cuh"

#include "../grid/indices.h"
#include "../grid/reductions.h"

// @piece scatter
// ---- Scatter. Elements narrower than 16 bits change with the word around them.
// What leaves a value as it is has been done when the value was read: no other thread's order speaks against it.
template <class T, class F> C_FN void c_update_whole(T* p, F f) {
  T old = *p, seen;
  do {
    seen = old;
    const T wanted = f(seen);
    if (wanted == seen) return;
    old = c_cas(p, seen, wanted);
  } while (old != seen);
}
template <class F> C_FN void c_update(u64* p, F f) { c_update_whole(p, f); }
template <class F> C_FN void c_update(u32* p, F f) { c_update_whole(p, f); }
template <class F> C_FN void c_update(u16* p, F f) { c_update_whole(p, f); }
template <class F> C_FN void c_update(u8* p, F f) {
  u32* const word = (u32*)((u64)p & ~3ull);
  const u32 shift = 8 * (u32)((u64)p & 3ull);
  c_update(word, [&](u32 w) { return (w & ~(0xffu << shift)) | (u32)f((u8)(w >> shift)) << shift; });
}
#if C_ADDS_RUNS
C_FN void c_add_run_f32(f32* p, const c_pack<f32, 4>& x) { c_add_vector(p, x.e); }
C_FN void c_add_run_bf16(u16* p, const c_pack<u16, 8>& x) { c_add_vector_bf16(p, (const u32*)x.e); }
C_FN void c_add_run_f16(u16* p, const c_pack<u16, 8>& x) { c_add_vector_f16(p, (const u32*)x.e); }
#else
C_FN void c_add_run_f32(f32* p, const c_pack<f32, 4>& x) {
  for (int i = 0; i < 4; ++i) c_atomic_add(p + i, x.e[i]);
}
C_FN void c_add_run_bf16(u16* p, const c_pack<u16, 8>& x) {
  for (int i = 0; i < 8; ++i) c_update(p + i, [&](u16 o) { return c_put_bf16(c_get_bf16(o) + c_get_bf16(x.e[i])); });
}
C_FN void c_add_run_f16(u16* p, const c_pack<u16, 8>& x) {
  for (int i = 0; i < 8; ++i) c_update(p + i, [&](u16 o) { return c_put_f16(c_get_f16(o) + c_get_f16(x.e[i])); });
}
#endif
