// Sorting and selecting by digits (codegen/cuda/radix.cpp says how).
#pragma once
#include "scatter.cuh"

#include "../grid/sort.h"

// @piece radix
// ---- Sorting by digits.
C_FN u64 c_key_f64(f64 e) { return c_key_of_float<u64>(c_bits_of(e), (u64)1 << 63, (u64)0x7ff << 52); }
template <class Get, bool D, class E> C_FN u32 c_digit(E e, int shift) {
  const u32 d = (u32)(Get::key(e) >> shift) & 255u;
  return D ? d ^ 255u : d;
}
C_FN void c_add_count(u32* p, u32 x) { c_atomic_add((i32*)p, (i32)x); }
C_FN void c_add_count(u64* p, u64 x) { c_atomic_add((i64*)p, (i64)x); }
// A warp's elements lie side by side, 32 of them a turn. The rank of each among the warp's elements of its digit; how
// many of each digit there are in the warp's 256 counts.
template <int N> C_FN void c_digit_ranks(const u32 (&digit)[N], u32 (&rank)[N], u32* counts, int t) {
  const int lane = t % 32;
  u32* const mine = counts + t / 32 * 256;
  for (int i = lane; i < 256; i += 32) mine[i] = 0;
  c_sync_warp();
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const u32 alike = c_match(digit[k]), before = c_popc(alike & ((1u << lane) - 1)), held = mine[digit[k]];
    c_sync_warp();
    if (before == 0) mine[digit[k]] = held + c_popc(alike);
    c_sync_warp();
    rank[k] = held + before;
  }
}
// The warps' counts become where each warp's elements of a digit begin, before those of lower digits are counted:
// returns how many of the block's elements have the digit t.
C_FN u32 c_digit_total(u32* counts, int t) {
  c_sync();
  u32 sum = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    const u32 count = counts[w * 256 + t];
    counts[w * 256 + t] = sum;
    sum += count;
  }
  return sum;
}
C_FN void c_digit_begin(u32* counts, u32 begin, int t) {
#pragma unroll
  for (int w = 0; w < 8; ++w) counts[w * 256 + t] += begin;
  c_sync();
}
// A row of up to 256 N elements, the first k of which are wanted. `keys` and `places` hold all of it.
template <int N, class Get, bool D, class E>
static __device__ void c_digit_sort(const E* x, i64 x_step, E* values, i64 v_step, i64* indices, i64 i_step, i32 n,
                                    i32 k, i64 base, E* keys, i32* places, u32* counts, u64* sums, int t) {
  typedef decltype(Get::key(*x)) K;
  const int first = t / 32 * 32 * N + t % 32;
  E e[N];
  i32 p[N];
  K differ = 0;
  const K other = n > 0 ? Get::key(x[0]) : 0;
#pragma unroll
  for (int m = 0; m < N; ++m) {
    const i32 i = first + 32 * m;
    e[m] = i < n ? x[i * x_step] : E();
    p[m] = i;
    if (i < n) differ |= Get::key(e[m]) ^ other;
  }
  differ = c_reduce_warp<32>(differ, c_op_or());
  if (t % 32 == 0) sums[8 + t / 32] = differ;
  c_sync();
  for (int w = 0; w < 8; ++w) differ |= (K)sums[8 + w];
  for (int shift = 0; shift < 8 * (int)sizeof(E); shift += 8) {
    if (!(differ >> shift & 255)) continue;  // all alike
    u32 digit[N], rank[N];
#pragma unroll
    for (int m = 0; m < N; ++m)
      digit[m] = first + 32 * m < n ? c_digit<Get, D>(e[m], shift) : 255u;  // what is not there stays last
    c_digit_ranks(digit, rank, counts, t);
    const u32 total = c_digit_total(counts, t);
    c_digit_begin(counts, c_before_thread(total, (u32*)sums, t), t);
#pragma unroll
    for (int m = 0; m < N; ++m) {
      const u32 at = rank[m] + counts[t / 32 * 256 + digit[m]];
      keys[at] = e[m];
      places[at] = p[m];
    }
    c_sync();
#pragma unroll
    for (int m = 0; m < N; ++m) {
      e[m] = keys[first + 32 * m];
      p[m] = places[first + 32 * m];
    }
  }
#pragma unroll
  for (int m = 0; m < N; ++m) {
    const i32 i = first + 32 * m;
    if (i < k) {
      values[i * v_step] = e[m];
      indices[i * i_step] = base + p[m];
    }
  }
}
// Adds to a row's counts, of all digits, what its elements [from, from + 8192) have.
template <int DIGITS, class Get, bool D, class W, class E>
static __device__ void c_radix_count(const E* x, i64 step, i64 n, i64 from, W* words, i64 digit_words, u32* counts,
                                     int t) {
  for (int i = t; i < 256 * DIGITS; i += 256) counts[i] = 0;
  c_sync();
  const i64 end = n - from < 8192 ? n : from + 8192;
  for (i64 i = from + t; i < end; i += 8 * 256) {
    E e[8];
#pragma unroll
    for (int m = 0; m < 8; ++m) e[m] = i + 256 * m < end ? x[(i + 256 * m) * step] : E();
#pragma unroll
    for (int m = 0; m < 8; ++m)
      if (i + 256 * m < end)
#pragma unroll
        for (int d = 0; d < DIGITS; ++d) c_count((i32*)counts + 256 * d + c_digit<Get, D>(e[m], 8 * d));
  }
  c_sync();
  for (int d = 0; d < DIGITS; ++d)
    if (const u32 count = counts[256 * d + t]) c_add_count(words + d * digit_words + t, (W)count);
}
// A tile tells how many elements of a digit it has (1), or it and all before it (2): a mark in the two highest bits,
// the count in the others, in one store. What the tiles before this one have.
template <class W> C_FN W c_before_tile(const volatile W* told, i64 tile) {
  const int mark = 8 * (int)sizeof(W) - 2;
  W sum = 0;
  for (i64 last = tile - 1; last >= 0;) {
    // Several are asked at once; the first that has not told yet is asked again.
    W seen[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) seen[k] = last - k >= 0 ? told[(last - k) * 256] : (W)0;
    const i64 newest = last;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (last != newest - k || !(seen[k] >> mark)) continue;
      sum += seen[k] & (((W)1 << mark) - 1);
      if (seen[k] >> mark == 2) return sum;
      --last;
    }
  }
  return sum;
}
// A row's tile of 256 N elements goes where the row in order of the digit at `shift` has them, equal ones in the order
// they are in. `words`: the digit's counts of the whole row, and behind them what the tiles tell.
template <int N, class Get, bool D, bool FIRST, class W, class E, class P, class To>
static __device__ void c_radix_pass(const E* x, i64 x_step, const P* p, i64 p_step, E* values, i64 v_step, To* indices,
                                    i64 i_step, i64 n, i64 tile, int shift, W* words, u64* memory, u32* counts,
                                    W* starts, W* sums, i32* alone, int t) {
  const i64 from = tile * (256 * N);
  const i32 here = (i32)(n - from < 256 * N ? n - from : 256 * N);
  const int first = t / 32 * 32 * N + t % 32;
  const W whole = words[t];
  E e[N];
  P place[N];
#pragma unroll
  for (int m = 0; m < N; ++m) {
    const i32 i = first + 32 * m;
    e[m] = i < here ? x[(from + i) * x_step] : E();
    place[m] = FIRST || i >= here ? (P)(from + i) : p[(from + i) * p_step];
  }
  if (t == 0) *alone = 0;
  c_sync();
  if ((i64)whole == n) *alone = 1;
  const W lower = c_before_thread(whole, sums, t);
  if (*alone) {
    // All of the row has this digit, which all of its blocks see: nothing moves.
#pragma unroll
    for (int m = 0; m < N; ++m) {
      const i32 i = first + 32 * m;
      if (i < here) {
        values[(from + i) * v_step] = e[m];
        indices[(from + i) * i_step] = place[m];
      }
    }
    return;
  }
  u32 digit[N], rank[N];
#pragma unroll
  for (int m = 0; m < N; ++m) digit[m] = first + 32 * m < here ? c_digit<Get, D>(e[m], shift) : 255u;
  c_digit_ranks(digit, rank, counts, t);
  const u32 total = c_digit_total(counts, t);
  volatile W* const told = words + 256 + t;
  const int mark = 8 * (int)sizeof(W) - 2;
  const W count = total - (t == 255 ? (u32)(256 * N - here) : 0u);
  told[tile * 256] = (W)(tile == 0 ? 2 : 1) << mark | count;
  const u32 begin = c_before_thread(total, (u32*)(sums + 8), t);
  const W before = c_before_tile((const volatile W*)told, tile);
  if (tile > 0) told[tile * 256] = (W)2 << mark | (before + count);
  starts[t] = lower + before - begin;
  c_digit_begin(counts, begin, t);
  E* const keys = (E*)memory;
#pragma unroll
  for (int m = 0; m < N; ++m) {
    rank[m] += counts[t / 32 * 256 + digit[m]];
    keys[rank[m]] = e[m];
  }
  c_sync();
  W to[N];
#pragma unroll
  for (int m = 0; m < N; ++m) {
    const i32 i = t + 256 * m;
    if (i >= here) continue;
    const E k = keys[i];
    to[m] = starts[c_digit<Get, D>(k, shift)] + i;
    values[(i64)to[m] * v_step] = k;
  }
  c_sync();
  P* const places = (P*)memory;
#pragma unroll
  for (int m = 0; m < N; ++m) places[rank[m]] = place[m];
  c_sync();
#pragma unroll
  for (int m = 0; m < N; ++m) {
    const i32 i = t + 256 * m;
    if (i < here) indices[(i64)to[m] * i_step] = places[i];
  }
}
