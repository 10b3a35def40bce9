// Sorting by comparison: rows within a block, and runs that are put together; one rank of a row. Pointers are of
// whatever type the caller has, so that a language's address spaces are part of it; `Get` says of elements their type,
// their value and their order as unsigned numbers. A language brings counters that the threads of a block share
// (`c_counter`, `c_counted`, `c_count_from`, `c_count`).
#pragma once

#include "reductions.h"

// @piece sort
// ---- Sorting. Whether a stands before b: by value, equals by place.
template <class T> C_FN bool c_stands_before(T a, i64 i, T b, i64 j, bool descending) {
  const bool greater = a != a ? b == b : b == b && a > b, less = b != b ? a == a : a == a && a < b;
  return descending ? greater || (!less && i < j) : less || (!greater && i < j);
}
// A network of comparators that all put the earlier element first, so that a length that is no power of two needs no
// padding.
template <class I, class Row> C_LARGE_FN void c_sort_row(Row row, I n, int t, int threads) {
  for (I k = 2; k < 2 * n; k *= 2)
    for (I j = k / 2; j > 0; j /= 2) {
      const bool flip = j == k / 2;
      for (I i = t; i < n; i += threads) {
        const I other = flip ? (i ^ (k - 1)) : (i ^ j);
        if (other > i && other < n) row.order(i, other);
      }
      c_sync();
    }
}
template <class Get, bool D, class Keys, class Places> struct c_shared_row {
  Keys keys;
  Places places;
  C_METHOD void order(i32 i, i32 j) const {
    const typename Get::element a = keys[i], b = keys[j];
    const i32 p = places[i], q = places[j];
    if (!c_stands_before(Get::get(b), q, Get::get(a), p, D)) return;
    keys[i] = b;
    keys[j] = a;
    places[i] = q;
    places[j] = p;
  }
};
template <class Get, bool D, class Keys, class Places> struct c_strided_row {
  Keys keys;
  Places places;
  i64 key_step, place_step;
  C_METHOD void order(i64 i, i64 j) const {
    const typename Get::element a = keys[i * key_step], b = keys[j * key_step];
    const i64 p = places[i * place_step], q = places[j * place_step];
    if (!c_stands_before(Get::get(b), q, Get::get(a), p, D)) return;
    keys[i * key_step] = b;
    keys[j * key_step] = a;
    places[i * place_step] = q;
    places[j * place_step] = p;
  }
};
// The first k of n in order, places counted from `base`. `keys` and `places` hold C elements, at least twice k where n
// is more.
template <int C, class Get, bool D, class X, class Values, class Indices, class Keys, class Places, class Counter>
C_LARGE_FN void c_sort(X x, i64 x_step, Values values, i64 v_step, Indices indices, i64 i_step, i64 n, i64 k, i64 base,
                       Keys keys, Places places, Counter count, int t, int threads) {
  typedef typename Get::element E;
  const c_shared_row<Get, D, Keys, Places> row = {keys, places};
  if (n <= C) {
    for (i32 i = t; i < (i32)n; i += threads) {
      keys[i] = x[i * x_step];
      places[i] = i;
    }
    c_sync();
    c_sort_row(row, (i32)n, t, threads);
  } else if (k == n) {
    for (i64 i = t; i < n; i += threads) {
      values[i * v_step] = x[i * x_step];
      indices[i * i_step] = base + i;
    }
    c_sync();
    return c_sort_row(c_strided_row<Get, D, Values, Indices>{values, indices, v_step, i_step}, n, t, threads);
  } else if (k > 0) {
    // The best k so far stand in front; of what follows, only what stands before the last of them is taken in behind
    // them.
    bool full = false;
    if (t == 0) c_count_from(count, 0);
    c_sync();
    for (i64 from = 0; from < n; from += C / 2) {
      const i64 end = n - from < C / 2 ? n : from + C / 2;
      for (i64 i = from + t; i < end; i += threads) {
        const E e = x[i * x_step];
        if (full && !c_stands_before(Get::get(e), i, Get::get(keys[k - 1]), (i64)places[k - 1], D)) continue;
        const i32 at = c_count(count);
        keys[at] = e;
        places[at] = (i32)i;
      }
      c_sync();
      const i32 held = c_counted(count);
      c_sync();
      if (held <= C / 2 && end < n) continue;
      c_sort_row(row, held, t, threads);
      full = held >= k;
      if (t == 0) c_count_from(count, full ? (i32)k : held);
      c_sync();
    }
  }
  for (i64 i = t; i < k; i += threads) {
    values[i * v_step] = keys[i];
    indices[i * i_step] = base + places[i];
  }
}
// How many of the first `taken` elements of two ordered lists put together are the first list's, which stands before
// the second among equals.
template <class Get, bool D, class X> C_FN i64 c_merge_split(X a, i64 in_a, X b, i64 in_b, i64 step, i64 taken) {
  i64 low = taken > in_b ? taken - in_b : 0, high = taken < in_a ? taken : in_a;
  while (low < high) {
    const i64 middle = (low + high) / 2;
    if (c_stands_before(Get::get(a[middle * step]), 0, Get::get(b[(taken - 1 - middle) * step]), 1, D))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}
// One block's T elements of a row in which ordered runs of `width` elements are put together two by two. T divides the
// width.
template <int T, class Get, bool D, class X, class P, class Values, class Indices, class Keys, class Places, class Cuts>
C_LARGE_FN void c_merge(X x, i64 x_step, P p, i64 p_step, Values values, i64 v_step, Indices indices, i64 i_step, i64 n,
                        i64 width, i64 from, Keys keys, Places places, Cuts cuts, int t, int threads) {
  const i64 base = from / (2 * width) * (2 * width), left = n - base;
  const i64 in_a = left < width ? left : width, in_b = left - in_a < width ? left - in_a : width,
            end = n - from < T ? n : from + T;
  if (t < 2)
    cuts[t] = c_merge_split<Get, D>(x + base * x_step, in_a, x + (base + in_a) * x_step, in_b, x_step,
                                    (t == 0 ? from : end) - base);
  c_sync();
  const i64 a0 = cuts[0], b0 = from - base - a0;
  const i32 count = (i32)(end - from), of_a = (i32)(cuts[1] - a0), of_b = count - of_a;
  for (i32 i = t; i < count; i += threads) {
    const i64 at = base + (i < of_a ? a0 + i : in_a + b0 + (i - of_a));
    keys[i] = x[at * x_step];
    places[i] = (i32)p[at * p_step];
  }
  c_sync();
  const i32 each = T / threads, first = t * each, stop = first + each < count ? first + each : count;
  if (first >= count) return;
  i32 a = (i32)c_merge_split<Get, D>(keys, of_a, keys + of_a, of_b, 1, first), b = first - a;
  for (i32 i = first; i < stop; ++i) {
    const bool takes_a =
        b >= of_b || (a < of_a && c_stands_before(Get::get(keys[a]), 0, Get::get(keys[of_a + b]), 1, D));
    const i32 at = takes_a ? a++ : of_a + b++;
    values[(from + i) * v_step] = keys[at];
    indices[(from + i) * i_step] = places[at];
  }
}
// Elements as unsigned numbers of the same order: NaN last, both zeros equal.
template <class U> C_FN U c_key_of_float(U bits, U sign, U infinity) {
  const U all = sign | (sign - 1), size = bits & (sign - 1);
  return size > infinity ? all : size == 0 ? sign : bits & sign ? all ^ bits : bits | sign;
}
C_FN u32 c_key_f32(f32 e) { return c_key_of_float<u32>(c_bits_of(e), 0x80000000u, 0x7f800000u); }
C_FN u32 c_key_f16(u16 e) { return c_key_of_float<u32>(e, 0x8000u, 0x7c00u); }
C_FN u32 c_key_bf16(u16 e) { return c_key_of_float<u32>(e, 0x8000u, 0x7f80u); }
C_FN u32 c_key_b8(u8 e) { return e != 0; }
C_FN u32 c_key_u8(u8 e) { return e; }
C_FN u32 c_key_u16(u16 e) { return e; }
C_FN u32 c_key_u32(u32 e) { return e; }
C_FN u64 c_key_u64(u64 e) { return e; }
C_FN u32 c_key_i8(i8 e) { return (u8)e ^ 0x80u; }
C_FN u32 c_key_i16(i16 e) { return (u16)e ^ 0x8000u; }
C_FN u32 c_key_i32(i32 e) { return (u32)e ^ 0x80000000u; }
C_FN u64 c_key_i64(i64 e) { return (u64)e ^ (u64)1 << 63; }
// What the threads before this one of a block hold together. `sums` has an element for each warp, which are free again
// after the next barrier.
template <class W, class Sums> C_FN W c_before_thread(W x, Sums sums, int t) {
  const int lane = t % 32, warp = t / 32;
  W upto = c_scan_warp(x, lane, c_op_add());
  if (lane == 31) sums[warp] = upto;
  c_sync();
  for (int w = 0; w < warp; ++w) upto += sums[w];
  return upto - x;
}
// The element that stands at `rank` of a row in order, and its place, by one block of T threads: digit by digit from
// the highest, of those left only the ones with the digit that the rank falls on stay.
template <int T, class Get, class X, class Value, class Place, class Counts, class Sums, class Found>
C_LARGE_FN void c_digit_select(X x, i64 step, i64 n, i64 rank, Value value, Place place, Counts counts, Sums sums,
                               Found found, int t) {
  typedef decltype(Get::key(*x)) K;
  K known = 0, mask = 0;
  i64 left = n;
  for (int shift = 8 * (int)sizeof(typename Get::element) - 8; shift >= 0 && left > 1; shift -= 8) {
    if (t < 256) c_count_from(counts + t, 0);
    c_sync();
#pragma unroll 4
    for (i64 i = t; i < n; i += T) {
      const K key = Get::key(x[i * step]);
      if ((key & mask) == known) c_count(counts + (u32)(key >> shift & 255));
    }
    c_sync();
    const u32 here = t < 256 ? (u32)c_counted(counts + t) : 0, before = c_before_thread(here, sums, t);
    if (before <= rank && rank < (i64)before + here) {
      found[0] = t;
      found[1] = rank - before;
      found[2] = here;
    }
    c_sync();
    known |= (K)found[0] << shift;
    mask |= (K)255 << shift;
    rank = found[1];
    left = found[2];
  }
  // Of equal ones, in the order they are in: a run of the row for each thread.
  const i64 each = (n + T - 1) / T, from = left > 1 ? t * each : t, end = left > 1 && from + each < n ? from + each : n,
            next = left > 1 ? 1 : T;
  u32 mine = 0;
  if (left > 1)
    for (i64 i = from; i < end; ++i) mine += (Get::key(x[i * step]) & mask) == known;
  i64 before = c_before_thread(mine, sums, t);
  for (i64 i = from; i < end; i += next)
    if ((Get::key(x[i * step]) & mask) == known && before++ == rank) {
      *value = x[i * step];
      *place = i;
    }
}
