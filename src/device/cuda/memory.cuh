// Elements in memory, one at a time and in packs.
#pragma once
#include "math.cuh"

#include "../grid/activations.h"

// @piece memory
C_PLAIN(f64)

// The buffers of a launch that does the work of several.
template <int N> struct c_table {
  void* p[N];
};

// V elements that move in one access (two where they are more than 16 bytes).
template <class E, int V> struct alignas(sizeof(E) * V < 16 ? sizeof(E) * V : 16) c_pack {
  E e[V];
};
template <int B> struct c_words {
  uint4 w[B / 16];
};
template <> struct c_words<1> {
  u8 w[1];
};
template <> struct c_words<2> {
  u16 w[1];
};
template <> struct c_words<4> {
  u32 w[1];
};
template <> struct c_words<8> {
  uint2 w[1];
};
template <int V, class E> C_FN c_pack<E, V> c_read(const E* p) {
  typedef c_words<sizeof(E) * V> W;
  W w;
#pragma unroll
  for (unsigned k = 0; k < sizeof w.w / sizeof w.w[0]; ++k) w.w[k] = ((const W*)p)->w[k];
  c_pack<E, V> r;
  memcpy(&r, &w, sizeof r);
  return r;
}
template <int V, class E> C_FN void c_write(E* p, const c_pack<E, V>& x) {
  typedef c_words<sizeof(E) * V> W;
  W w;
  memcpy(&w, &x, sizeof w);
#pragma unroll
  for (unsigned k = 0; k < sizeof w.w / sizeof w.w[0]; ++k) ((W*)p)->w[k] = w.w[k];
}

// A pack of whole words is as if it had just been read: what was converted from it earlier need not stay in registers.
template <class E, int V> C_FN void c_renew(c_pack<E, V>& x) {
  u32 w[sizeof x / 4];
  memcpy(w, &x, sizeof x);
#pragma unroll
  for (unsigned k = 0; k < sizeof x / 4; ++k) c_opaque(w[k]);
  memcpy(&x, w, sizeof x);
}

// Element j of a pack of bf16, j known to the compiler: one instruction on the word that holds two.
template <int V> C_FN f32 c_bf16_in(const c_pack<u16, V>& x, int j) {
  u32 w;
  memcpy(&w, &x.e[j & ~1], sizeof w);
  return c_f32_of(j & 1 ? w & 0xffff0000u : w << 16);
}

// Registers as a pack of 16-bit floats, converted two at a time.
#define C_PACKED(t)                                                                  \
  template <int V> C_FN c_pack<u16, V> c_packed_##t(const f32(&x)[V]) {              \
    u32 w[V / 2];                                                                    \
    for (int k = 0; k < V / 2; ++k) w[k] = c_put_##t##_pair(x[2 * k], x[2 * k + 1]); \
    c_pack<u16, V> r;                                                                \
    memcpy(&r, w, sizeof r);                                                         \
    return r;                                                                        \
  }
C_PACKED(bf16)
C_PACKED(f16)

// The same where only the first `rest` of them (at least one) are there: others are read as the first, and not written.
template <int V, class E> C_FN c_pack<E, V> c_read_part(const E* p, i64 rest) {
  if (rest >= V) return c_read<V>(p);
  c_pack<E, V> r;
#pragma unroll
  for (int k = 0; k < V; ++k) r.e[k] = p[k < rest ? k : 0];
  return r;
}
template <int V, class E> C_FN void c_write_part(E* p, const c_pack<E, V>& x, i64 rest) {
  if (rest >= V) return c_write<V>(p, x);
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (k < rest) p[k] = x.e[k];
}
