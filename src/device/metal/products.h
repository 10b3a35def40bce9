// Products of matrices, plain and tiled: a threadgroup of 256 makes 32 by 32 results, of each of which it reads a piece
// of 16 of both operands at a time into threadgroup memory. Operands are anything that gives an element by its place:
// matrices in any strides, and the windows of a convolution, which is a product of them and the weight.
#pragma once
#include "memory.h"

// @piece c_product
// How elements become registers, and registers elements.
// @for $d $e: f32 f32, f16 u16, bf16 u16
struct c_stored_$d {
  typedef $e element;
  static C_METHOD f32 get($e e) { return c_get_$d(e); }
  static C_METHOD $e put(f32 x) { return c_put_$d(x); }
};
// @end
// ---- Operands, whose elements are stored as S says.
template <class S> struct c_matrix {
  const device typename S::element* p;
  i64 down, across;
  C_METHOD f32 operator()(i64 i, i64 j) const { return S::get(p[i * down + j * across]); }
};
// What a convolution says of one dimension, by the places of results and of the window.
struct c_window_dim {
  i64 in, window, out, step, before, apart, x_stride, w_stride, y_stride;
};
struct c_window {
  c_window_dim d[3];
};
C_FN i64 c_window_place(c_window_dim d, i64 out, i64 k, bool transposed) {
  if (!transposed) {
    const i64 at = out * d.step - d.before + k * d.apart;
    return at < d.in ? at : -1;
  }
  const i64 at = out + d.before - k * d.apart;
  return at >= 0 && at % d.step == 0 && at / d.step < d.in ? at / d.step : -1;
}
// Where a place of the results, or of the filters, lies; `i` then counts what goes on behind the dimensions.
C_FN i64 c_result_place(c_window w, thread i64& i) {
  i64 at = 0;
  for (int k = 2; k >= 0; --k) {
    at += i % w.d[k].out * w.d[k].y_stride;
    i /= w.d[k].out;
  }
  return at;
}
C_FN i64 c_filter_place(c_window w, thread i64& i) {
  i64 at = 0;
  for (int k = 2; k >= 0; --k) {
    at += i % w.d[k].window * w.d[k].w_stride;
    i /= w.d[k].window;
  }
  return at;
}
// Rows are places of results, of one image after the other; columns places of the window with the channel outermost.
template <class S> struct c_windows {
  const device typename S::element* p;
  c_window w;
  i64 channel_stride, image_stride;
  bool transposed;
  C_METHOD f32 operator()(i64 i, i64 j) const {
    i64 at = 0;
    for (int k = 2; k >= 0; --k) {
      const i64 place = c_window_place(w.d[k], i % w.d[k].out, j % w.d[k].window, transposed);
      if (place < 0) return 0;
      at += place * w.d[k].x_stride;
      i /= w.d[k].out, j /= w.d[k].window;
    }
    return S::get(p[at + j * channel_stride + i * image_stride]);
  }
};
template <class S> struct c_filters {
  const device typename S::element* p;
  c_window w;
  i64 channel_stride, across;
  C_METHOD f32 operator()(i64 i, i64 j) const {
    const i64 at = j * across + c_filter_place(w, i);
    return S::get(p[at + i * channel_stride]);
  }
};
// Where results go.
template <class S> struct c_rows_of {
  device typename S::element* p;
  i64 down, across;
  C_METHOD void operator()(i64 i, i64 j, f32 x) const { p[i * down + j * across] = S::put(x); }
};
template <class S> struct c_places {
  device typename S::element* p;
  c_window w;
  i64 across;
  C_METHOD void operator()(i64 i, i64 j, f32 x) const {
    const i64 at = j * across + c_result_place(w, i);
    p[at] = S::put(x);
  }
};
// The operands of the gradient of a convolution's weight: a matrix of the results' channels by their places, one image
// after the other, whose product with the patches gives the filters.
template <class S> struct c_slopes {
  const device typename S::element* p;
  c_window w;
  i64 down, image_stride;
  C_METHOD f32 operator()(i64 i, i64 j) const {
    const i64 at = i * down + c_result_place(w, j);
    return S::get(p[at + j * image_stride]);
  }
};
template <class S> struct c_filters_of {
  device typename S::element* p;
  c_window w;
  i64 down, channel_stride;
  C_METHOD void operator()(i64 i, i64 j, f32 x) const {
    const i64 at = i * down + c_filter_place(w, j);
    p[at + j * channel_stride] = S::put(x);
  }
};
struct c_nothing {
  C_METHOD f32 operator()(i64, i64) const { return 0; }
};

// Rows [begin, end) of run `g` of `count`, and as one more those behind the last; where the ends are none, end is
// before begin.
struct c_run {
  i64 begin, end;
};
template <class Ends> C_FN c_run c_run_of(Ends ends, i64 step, i64 count, i64 rows, i64 g) {
  const i64 begin = g == 0 ? 0 : (i64)ends[(g - 1) * step], end = g < count ? (i64)ends[g * step] : rows;
  if (begin < 0 || end > rows) return {0, -1};
  return {begin, end};
}

// y(i, j) = bias(i, j) + the sum of a(i, l) b(l, j) over l < depth, for i < rows and j < columns. `left` and `right`
// are 16 * 33 numbers of threadgroup memory each; all 256 threads of the group come here.
template <class A, class B, class Bias, class Y, class Tile>
C_FN void c_product(A a, B b, Bias bias, Y y, i64 rows, i64 columns, i64 depth, uint3 block, u32 thread_in_block,
                    Tile left, Tile right) {
  const i64 row0 = (i64)block.y * 32, column0 = (i64)block.x * 32;
  if (row0 >= rows || column0 >= columns) return;
  const u32 ty = thread_in_block / 16, tx = thread_in_block % 16;
  f32 sum[2][2] = {{0, 0}, {0, 0}};
  for (i64 l0 = 0; l0 < depth; l0 += 16) {
    for (u32 e = thread_in_block; e < 512; e += 256) {
      const i64 i = row0 + e / 16, l = l0 + e % 16;
      left[e % 16 * 33 + e / 16] = i < rows && l < depth ? a(i, l) : 0.0f;
      const i64 j = column0 + e % 32, m = l0 + e / 32;
      right[e / 32 * 33 + e % 32] = j < columns && m < depth ? b(m, j) : 0.0f;
    }
    c_sync();
    for (u32 l = 0; l < 16; ++l)
      for (u32 r = 0; r < 2; ++r)
        for (u32 c = 0; c < 2; ++c)
          sum[r][c] = c_fma(left[l * 33 + ty + 16 * r], right[l * 33 + tx + 16 * c], sum[r][c]);
    c_sync();
  }
  for (u32 r = 0; r < 2; ++r)
    for (u32 c = 0; c < 2; ++c) {
      const i64 i = row0 + ty + 16 * r, j = column0 + tx + 16 * c;
      if (i < rows && j < columns) y(i, j, sum[r][c] + bias(i, j));
    }
}
