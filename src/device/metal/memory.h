// Elements in the device's memory, one at a time and in packs.
#pragma once
#include "values.h"

#include "../grid/arithmetic.h"

#include "../grid/activations.h"

// @piece memory
// V elements that move in one access (two where they are more than 16 bytes).
template <class E, int V> struct alignas(sizeof(E) * V < 16 ? sizeof(E) * V : 16) c_pack {
  E e[V];
};
template <int V, class E> C_FN c_pack<E, V> c_read(const device E* p) { return *(const device c_pack<E, V>*)p; }
template <int V, class E> C_FN void c_write(device E* p, c_pack<E, V> x) { *(device c_pack<E, V>*)p = x; }
template <class E, int V> C_FN void c_renew(thread c_pack<E, V>&) {}
template <int V> C_FN f32 c_bf16_in(c_pack<u16, V> x, int j) { return c_get_bf16(x.e[j]); }
// @for $t: bf16, f16
template <int V> C_FN c_pack<u16, V> c_packed_$t(const thread f32 (&x)[V]) {
  c_pack<u16, V> r;
  for (int k = 0; k < V; ++k) r.e[k] = c_put_$t(x[k]);
  return r;
}
// @end
// The same where only the first `rest` of them (at least one) are there: others are read as the first, and not written.
template <int V, class E> C_FN c_pack<E, V> c_read_part(const device E* p, i64 rest) {
  if (rest >= V) return c_read<V>(p);
  c_pack<E, V> r;
  for (int k = 0; k < V; ++k) r.e[k] = p[k < rest ? k : 0];
  return r;
}
template <int V, class E> C_FN void c_write_part(device E* p, c_pack<E, V> x, i64 rest) {
  if (rest >= V) return c_write<V>(p, x);
  for (int k = 0; k < V; ++k)
    if (k < rest) p[k] = x.e[k];
}
