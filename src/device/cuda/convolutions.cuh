// Convolutions in groups of few channels, in 16 bits on the matrix units, channels innermost.
#pragma once
#include "values.cuh"

// @piece convolutions
// ---- A block has some groups of channels, of squares of places of the result. What those read of x, with the edge
// that windows reach over, passes through shared memory. The sum over a window is cut into pieces of eight channels of
// one of its places, two of which are one step of the matrix units, so that groups may have any multiple of eight
// channels.
//
// The constants of a kernel are a type S: channels of a group (in, out), places of a window (rows, columns), steps of
// the window (down, right), distances within it (far_down, far_right), how many places of x lie between two that there
// are (apart_down, apart_right: those between are zeros, as where a convolution is transposed), the block's groups and
// its square of the result (groups, high, wide), and its threads.
struct c_picture {
  const u16* at;
  i64 image;  // elements from one to the next; channels are side by side
  int row, place, high, wide, channels;
};
// Squares are counted by place, then by image. `above`, `left`: what is padded.
struct c_squares {
  int first, step, down, across, images, above, left;
};
struct c_square {
  int image, down, across;
};
C_FN c_square c_square_of(const c_squares& s, int k) {
  const int within = k % (s.down * s.across);
  return {k / (s.down * s.across), within / s.across, within % s.across};
}

// Places of x that a square reads, and elements from one place in shared memory to the next: an odd number of vectors,
// so that eight places lie in different banks.
template <class S> struct c_reads {
  enum : int {
    high = (S::high - 1) * S::down + (S::rows - 1) * S::far_down + 1,
    wide = (S::wide - 1) * S::right + (S::columns - 1) * S::far_right + 1,
    channels = S::groups * S::in,
    place = channels + (channels / 8 % 2 ? 0 : 8),
    elements = high * wide * place
  };
  // Where a piece begins, from the first place of its window on.
  C_METHOD static constexpr int piece(int p) {
    return (p / (S::in / 8) / S::columns * S::far_down * wide + p / (S::in / 8) % S::columns * S::far_right) * place +
           p % (S::in / 8) * 8;
  }
};

// A rectangle of places from (top, left) on, of which every `APART`-th is one of x: zeros where there is none. A thread
// has the same channels of each of its places.
template <int HIGH, int WIDE, int CHANNELS, int PLACE, int APART_DOWN, int APART_RIGHT, int THREADS>
C_FN void c_fetch_places(u16* to, const c_picture& x, int image, int top, int left, int channel) {
  constexpr int vectors = CHANNELS / 8, step = THREADS / vectors;
  static_assert(step > 0, "a block has a thread for each vector of a place");
  const int e = threadIdx.x % vectors * 8, begin = threadIdx.x / vectors;
  if (begin >= step) return;
  const u16* const from = x.at + image * x.image + channel + e;
  const bool some = channel + e < x.channels;
  to += begin * PLACE + e;
  int row = top + begin / WIDE, column = left + begin % WIDE;
  const int end = left + WIDE;
  for (int p = begin; p < HIGH * WIDE; p += step) {
    const int down = row / APART_DOWN, right = column / APART_RIGHT;
    const bool there = some && row >= 0 && column >= 0 && row % APART_DOWN == 0 && column % APART_RIGHT == 0 &&
                       down < x.high && right < x.wide;
    c_copy_ahead(to, there ? from + (i64)down * x.row + (i64)right * x.place : x.at, there);
    to += step * PLACE;
    row += step / WIDE, column += step % WIDE;
    if (step % WIDE != 0 && column >= end) column -= WIDE, ++row;
  }
}

// Squares of a block one after the other, of which one is fetched while another is worked on: `fetch(square, which)` to
// one of two places in shared memory, `work(square, which)`.
template <class Fetch, class Work> C_FN void c_walk(const c_squares& squares, const Fetch& fetch, const Work& work) {
  const int count = squares.images * squares.down * squares.across;
  const auto begin = [&](int k, int to) {
    if (k < count) fetch(c_square_of(squares, k), to);
    c_copies_begun();
  };
  int now = 0;
  begin(squares.first, 0);
  for (int k = squares.first; k < count; k += squares.step, now ^= 1) {
    begin(k + squares.step, now ^ 1);
    c_copies_arrive_but<1>();
    c_sync();
    work(c_square_of(squares, k), now);
    c_sync();
  }
  c_copies_arrive_but<0>();
}

// The weights of a group: elements from one result, channel, row and column to the next.
struct c_weights {
  const u16* at;
  i64 out, in, row, column;
};
// The part of them that a warp holds: N times eight results from `first` on. Zeros of results that are not there.
template <class S, int N, int STEPS>
C_FN void c_hold_weights(u32 (&b)[STEPS][N][2], const c_weights& w, int first, bool some) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < STEPS * 2; ++k) {
    const int of = k / (S::in / 8), channel = k % (S::in / 8) * 8 + lane % 4 * 2;
    const u16* const at = w.at + of / S::columns * w.row + of % S::columns * w.column + channel * w.in;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int result = first + n * 8 + lane / 4;
      const bool there = some && of < S::rows * S::columns && result < S::out;
      b[k / 2][n][k % 2] = there ? at[result * w.out] | (u32)at[result * w.out + w.in] << 16 : 0u;
    }
  }
}

// y = finish(x * w). A warp has N times eight results of one group, and every `PARTS`-th run of 16 places.
// `weights(group)` tells where a group's lie, `start(channel)` what is added to; `finish(image, row, column, channel,
// p, q)` stores the sums of a channel and the next.
template <bool BF16, class S, int N, int PARTS, class Weights, class Start, class Finish>
C_FN void c_convolution(u16* shared, const c_picture& x, const c_squares& squares, int high, int wide, int groups,
                        int block, const Weights& weights, const Start& start, const Finish& finish) {
  using R = c_reads<S>;
  constexpr int pieces = S::rows * S::columns * (S::in / 8), steps = (pieces + 1) / 2,
                warps_of_group = (S::out + N * 8 - 1) / (N * 8), runs = S::high * S::wide / 16;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp % PARTS;
  const int within = warp / PARTS / warps_of_group, group = block * S::groups + within,
            first = warp / PARTS % warps_of_group * (N * 8);
  const bool some = group < groups;  // else its channels are zeros
  u16* const zeros = shared + 2 * R::elements;
  if (threadIdx.x < 8) zeros[threadIdx.x] = 0;
  u32 b[steps][N][2];
  c_hold_weights<S>(b, weights(some ? group : 0), first, some);
  f32 starts[N][2];
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int result = first + n * 8 + lane % 4 * 2 + i;
      starts[n][i] = some && result < S::out ? start(group * S::out + result) : 0.0f;
    }
  const auto fetch = [&](const c_square& s, int to) {
    c_fetch_places<R::high, R::wide, R::channels, R::place, S::apart_down, S::apart_right, S::threads>(
        shared + to * R::elements, x, s.image, s.down * S::high * S::down - squares.above,
        s.across * S::wide * S::right - squares.left, block * R::channels);
  };
  c_walk(squares, fetch, [&](const c_square& s, int now) {
    for (int run = part; run < runs; run += PARTS) {
      const int p = run * 16 + lane % 16;
      const u16* const at = shared + now * R::elements +
                            (p / S::wide * S::down * R::wide + p % S::wide * S::right) * R::place + within * S::in;
      f32 sums[N][4];
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] = starts[n][i % 2];
#pragma unroll
      for (int j = 0; j < steps; ++j) {
        u32 a[4];
        const u16* const second = j * 2 + 1 < pieces ? at + R::piece(j * 2 + 1) : zeros;
        c_load_matrices(a, lane < 16 ? at + R::piece(j * 2) : second);
#pragma unroll
        for (int n = 0; n < N; ++n) c_matrix_add_16<BF16>(sums[n], a, b[j][n]);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int q = run * 16 + half * 8 + lane / 4, row = s.down * S::high + q / S::wide,
                  column = s.across * S::wide + q % S::wide;
        if (!some || row >= high || column >= wide) continue;
#pragma unroll
        for (int n = 0; n < N; ++n) {
          const int result = first + n * 8 + lane % 4 * 2;
          if (result < S::out)
            finish(s.image, row, column, group * S::out + result, sums[n][half * 2], sums[n][half * 2 + 1]);
        }
      }
    }
  });
}

// A block's part of the gradient of the weights, sums over its squares of dy * x, to `sums` [out, rows, columns, in] of
// its channels. A warp has WIDE pieces of a window and all results of one group.
template <bool BF16, class S, int WIDE> C_FN void c_convolution_weights(u16* shared, const c_picture& x,
                                                                        const c_picture& dy, const c_squares& squares,
                                                                        int groups, int block, f32* sums) {
  using R = c_reads<S>;
  constexpr int pieces = S::rows * S::columns * (S::in / 8), warps_of_group = (pieces + WIDE - 1) / WIDE;
  // Behind the last channel there is room for the rest of the sixteen that are read at once.
  constexpr int tall = (S::out + 15) / 16, runs = S::high * S::wide / 16, channels = S::groups * S::out,
                place = channels + 8 + (channels / 8 % 2 ? 8 : 0), square = S::high * S::wide * place,
                stage = R::elements + square;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int within = warp / warps_of_group, group = block * S::groups + within, first = warp % warps_of_group * WIDE;
  const bool some = group < groups;  // else its channels are zeros
  const auto fetch = [&](const c_square& s, int to) {
    u16* const at = shared + to * stage;
    c_fetch_places<R::high, R::wide, R::channels, R::place, 1, 1, S::threads>(
        at, x, s.image, s.down * S::high * S::down - squares.above, s.across * S::wide * S::right - squares.left,
        block * R::channels);
    c_fetch_places<S::high, S::wide, channels, place, 1, 1, S::threads>(at + R::elements, dy, s.image, s.down * S::high,
                                                                        s.across * S::wide, block * channels);
  };
  f32 acc[tall][WIDE][4] = {};
  c_walk(squares, fetch, [&](const c_square&, int now) {
    const u16 *const of_x = shared + now * stage + within * S::in, *const of_dy = shared + now * stage + R::elements +
                                                                                  within * S::out;
    for (int run = 0; run < runs; ++run) {
      u32 a[tall][4];
#pragma unroll
      for (int t = 0; t < tall; ++t)
        c_load_transposed(a[t], of_dy + (run * 16 + lane % 8 + lane / 16 * 8) * place + t * 16 + lane / 8 % 2 * 8);
      const int p = run * 16 + lane % 16;
      const u16* const at = of_x + (p / S::wide * S::down * R::wide + p % S::wide * S::right) * R::place;
#pragma unroll
      for (int j = 0; j < WIDE; j += 2) {
        u32 b[4];
        const int piece = first + j + lane / 16;
        c_load_transposed(b, at + R::piece(piece < pieces ? piece : 0));
#pragma unroll
        for (int t = 0; t < tall; ++t) {
          c_matrix_add_16<BF16>(acc[t][j], a[t], b);
          if (j + 1 < WIDE) c_matrix_add_16<BF16>(acc[t][j + 1], a[t], b + 2);
        }
      }
    }
  });
  if (!some) return;
#pragma unroll
  for (int t = 0; t < tall; ++t)
#pragma unroll
    for (int j = 0; j < WIDE; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int result = t * 16 + half * 8 + lane / 4;
        if (result >= S::out || first + j >= pieces) continue;
        f32* const to = sums + (i64)(group * S::out + result) * (pieces * 8) + (first + j) * 8 + lane % 4 * 2;
        to[0] = acc[t][j][half * 2], to[1] = acc[t][j][half * 2 + 1];
      }
}
