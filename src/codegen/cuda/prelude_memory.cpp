// Elements in memory, reductions across threads, atomics, checked indices.
#include "codegen/cuda/prelude_pieces.h"

namespace coil::codegen {

std::string_view cuda_prelude_memory() {
  return R"(
// ---- Elements: as stored, and as registers.
#define C_PLAIN(t) C_FN t c_get_##t(t x) { return x; } C_FN t c_put_##t(t x) { return x; }
C_PLAIN(f32) C_PLAIN(f64) C_PLAIN(i8) C_PLAIN(i16) C_PLAIN(i32) C_PLAIN(i64) C_PLAIN(u8) C_PLAIN(u16) C_PLAIN(u32) C_PLAIN(u64)
C_FN bool c_get_b8(u8 x) { return x != 0; }
C_FN u8 c_put_b8(bool x) { return x; }

// The buffers of a launch that does the work of several.
template <int N> struct c_table { void* p[N]; };

// V elements that move in one access (two where they are more than 16 bytes).
template <class E, int V> struct alignas(sizeof(E) * V < 16 ? sizeof(E) * V : 16) c_pack { E e[V]; };
template <int B> struct c_words { uint4 w[B / 16]; };
template <> struct c_words<1> { u8 w[1]; };
template <> struct c_words<2> { u16 w[1]; };
template <> struct c_words<4> { u32 w[1]; };
template <> struct c_words<8> { uint2 w[1]; };
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
#define C_PACKED(t) template <int V> C_FN c_pack<u16, V> c_packed_##t(const f32 (&x)[V]) { \
  u32 w[V / 2]; \
  for (int k = 0; k < V / 2; ++k) w[k] = c_put_##t##_pair(x[2 * k], x[2 * k + 1]); \
  c_pack<u16, V> r; \
  memcpy(&r, w, sizeof r); \
  return r; }
C_PACKED(bf16) C_PACKED(f16)

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

// ---- Across threads. Orders are fixed, so that results are the same in every run.
template <class T> C_FN T c_lane_xor(T x, int o) {
  if (sizeof(T) == 8) { u64 w = 0; memcpy(&w, &x, sizeof x); w = c_shfl_xor(w, o); memcpy(&x, &w, sizeof x); }
  else { u32 w = 0; memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4); w = c_shfl_xor(w, o); memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4); }
  return x;
}
template <class T> C_FN T c_lane_up(T x, int o) {
  if (sizeof(T) == 8) { u64 w = 0; memcpy(&w, &x, sizeof x); w = c_shfl_up(w, o); memcpy(&x, &w, sizeof x); }
  else { u32 w = 0; memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4); w = c_shfl_up(w, o); memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4); }
  return x;
}
template <class T> C_FN T c_lane_from(T x, int o) {
  if (sizeof(T) == 8) { u64 w = 0; memcpy(&w, &x, sizeof x); w = c_shfl_from(w, o); memcpy(&x, &w, sizeof x); }
  else { u32 w = 0; memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4); w = c_shfl_from(w, o); memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4); }
  return x;
}
struct c_op_add { template <class T> C_METHOD T operator()(T a, T b) const { return c_add(a, b); } };
struct c_op_mul { template <class T> C_METHOD T operator()(T a, T b) const { return c_mul(a, b); } };
struct c_op_max { template <class T> C_METHOD T operator()(T a, T b) const { return c_max(a, b); } };
struct c_op_min { template <class T> C_METHOD T operator()(T a, T b) const { return c_min(a, b); } };
struct c_op_or { template <class T> C_METHOD T operator()(T a, T b) const { return c_or(a, b); } };
struct c_op_and { template <class T> C_METHOD T operator()(T a, T b) const { return c_and(a, b); } };
struct c_op_xor { template <class T> C_METHOD T operator()(T a, T b) const { return c_xor(a, b); } };
template <class T> C_METHOD T c_infinity();
template <> C_METHOD f32 c_infinity<f32>() { return c_f32_of(0x7f800000u); }
template <> C_METHOD f64 c_infinity<f64>() { return c_f64_of(0x7ff0000000000000ull); }
C_FN f32 c_quick_recip(f32 x) { return c_rcp_fast(x); }
C_FN f64 c_quick_recip(f64 x) { return 1 / x; }
// The logarithm of a sum of exponentials: the greatest exponent, and the sum of all others' exponentials under it, so that only what is stored takes a logarithm.
template <class T> struct c_lse { T m, rest; };
C_FN f32 c_exp_of_less(f32 d) { return c_ex2(c_product_of(d, 0x1.715476p+0f)); }
C_FN f64 c_exp_of_less(f64 d) { return c_exp(d); }
struct c_op_lse {
  template <class T> C_METHOD c_lse<T> operator()(c_lse<T> a, c_lse<T> b) const {
    const T m = c_max(a.m, b.m), low = c_min(a.m, b.m), share = a.m == b.m ? (T)1 : c_exp_of_less(low - m);
    return {m, (a.m >= b.m ? a.rest + b.rest * share : b.rest + a.rest * share) + share};  // the same either way round
  }
};
template <class T> C_FN c_lse<T> c_lse_of(T x) { return {x, 0}; }
template <class T> C_FN T c_lse_value(c_lse<T> x) { return c_isinf(x.m) ? x.m : x.m + c_log1p(x.rest); }
template <class T> C_FN c_lse<T> c_lane_xor(c_lse<T> x, int o) { return {c_lane_xor(x.m, o), c_lane_xor(x.rest, o)}; }
template <class T> C_FN c_lse<T> c_lane_up(c_lse<T> x, int o) { return {c_lane_up(x.m, o), c_lane_up(x.rest, o)}; }
template <class T> C_FN c_lse<T> c_lane_from(c_lse<T> x, int o) { return {c_lane_from(x.m, o), c_lane_from(x.rest, o)}; }
// An extreme with its place: the first of equals wins, NaN counts as extreme.
template <class T, class P> struct c_arg { T x; P p; };
template <class T, class P> C_FN bool c_beats(T x, P p, T y, P q, bool high) {
  if (x != x || y != y) return x != x && (y == y || p < q);
  return (high ? x > y : x < y) || (x == y && p < q);
}
template <class T, class P> C_FN c_arg<T, P> c_lane_xor(c_arg<T, P> x, int o) { return {c_lane_xor(x.x, o), c_lane_xor(x.p, o)}; }
struct c_op_argmax { template <class T, class P> C_METHOD c_arg<T, P> operator()(c_arg<T, P> a, c_arg<T, P> b) const { return c_beats(b.x, b.p, a.x, a.p, true) ? b : a; } };
struct c_op_argmin { template <class T, class P> C_METHOD c_arg<T, P> operator()(c_arg<T, P> a, c_arg<T, P> b) const { return c_beats(b.x, b.p, a.x, a.p, false) ? b : a; } };
// A maximum, and the sum of exponentials under it, in one pass: what was summed under a lower maximum is scaled down.
template <class T> struct c_soft { T m, s; };
template <class T> C_FN c_soft<T> c_lane_xor(c_soft<T> x, int o) { return {c_lane_xor(x.m, o), c_lane_xor(x.s, o)}; }
template <class T, int V> C_FN c_soft<T> c_take(c_soft<T> a, const T (&x)[V]) {
  T m = a.m;
#pragma unroll
  for (int j = 0; j < V; ++j) m = c_max(m, x[j]);
  // Without a branch, so that the loads of runs to come are under way meanwhile.
  const T shift = m > -c_infinity<T>() ? m : (T)0;
  T s = a.s * c_exp(a.m - shift);
#pragma unroll
  for (int j = 0; j < V; ++j) s += c_exp(x[j] - shift);
  return {m, s};
}
// f32 counts in powers of two: the sum of 2^(x log2 e - r), where r is m log2 e as rounded; c_soft_sum makes up for that rounding. Maxima beyond 2^126 are not its (c_soft_fits), but a part of a row may have none above
// -2^126, the least number as a mask or -inf: it adds nothing.
C_FN f32 c_log2e() { return 0x1.715476p+0f; }
C_FN f32 c_soft_shift(f32 m) { return c_product_of(fmaxf(m, -0x1p126f), c_log2e()); }
template <int V> C_FN c_soft<f32> c_take(c_soft<f32> a, const f32 (&x)[V]) {
  f32 m = a.m;
#pragma unroll
  for (int j = 0; j < V; ++j) m = c_max(m, x[j]);
  const f32 shift = c_soft_shift(m);
  f32 s = a.s * c_ex2(c_product_of(a.m, c_log2e()) - shift), e[V];
#pragma unroll
  for (int j = 0; j < V; ++j) e[j] = c_ex2(fmaf(x[j], c_log2e(), -shift));
#pragma unroll
  for (int o = 1; o < V; o *= 2)
#pragma unroll
    for (int j = 0; j + o < V; j += 2 * o) e[j] += e[j + o];
  return {m, s + e[0]};
}
struct c_op_soft {
  template <class T> C_METHOD c_soft<T> operator()(c_soft<T> a, c_soft<T> b) const {
    const T m = c_max(a.m, b.m);
    return {m, m > -c_infinity<T>() ? a.s * c_exp(a.m - m) + b.s * c_exp(b.m - m) : (T)0};
  }
  C_METHOD c_soft<f32> operator()(c_soft<f32> a, c_soft<f32> b) const {
    const f32 m = c_max(a.m, b.m), shift = c_soft_shift(m);
    return {m, a.s * c_ex2(c_product_of(a.m, c_log2e()) - shift) + b.s * c_ex2(c_product_of(b.m, c_log2e()) - shift)};
  }
};
template <class T> C_FN bool c_soft_fits(T m) { return c_abs(m) < c_infinity<T>(); }
C_FN bool c_soft_fits(f32 m) { return fabsf(m) < 0x1p126f; }
template <class T> C_FN T c_soft_sum(c_soft<T> a) { return a.s; }
C_FN f32 c_soft_sum(c_soft<f32> a) { return a.s * c_ex2(-fmaf(a.m, c_log2e(), -c_product_of(a.m, c_log2e()))); }
// Count, mean and squared deviations from it, in one pass (Chan, Golub and LeVeque 1979).
template <class T> struct c_moments { T n, mean, squares; };
template <class T> C_FN c_moments<T> c_lane_xor(c_moments<T> x, int o) { return {c_lane_xor(x.n, o), c_lane_xor(x.mean, o), c_lane_xor(x.squares, o)}; }
struct c_op_moments {
  template <class T> C_METHOD c_moments<T> operator()(c_moments<T> a, c_moments<T> b) const {
    const T n = a.n + b.n, d = b.mean - a.mean, share = n > 0 ? b.n * c_quick_recip(n) : (T)0;
    return {n, a.mean + d * share, a.squares + b.squares + d * d * a.n * share};
  }
};
template <class T, int V> C_FN c_moments<T> c_take(c_moments<T> a, const T (&x)[V]) {
  c_moments<T> b = {(T)V, 0, 0};
#pragma unroll
  for (int j = 0; j < V; ++j) b.mean += x[j];
  b.mean *= (T)(1.0 / V);
#pragma unroll
  for (int j = 0; j < V; ++j) b.squares += (x[j] - b.mean) * (x[j] - b.mean);
  const T n = a.n + V, d = b.mean - a.mean, share = c_quick_recip(n) * V;
  return {n, a.mean + d * share, a.squares + b.squares + d * d * a.n * share};
}
// What blocks of a launch tell each other: a value in a slot of two words that are zero before, once. Four bytes go with their mark in one store.
template <class T> C_FN void c_tell(u64* slot, T x) {
  u64 w = 0;
  memcpy(&w, &x, sizeof x);
  if (sizeof(T) <= 4) { *(volatile u64*)slot = w << 32 | 1; return; }
  ((volatile u64*)slot)[1] = w;
  c_fence();
  *(volatile u64*)slot = 1;
}
template <class T> C_FN T c_told(const u64* slot) {
  u64 w;
  while (!((w = *(const volatile u64*)slot) & 1)) {}
  c_fence();
  w = sizeof(T) <= 4 ? w >> 32 : ((const volatile u64*)slot)[1];
  T x;
  memcpy(&x, &w, sizeof x);
  return x;
}
template <int T, class X, class Op> C_FN X c_reduce_warp(X x, Op op) {
#pragma unroll
  for (int o = T / 2; o > 0; o /= 2) x = op(x, c_lane_xor(x, o));
  return x;
}
template <class X, class Op> C_FN X c_scan_warp(X x, int lane, Op op) {
#pragma unroll
  for (int o = 1; o < 32; o *= 2) {
    const X y = c_lane_up(x, o);
    if (lane >= o) x = op(y, x);
  }
  return x;
}

// ---- Scatter. Elements narrower than 16 bits change with the word around them.
template <class F> C_FN void c_update(u32* p, F f) { u32 old = *p, seen; do { seen = old; old = c_cas(p, seen, f(seen)); } while (old != seen); }
template <class F> C_FN void c_update(u64* p, F f) { u64 old = *p, seen; do { seen = old; old = c_cas(p, seen, f(seen)); } while (old != seen); }
template <class F> C_FN void c_update(u16* p, F f) { u16 old = *p, seen; do { seen = old; old = c_cas(p, seen, f(seen)); } while (old != seen); }
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
C_FN void c_add_run_f32(f32* p, const c_pack<f32, 4>& x) { for (int i = 0; i < 4; ++i) c_atomic_add(p + i, x.e[i]); }
C_FN void c_add_run_bf16(u16* p, const c_pack<u16, 8>& x) { for (int i = 0; i < 8; ++i) c_update(p + i, [&](u16 o) { return c_put_bf16(c_get_bf16(o) + c_get_bf16(x.e[i])); }); }
C_FN void c_add_run_f16(u16* p, const c_pack<u16, 8>& x) { for (int i = 0; i < 8; ++i) c_update(p + i, [&](u16 o) { return c_put_f16(c_get_f16(o) + c_get_f16(x.e[i])); }); }
#endif

// ---- Indices that data decides.
template <class I> C_FN bool c_outside(I index, i64 size) {
  const i64 i = (i64)index;
  return (u64)(i < 0 ? i + size : i) >= (u64)size;
}
template <class I> C_FN i64 c_check(I index, i64 size, i64* status) {
  i64 i = (i64)index;
  if (i < 0) i += size;
  if ((u64)i >= (u64)size) { c_fail(status); return 0; }
  return i;
}
)";
}

}  // namespace coil::codegen
