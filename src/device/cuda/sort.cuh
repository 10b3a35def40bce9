// Sorting by comparison: rows within a block, and runs that are put together.
#pragma once
#include "scatter.cuh"

// @piece sort
// ---- Sorting. Whether a stands before b: by value, equals by place.
template <class T> C_FN bool c_stands_before(T a, i64 i, T b, i64 j, bool descending) {
  const bool greater = a != a ? b == b : b == b && a > b, less = b != b ? a == a : a == a && a < b;
  return descending ? greater || (!less && i < j) : less || (!greater && i < j);
}
// A network of comparators that all put the earlier element first, so that a length that is no power of two needs no
// padding.
template <class I, class Row> static __device__ void c_sort_row(Row row, I n, int t, int threads) {
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
template <class E, class Get, bool D> struct c_shared_row {
  E* keys;
  i32* places;
  C_METHOD void order(i32 i, i32 j) const {
    if (c_stands_before(Get::get(keys[j]), places[j], Get::get(keys[i]), places[i], D)) {
      const E e = keys[i];
      keys[i] = keys[j];
      keys[j] = e;
      const i32 p = places[i];
      places[i] = places[j];
      places[j] = p;
    }
  }
};
template <class E, class Get, bool D> struct c_strided_row {
  E* keys;
  i64* places;
  i64 key_step, place_step;
  C_METHOD void order(i64 i, i64 j) const {
    E &a = keys[i * key_step], &b = keys[j * key_step];
    i64 &p = places[i * place_step], &q = places[j * place_step];
    if (c_stands_before(Get::get(b), q, Get::get(a), p, D)) {
      const E e = a;
      a = b;
      b = e;
      const i64 r = p;
      p = q;
      q = r;
    }
  }
};
// The first k of n in order, places counted from `base`. `keys` and `places` hold C elements, at least twice k where n
// is more.
template <int C, class Get, bool D, class E>
static __device__ void c_sort(const E* x, i64 x_step, E* values, i64 v_step, i64* indices, i64 i_step, i64 n, i64 k,
                              i64 base, E* keys, i32* places, i32* count, int t, int threads) {
  const c_shared_row<E, Get, D> row = {keys, places};
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
    return c_sort_row(c_strided_row<E, Get, D>{values, indices, v_step, i_step}, n, t, threads);
  } else if (k > 0) {
    // The best k so far stand in front; of what follows, only what stands before the last of them is taken in behind
    // them.
    bool full = false;
    if (t == 0) *count = 0;
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
      const i32 held = *count;
      c_sync();
      if (held <= C / 2 && end < n) continue;
      c_sort_row(row, held, t, threads);
      full = held >= k;
      if (t == 0) *count = full ? (i32)k : held;
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
template <class Get, bool D, class E>
C_FN i64 c_merge_split(const E* a, i64 in_a, const E* b, i64 in_b, i64 step, i64 taken) {
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
template <int T, class Get, bool D, class E>
static __device__ void c_merge(const E* x, i64 x_step, const i64* p, i64 p_step, E* values, i64 v_step, i64* indices,
                               i64 i_step, i64 n, i64 width, i64 from, E* keys, i32* places, i64* cuts, int t,
                               int threads) {
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
