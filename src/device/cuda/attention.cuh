// Attention in f32 on the matrix units: forward, and the two kernels of its gradient.
#pragma once
#include "reductions.cuh"

#include "../grid/reductions.h"

// @piece attention
// ---- Attention in f32. A block of W warps has 16 rows of one operand for each; the other passes in pieces of 64 rows
// by up to 64 elements, one on its way while another is computed with. Products are the matrix units', each number as
// the sum of two that have their few digits (Ootomo and Yokota 2022): what is left out is 2^-22 of a product. A warp's
// 16 by 8 numbers: a thread has those of rows `lane / 4` and 8 further at columns `lane % 4 * 2` and the next.
struct c_rows {
  const f32* p;
  i64 row, dim, count;
  bool packs;
};  // `packs`: four elements lie side by side, on 16 bytes
C_FN bool c_in_packs(const f32* p, i64 row, i64 dim, bool fours) {
  return fours && dim == 1 && row % 4 == 0 && (u64)p % 16 == 0;
}
C_FN c_rows c_rows_of(const f32* p, i64 row, i64 dim, i64 count, bool fours) {
  return {p, row, dim, count, c_in_packs(p, row, dim, fours)};
}
struct c_results {
  f32* p;
  i64 row, dim;
  bool packs;
};
C_FN c_results c_results_of(f32* p, i64 row, i64 dim, bool fours) {
  return {p, row, dim, c_in_packs(p, row, dim, fours)};
}
// Masks from a corner on: what becomes of a score, and where another corner's begin.
struct c_no_mask {
  C_METHOD f32 of(f32 score, int, int) const { return score; }
  C_METHOD c_no_mask at(i64, i64) const { return {}; }
  C_METHOD c_no_mask after(i64) const { return {}; }
};
template <class E> struct c_mask {
  const E* p;
  i64 row, key;
  static C_METHOD f32 masked(f32 score, f32 added) { return score + added; }
  static C_METHOD f32 masked(f32 score, u8 seen) { return seen ? score : -c_infinity<f32>(); }
  C_METHOD f32 of(f32 score, int r, int k) const { return masked(score, p[r * row + k * key]); }
  C_METHOD c_mask at(i64 r, i64 k) const { return {p + r * row + k * key, row, key}; }
  C_METHOD c_mask after(i64 step) const { return {p + step, row, key}; }
};
// Which of a tile's queries and keys there are, both counted from its corner; with a causal pattern key k is seen by
// query r where k - r is at most `ahead`.
struct c_tile {
  int queries, keys, ahead;
};
template <bool C> C_FN c_tile c_tile_at(i64 query, i64 key, i64 queries, i64 keys) {
  const i64 q = queries - query, k = keys - key, ahead = query - key;
  return {(int)(q < 64 ? q : 64), (int)(k < 64 ? k : 64), C && ahead < 64 ? (int)ahead : 64};
}
template <class M> C_FN f32 c_score(f32 product, f32 scale, const M& mask, c_tile tile, int r, int k) {
  return r < tile.queries && k < tile.keys && k - r <= tile.ahead ? mask.of(product * scale, r, k) : -c_infinity<f32>();
}
// How many keys the N queries from `first` on see.
template <bool C, int N> C_FN i64 c_keys_seen(i64 first, i64 keys) { return C && first + N < keys ? first + N : keys; }
// A query that sees no key has no weights.
C_FN f32 c_weight(f32 score, f32 log) { return log == -c_infinity<f32>() ? 0.0f : c_exp_of_less(score - log); }

// W elements, from `from` on, of N rows from `first` on, by T threads; zeros past the last row, and up to a multiple of
// eight elements.
template <int T, int N, int W, int PITCH> C_FN void c_fetch_rows(f32* to, const c_rows& x, i64 first, int from, int t) {
  constexpr int packs = (W + 7) / 8 * 2;
#pragma unroll 1
  for (int i = t; i < N * packs; i += T) {
    const int r = i / packs, d = i % packs * 4;
    const bool there = first + r < x.count;
    f32* const at = to + r * PITCH + d;
    if (x.packs)
      c_copy_ahead(at, x.p + (there && d < W ? (first + r) * x.row + from + d : 0), there && d < W);
    else
      for (int e = 0; e < 4; ++e) at[e] = there && d + e < W ? x.p[(first + r) * x.row + (from + d + e) * x.dim] : 0.0f;
  }
}
// From row to row as many floats that rows by rows (72), or columns of eight rows (68), meet no bank twice.
template <int D> constexpr int c_pitch_of = ((D + 7) / 8 | 1) * 8;
template <int T, int D, int PITCH> C_FN void c_fetch_piece(f32* to, const c_rows& x, i64 first, int piece, int t) {
  if ((piece + 1) * 64 <= D)
    c_fetch_rows<T, 64, 64, PITCH>(to, x, first, piece * 64, t);
  else
    c_fetch_rows<T, 64, D % 64 ? D % 64 : 64, PITCH>(to, x, first, piece * 64, t);
}
template <int T, int D> C_FN void c_fetch_narrow(f32* to, const c_rows& x, i64 first, int piece, int t) {
  c_fetch_piece<T, D, 72>(to, x, first, piece, t);
}
template <int T, int D> C_FN void c_fetch_wide(f32* to, const c_rows& x, i64 first, int piece, int t) {
  c_fetch_piece<T, D, 68>(to, x, first, piece, t);
}
template <int D> constexpr int c_pieces = (D + 63) / 64;
template <int D> constexpr int c_eights_of_rest = (D % 64 + 7) / 8;
C_FN int c_row_of(int t) { return t / 32 * 16 + t % 32 / 4; }

// A number's first 11 digits, and the rest.
C_FN void c_split(f32 x, f32& big, f32& rest) {
  big = c_f32_of((c_bits_of(x) + 0x1000u) & 0xffffe000u);
  rest = x - big;
}
struct c_left {
  f32 big[4], rest[4];
};
C_FN c_left c_left_of(f32 a, f32 b, f32 c, f32 d) {
  c_left x;
  c_split(a, x.big[0], x.rest[0]), c_split(b, x.big[1], x.rest[1]), c_split(c, x.big[2], x.rest[2]),
      c_split(d, x.big[3], x.rest[3]);
  return x;
}
// acc += a times b over G times eight. The unit cuts the digits that a sum has too many of, so that few are added up in
// it, the small ones first.
template <int G> C_FN void c_multiply(f32 (&acc)[4], const c_left (&a)[G], const f32 (&b)[G][2]) {
  f32 big[G][2], rest[G][2], sum[4] = {};
#pragma unroll
  for (int g = 0; g < G; ++g) c_split(b[g][0], big[g][0], rest[g][0]), c_split(b[g][1], big[g][1], rest[g][1]);
#pragma unroll
  for (int g = 0; g < G; ++g) c_matrix_add(sum, a[g].rest, big[g]), c_matrix_add(sum, a[g].big, rest[g]);
#pragma unroll
  for (int g = 0; g < G; ++g) c_matrix_add(sum, a[g].big, big[g]);
#pragma unroll
  for (int e = 0; e < 4; ++e) acc[e] += sum[e];
}
// acc[n] += 16 rows of a by eight rows of the piece, over its elements. Of eight elements the matrix unit takes pairs
// of neighbours for its k and k + 4.
template <int G, int PITCH> C_FN void c_some_by_rows(f32 (&acc)[8][4], const f32* a, const f32* b) {
  c_left left[G];
#pragma unroll
  for (int g = 0; g < G; ++g) {
    const c_pack<f32, 2> x = c_read<2>(a + 8 * g), y = c_read<2>(a + 8 * PITCH + 8 * g);
    left[g] = c_left_of(x.e[0], y.e[0], x.e[1], y.e[1]);
  }
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    f32 right[G][2];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const c_pack<f32, 2> z = c_read<2>(b + 8 * n * 72 + 8 * g);
      right[g][0] = z.e[0], right[g][1] = z.e[1];
    }
    c_multiply(acc[n], left, right);
  }
}
template <int STEPS, int PITCH> C_FN void c_rows_by_rows(f32 (&acc)[8][4], const f32* a, const f32* b) {
#pragma unroll 1
  for (int k = 0; k + 2 <= STEPS; k += 2) c_some_by_rows<2, PITCH>(acc, a + 8 * k, b + 8 * k);
  if (STEPS % 2) c_some_by_rows<1, PITCH>(acc, a + 8 * (STEPS - 1), b + 8 * (STEPS - 1));
}
template <int D> C_FN void c_piece_by_rows(f32 (&acc)[8][4], const f32* a, const f32* b, int piece, int t) {
  const int lane = t % 32;
  a += c_row_of(t) * c_pitch_of<D> + piece * 64 + lane % 4 * 2, b += lane / 4 * 72 + lane % 4 * 2;
  if ((piece + 1) * 64 <= D)
    c_rows_by_rows<8, c_pitch_of<D>>(acc, a, b);
  else
    c_rows_by_rows<c_eights_of_rest<D>, c_pitch_of<D>>(acc, a, b);
}
// acc[n] += scores of 64 rows by eight columns of the piece.
template <int N> C_FN void c_scores_by_columns(f32 (&acc)[8][4], const f32 (&scores)[8][4], const f32* b) {
#pragma unroll
  for (int k = 0; k < 8; k += 2) {
    c_left left[2];
#pragma unroll
    for (int g = 0; g < 2; ++g)
      left[g] = c_left_of(scores[k + g][0], scores[k + g][2], scores[k + g][1], scores[k + g][3]);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const f32* const at = b + 8 * k * 68 + 8 * n;
      const f32 right[2][2] = {{at[0], at[68]}, {at[8 * 68], at[9 * 68]}};
      c_multiply(acc[n], left, right);
    }
    c_sync_warp();
  }
}
template <int D>
C_FN void c_piece_by_columns(f32 (&acc)[8][4], const f32 (&scores)[8][4], const f32* b, int piece, int t) {
  b += t % 4 * 2 * 68 + t % 32 / 4;
  if ((piece + 1) * 64 <= D)
    c_scores_by_columns<8>(acc, scores, b);
  else
    c_scores_by_columns<c_eights_of_rest<D>>(acc, scores, b);
}
template <int D>
C_FN void c_store_rows(const c_results& out, const f32 (&acc)[c_pieces<D>][8][4], i64 first, i64 count, int t) {
#pragma unroll
  for (int p = 0; p < c_pieces<D>; ++p)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 row = first + c_row_of(t) + 8 * h;
        const int from = p * 64 + n * 8 + t % 4 * 2;
        if (row >= count || from >= D) continue;
        const c_pack<f32, 2> x = {acc[p][n][2 * h], acc[p][n][2 * h + 1]};
        if (out.packs)
          c_write<2>(out.p + row * out.row + from, x);
        else
#pragma unroll
          for (int e = 0; e < 2; ++e)
            if (from + e < D) out.p[row * out.row + (from + e) * out.dim] = x.e[e];
      }
}
// Piece after piece goes to the two halves of a ring.
struct c_ring {
  f32* pieces;
  int at;
  C_METHOD f32* next() const { return pieces + (at ^ 1) * (64 * 72); }
  // What was asked for last is there for all threads, and they have done with what was there before.
  C_METHOD const f32* arrive() {
    c_copies_arrive();
    c_sync();
    at ^= 1;
    return pieces + at * (64 * 72);
  }
};

// acc += the block's rows times 64 of x, or scores times those; `next` asks for what comes after them.
template <int T, int D, class Next>
C_FN void c_scores_of(f32 (&acc)[8][4], c_ring& ring, const f32* rows, const c_rows& x, i64 from, int t, Next next) {
#pragma unroll
  for (int p = 0; p < c_pieces<D>; ++p) {
    const f32* const piece = ring.arrive();
    if (p + 1 < c_pieces<D>)
      c_fetch_narrow<T, D>(ring.next(), x, from, p + 1, t);
    else
      next();
    c_piece_by_rows<D>(acc, rows, piece, p, t);
  }
}
template <int T, int D, class Next> C_FN void c_sums_of(f32 (&acc)[c_pieces<D>][8][4], c_ring& ring,
                                                        const f32 (&scores)[8][4], const c_rows& x, i64 from, int t,
                                                        Next next) {
#pragma unroll
  for (int p = 0; p < c_pieces<D>; ++p) {
    const f32* const piece = ring.arrive();
    if (p + 1 < c_pieces<D>)
      c_fetch_wide<T, D>(ring.next(), x, from, p + 1, t);
    else
      next();
    c_piece_by_columns<D>(acc[p], scores, piece, p, t);
  }
}

template <int D, int V, int W, bool C, bool L, class M> C_FN void c_attention(f32* shared, c_rows q, c_rows k, c_rows v,
                                                                              M mask, c_results out, c_results logs,
                                                                              i64 first, f32 scale, int t) {
  constexpr int T = 32 * W;
  c_ring ring = {shared + 16 * W * c_pitch_of<D>, 1};
  const int row = c_row_of(t), column = t % 4 * 2;
  const i64 end = c_keys_seen<C, 16 * W>(first, k.count);
  c_fetch_rows<T, 16 * W, D, c_pitch_of<D>>(shared, q, first, 0, t);
  if (end > 0) c_fetch_narrow<T, D>(ring.next(), k, 0, 0, t);
  f32 top[2] = {-c_infinity<f32>(), -c_infinity<f32>()}, sum[2] = {}, acc[c_pieces<V>][8][4] = {};
  for (i64 from = 0; from < end; from += 64) {
    f32 s[8][4] = {};
    c_scores_of<T, D>(s, ring, shared, k, from, t, [&] { c_fetch_wide<T, V>(ring.next(), v, from, 0, t); });
    const c_tile there = c_tile_at<C>(first, from, q.count, k.count);
    const M here = mask.at(first, from);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      f32 most = top[h];
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          f32& x = s[n][2 * h + e];
          x = c_score(x, scale, here, there, row + 8 * h, column + 8 * n + e);
          most = c_max(most, x);
        }
      most = c_reduce_warp<4>(most, c_op_max());
      const f32 base = most > -c_infinity<f32>() ? most : 0.0f, before = c_exp_of_less(top[h] - base);
      top[h] = most;
      sum[h] *= before;
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          f32& x = s[n][2 * h + e];
          x = c_exp_of_less(x - base);
          sum[h] += x;
        }
#pragma unroll
      for (int p = 0; p < c_pieces<V>; ++p)
#pragma unroll
        for (int n = 0; n < 8; ++n) acc[p][n][2 * h] *= before, acc[p][n][2 * h + 1] *= before;
    }
    c_sums_of<T, V>(acc, ring, s, v, from, t, [&] {
      if (from + 64 < end) c_fetch_narrow<T, D>(ring.next(), k, from + 64, 0, t);
    });
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] = c_reduce_warp<4>(sum[h], c_op_add());
    const f32 share = sum[h] == 0 ? 0.0f : 1 / sum[h];  // a query that sees no key gives 0
#pragma unroll
    for (int p = 0; p < c_pieces<V>; ++p)
#pragma unroll
      for (int n = 0; n < 8; ++n) acc[p][n][2 * h] *= share, acc[p][n][2 * h + 1] *= share;
    const i64 at = first + row + 8 * h;
    if (L && t % 4 == 0 && at < q.count) logs.p[at * logs.row] = top[h] + logf(sum[h]);
  }
  c_store_rows<V>(out, acc, first, q.count, t);
}

// With P = exp(S - logarithms) and dP = dy v', dS = P * (dP - sum(dy * y)) * scale. dq = dS k.
template <int D, int V, int W, bool C, class M>
C_FN void c_attention_queries(f32* shared, c_rows dy, c_rows q, c_rows k, c_rows v, c_rows y, c_rows logs, M mask,
                              c_results dq, c_results sums, i64 first, f32 scale, int t) {
  constexpr int T = 32 * W;
  f32* const slopes = shared + 16 * W * c_pitch_of<D>;
  c_ring ring = {slopes + 16 * W * c_pitch_of<V>, 1};
  const int row = c_row_of(t), column = t % 4 * 2;
  const i64 end = c_keys_seen<C, 16 * W>(first, k.count);
  c_fetch_rows<T, 16 * W, D, c_pitch_of<D>>(shared, q, first, 0, t);
  c_fetch_rows<T, 16 * W, V, c_pitch_of<V>>(slopes, dy, first, 0, t);
  if (end > 0) c_fetch_narrow<T, D>(ring.next(), k, 0, 0, t);
  f32 log[2], along[2], acc[c_pieces<D>][8][4] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const i64 at = first + row + 8 * h;
    log[h] = at < q.count ? logs.p[at * logs.row] : 0.0f;
    along[h] = 0;
    if (at < q.count)
      for (int d = t % 4; d < V; d += 4)
        along[h] = fmaf(dy.p[at * dy.row + d * dy.dim], y.p[at * y.row + d * y.dim], along[h]);
    along[h] = c_reduce_warp<4>(along[h], c_op_add());
    if (t % 4 == 0 && at < q.count) sums.p[at * sums.row] = along[h];
  }
  for (i64 from = 0; from < end; from += 64) {
    f32 s[8][4] = {}, d[8][4] = {};
    c_scores_of<T, D>(s, ring, shared, k, from, t, [&] { c_fetch_narrow<T, V>(ring.next(), v, from, 0, t); });
    c_scores_of<T, V>(d, ring, slopes, v, from, t, [&] { c_fetch_wide<T, D>(ring.next(), k, from, 0, t); });
    const c_tile there = c_tile_at<C>(first, from, q.count, k.count);
    const M here = mask.at(first, from);
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        s[n][e] = c_weight(c_score(s[n][e], scale, here, there, row + e / 2 * 8, column + 8 * n + e % 2), log[e / 2]) *
                  (d[n][e] - along[e / 2]) * scale;
    c_sums_of<T, D>(acc, ring, s, k, from, t, [&] {
      if (from + 64 < end) c_fetch_narrow<T, D>(ring.next(), k, from + 64, 0, t);
    });
  }
  c_store_rows<D>(dq, acc, first, q.count, t);
}

// dk = dS' q and dv = P' dy, over all heads of q that share the keys: `heads` of them, how far apart in each operand
// `steps` tells. Scores have a row for a key here.
struct c_head_steps {
  i64 dy, q, logs, sums, mask;
};
template <int D, int V, int W, bool C, class M>
C_FN void c_attention_keys(f32* shared, c_rows dy, c_rows q, c_rows k, c_rows v, c_rows logs, c_rows sums, M mask,
                           c_head_steps steps, int heads, c_results dk, c_results dv, i64 first, f32 scale, int t) {
  constexpr int T = 32 * W;
  f32 *const values = shared + 16 * W * c_pitch_of<D>, *const numbers = values + 16 * W * c_pitch_of<V>;
  c_ring ring = {numbers + 128, 1};
  const int row = c_row_of(t), column = t % 4 * 2;
  c_fetch_rows<T, 16 * W, D, c_pitch_of<D>>(shared, k, first, 0, t);
  c_fetch_rows<T, 16 * W, V, c_pitch_of<V>>(values, v, first, 0, t);
  const i64 begin = C ? first / 64 * 64 : 0;
  f32 of_k[c_pieces<D>][8][4] = {}, of_v[c_pieces<V>][8][4] = {};
  for (int h = 0; h < heads; ++h) {
    c_sync();  // the ring's next half may still be read
    if (begin < q.count) c_fetch_narrow<T, D>(ring.next(), q, begin, 0, t);
    for (i64 from = begin; from < q.count; from += 64) {
      f32 s[8][4] = {}, d[8][4] = {};
      for (int i = t; i < 128; i += T) {
        const c_rows& x = i < 64 ? logs : sums;
        numbers[i] = from + i % 64 < q.count ? x.p[(from + i % 64) * x.row] : 0.0f;
      }
      c_scores_of<T, D>(s, ring, shared, q, from, t, [&] { c_fetch_wide<T, V>(ring.next(), dy, from, 0, t); });
      const c_tile there = c_tile_at<C>(from, first, q.count, k.count);
      const M here = mask.at(from, first);
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int query = column + 8 * n + e % 2;
          s[n][e] = c_weight(c_score(s[n][e], scale, here, there, query, row + e / 2 * 8), numbers[query]);
        }
      c_sums_of<T, V>(of_v, ring, s, dy, from, t, [&] { c_fetch_narrow<T, V>(ring.next(), dy, from, 0, t); });
      c_scores_of<T, V>(d, ring, values, dy, from, t, [&] { c_fetch_wide<T, D>(ring.next(), q, from, 0, t); });
#pragma unroll
      for (int n = 0; n < 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] *= (d[n][e] - numbers[64 + column + 8 * n + e % 2]) * scale;
      c_sums_of<T, D>(of_k, ring, s, q, from, t, [&] {
        if (from + 64 < q.count) c_fetch_narrow<T, D>(ring.next(), q, from + 64, 0, t);
      });
    }
    dy.p += steps.dy, q.p += steps.q, logs.p += steps.logs, sums.p += steps.sums, mask = mask.after(steps.mask);
  }
  c_store_rows<D>(dk, of_k, first, k.count, t);
  c_store_rows<V>(dv, of_v, first, k.count, t);
}
