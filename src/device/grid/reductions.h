// Reductions and scans across threads: of numbers, of extremes with their places, of softmax, of moments. A language
// brings how lanes exchange numbers (`c_lane_xor`, `c_lane_up`, `c_lane_from`) and its infinities. `C_LOCAL` is what a
// reference to a thread's own memory says in a language with address spaces.
#pragma once

// @piece reductions
#ifndef C_LOCAL
#define C_LOCAL
#endif
struct c_op_add {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_add(a, b); }
};
struct c_op_mul {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_mul(a, b); }
};
struct c_op_max {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_max(a, b); }
};
struct c_op_min {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_min(a, b); }
};
struct c_op_or {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_or(a, b); }
};
struct c_op_and {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_and(a, b); }
};
struct c_op_xor {
  template <class T> C_METHOD T operator()(T a, T b) const { return c_xor(a, b); }
};
C_FN f32 c_quick_recip(f32 x) { return c_rcp_fast(x); }
// The logarithm of a sum of exponentials: the greatest exponent, and the sum of all others' exponentials under it, so
// that only what is stored takes a logarithm.
template <class T> struct c_lse {
  T m, rest;
};
C_FN f32 c_exp_of_less(f32 d) { return c_ex2(c_product_of(d, 0x1.715476p+0f)); }
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
template <class T> C_FN c_lse<T> c_lane_from(c_lse<T> x, int o) {
  return {c_lane_from(x.m, o), c_lane_from(x.rest, o)};
}
// An extreme with its place: the first of equals wins, NaN counts as extreme.
template <class T, class P> struct c_arg {
  T x;
  P p;
};
template <class T, class P> C_FN bool c_beats(T x, P p, T y, P q, bool high) {
  if (x != x || y != y) return x != x && (y == y || p < q);
  return (high ? x > y : x < y) || (x == y && p < q);
}
template <class T, class P> C_FN c_arg<T, P> c_lane_xor(c_arg<T, P> x, int o) {
  return {c_lane_xor(x.x, o), c_lane_xor(x.p, o)};
}
struct c_op_argmax {
  template <class T, class P> C_METHOD c_arg<T, P> operator()(c_arg<T, P> a, c_arg<T, P> b) const {
    return c_beats(b.x, b.p, a.x, a.p, true) ? b : a;
  }
};
struct c_op_argmin {
  template <class T, class P> C_METHOD c_arg<T, P> operator()(c_arg<T, P> a, c_arg<T, P> b) const {
    return c_beats(b.x, b.p, a.x, a.p, false) ? b : a;
  }
};
// A maximum, and the sum of exponentials under it, in one pass: what was summed under a lower maximum is scaled down.
template <class T> struct c_soft {
  T m, s;
};
template <class T> C_FN c_soft<T> c_lane_xor(c_soft<T> x, int o) { return {c_lane_xor(x.m, o), c_lane_xor(x.s, o)}; }
template <class T, int V> C_FN c_soft<T> c_take(c_soft<T> a, C_LOCAL const T (&x)[V]) {
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
// f32 counts in powers of two: the sum of 2^(x log2 e - r), where r is m log2 e as rounded; c_soft_sum makes up for
// that rounding. Maxima beyond 2^126 are not its (c_soft_fits), but a part of a row may have none above -2^126, the
// least number as a mask or -inf: it adds nothing.
C_FN f32 c_log2e() { return 0x1.715476p+0f; }
C_FN f32 c_soft_shift(f32 m) { return c_product_of(c_max_number(m, -0x1p126f), c_log2e()); }
template <int V> C_FN c_soft<f32> c_take(c_soft<f32> a, C_LOCAL const f32 (&x)[V]) {
  f32 m = a.m;
#pragma unroll
  for (int j = 0; j < V; ++j) m = c_max(m, x[j]);
  const f32 shift = c_soft_shift(m);
  f32 s = a.s * c_ex2(c_product_of(a.m, c_log2e()) - shift), e[V];
#pragma unroll
  for (int j = 0; j < V; ++j) e[j] = c_ex2(c_fma(x[j], c_log2e(), -shift));
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
C_FN bool c_soft_fits(f32 m) { return c_abs(m) < 0x1p126f; }
template <class T> C_FN T c_soft_sum(c_soft<T> a) { return a.s; }
C_FN f32 c_soft_sum(c_soft<f32> a) { return a.s * c_ex2(-c_fma(a.m, c_log2e(), -c_product_of(a.m, c_log2e()))); }
// Count, mean and squared deviations from it, in one pass (Chan, Golub and LeVeque 1979).
template <class T> struct c_moments {
  T n, mean, squares;
};
template <class T> C_FN c_moments<T> c_lane_xor(c_moments<T> x, int o) {
  return {c_lane_xor(x.n, o), c_lane_xor(x.mean, o), c_lane_xor(x.squares, o)};
}
struct c_op_moments {
  template <class T> C_METHOD c_moments<T> operator()(c_moments<T> a, c_moments<T> b) const {
    const T n = a.n + b.n, d = b.mean - a.mean, share = n > 0 ? b.n * c_quick_recip(n) : (T)0;
    return {n, a.mean + d * share, a.squares + b.squares + d * d * a.n * share};
  }
};
template <class T, int V> C_FN c_moments<T> c_take(c_moments<T> a, C_LOCAL const T (&x)[V]) {
  c_moments<T> b = {(T)V, 0, 0};
#pragma unroll
  for (int j = 0; j < V; ++j) b.mean += x[j];
  b.mean *= (T)1 / V;
#pragma unroll
  for (int j = 0; j < V; ++j) b.squares += (x[j] - b.mean) * (x[j] - b.mean);
  const T n = a.n + V, d = b.mean - a.mean, share = c_quick_recip(n) * V;
  return {n, a.mean + d * share, a.squares + b.squares + d * d * a.n * share};
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
