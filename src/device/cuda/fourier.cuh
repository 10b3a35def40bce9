// Fourier transforms of sequences that lie in a block's shared memory between passes (Stockham's order). Each pass
// takes a factor R of the length: a thread has R points in its registers, turns them, transforms them, and puts them
// back.
#pragma once

#include "machine.cuh"

// @piece fourier
// cos and sin of 2 pi i / R, for an i that is known when the code is compiled and at most R / 2.
template <class T, int R> C_FN void c_circle(int i, T& c, T& s) {
  const T c3[] = {(T)-0.5}, s3[] = {(T)0.8660254037844386468};
  const T c5[] = {(T)0.3090169943749474241, (T)-0.8090169943749474241};
  const T s5[] = {(T)0.9510565162951535721, (T)0.5877852522924731292};
  const T c7[] = {(T)0.6234898018587335305, (T)-0.2225209339563144043, (T)-0.9009688679024191262};
  const T s7[] = {(T)0.7818314824680298087, (T)0.9749279121818236070, (T)0.4338837391175581205};
  const T c11[] = {(T)0.8412535328311811688, (T)0.4154150130018864255, (T)-0.1423148382732851404,
                   (T)-0.6548607339452850640, (T)-0.9594929736144973898};
  const T s11[] = {(T)0.5406408174555975821, (T)0.9096319953545183714, (T)0.9898214418809327323,
                   (T)0.7557495743542582838, (T)0.2817325568414296977};
  const T c13[] = {(T)0.8854560256532098959,  (T)0.5680647467311558025,  (T)0.1205366802553230533,
                   (T)-0.3546048870425356260, (T)-0.7485107481711010986, (T)-0.9709418174260520271};
  const T s13[] = {(T)0.4647231720437685456, (T)0.8229838658936563945, (T)0.9927088740980539928,
                   (T)0.9350162426854148234, (T)0.6631226582407952023, (T)0.2393156642875577671};
  const T c16[] = {(T)0.9238795325112867561, (T)0.7071067811865475244, (T)0.3826834323650897717};
  const int eighths = R % 2 == 0 ? i * (16 / R) : 0;  // of a half circle
  if (R == 3) c = c3[i - 1], s = s3[i - 1];
  if (R == 5) c = c5[i - 1], s = s5[i - 1];
  if (R == 7) c = c7[i - 1], s = s7[i - 1];
  if (R == 11) c = c11[i - 1], s = s11[i - 1];
  if (R == 13) c = c13[i - 1], s = s13[i - 1];
  if (R == 8 || R == 16) {
    c = eighths < 4 ? c16[eighths - 1] : -c16[7 - eighths];
    s = eighths < 4 ? c16[3 - eighths] : c16[eighths - 5];
  }
}
// The transform of R points, in place.
template <int R> struct c_points {
  // This general form is for odd R. Points k and R - k are multiplied by the same cosines and by sines of opposite
  // sign, so their sum and their difference are all that is needed of them.
  template <class T> static C_METHOD void transform(T* re, T* im) {
    constexpr int H = R / 2;
    T sum_re[H], sum_im[H], less_re[H], less_im[H];
    const T first_re = re[0], first_im = im[0];
#pragma unroll
    for (int j = 1; j <= H; ++j) {
      sum_re[j - 1] = re[j] + re[R - j], sum_im[j - 1] = im[j] + im[R - j];
      less_re[j - 1] = re[j] - re[R - j], less_im[j - 1] = im[j] - im[R - j];
      re[0] += sum_re[j - 1], im[0] += sum_im[j - 1];
    }
#pragma unroll
    for (int k = 1; k <= H; ++k) {
      T even_re = first_re, even_im = first_im, odd_re = 0, odd_im = 0;
#pragma unroll
      for (int j = 1; j <= H; ++j) {
        const int turns = j * k % R;
        T c = 0, s = 0;
        c_circle<T, R>(turns <= H ? turns : R - turns, c, s);
        if (turns > H) s = -s;
        even_re += sum_re[j - 1] * c, even_im += sum_im[j - 1] * c;
        odd_re += less_re[j - 1] * s, odd_im += less_im[j - 1] * s;
      }
      re[k] = even_re + odd_im, im[k] = even_im - odd_re;
      re[R - k] = even_re - odd_im, im[R - k] = even_im + odd_re;
    }
  }
};
template <> struct c_points<1> {
  template <class T> static C_METHOD void transform(T*, T*) {}
};
// The transform of R points for a power of two, made of the transforms of its even points and of its odd points.
template <int R> struct c_halves {
  template <class T> static C_METHOD void transform(T* re, T* im) {
    constexpr int H = R / 2;
    T even_re[H], even_im[H], odd_re[H], odd_im[H];
#pragma unroll
    for (int k = 0; k < H; ++k) {
      even_re[k] = re[2 * k], even_im[k] = im[2 * k];
      odd_re[k] = re[2 * k + 1], odd_im[k] = im[2 * k + 1];
    }
    c_points<H>::transform(even_re, even_im);
    c_points<H>::transform(odd_re, odd_im);
#pragma unroll
    for (int k = 0; k < H; ++k) {
      T x = odd_re[k], y = odd_im[k];
      if (4 * k == R) {
        x = odd_im[k], y = -odd_re[k];
      } else if (k > 0) {
        T c = 0, s = 0;
        c_circle<T, R>(k, c, s);
        x = odd_re[k] * c + odd_im[k] * s, y = odd_im[k] * c - odd_re[k] * s;
      }
      re[k] = even_re[k] + x, im[k] = even_im[k] + y;
      re[k + H] = even_re[k] - x, im[k + H] = even_im[k] - y;
    }
  }
};
template <> struct c_points<2> : c_halves<2> {};
template <> struct c_points<4> : c_halves<4> {};
template <> struct c_points<8> : c_halves<8> {};
template <> struct c_points<16> : c_halves<16> {};
// Point j by e^(-2 pi i j k / n). A power of a rounded number would be off by as many times what that is.
template <int R, class T> C_FN void c_turn_points(T* re, T* im, int k, int n) {
  T c[R], s[R];
#pragma unroll
  for (int j = 1; j < R; ++j) {
    const int a = j / 4 * 4, b = j % 4;
    if (a == 0 || b == 0)
      c_turn(j * k, n, c[j], s[j]);
    else
      c[j] = c[a] * c[b] - s[a] * s[b], s[j] = c[a] * s[b] + s[a] * c[b];
  }
#pragma unroll
  for (int j = 1; j < R; ++j) {
    const T x = re[j], y = im[j];
    re[j] = x * c[j] + y * s[j], im[j] = y * c[j] - x * s[j];
  }
}
// One pass over S sequences of N points by so many threads; M is the product of the factors before R. Threads side by
// side have neighbouring points, or (BY_POINTS false) neighbouring sequences. WAIT: `get` and `put` have one memory.
template <class T, int N, int S, int THREADS, int R, int M, bool BY_POINTS, bool WAIT, class Get, class Put>
C_FN void c_fourier_pass(Get get, Put put) {
  constexpr int OF_ONE = N / R, ALL = S * OF_ONE, TURNS = (ALL + THREADS - 1) / THREADS;
  T re[TURNS][R], im[TURNS][R];
  // The sequence and the first point of turn u; false behind the last.
  const auto has_turn = [](int u, int& s, int& b) {
    const int q = (int)threadIdx.x + u * THREADS;
    s = BY_POINTS ? q / OF_ONE : q % S;
    b = BY_POINTS ? q % OF_ONE : q / S;
    return q < ALL;
  };
#pragma unroll
  for (int u = 0; u < TURNS; ++u) {
    int s, b;
    if (!has_turn(u, s, b)) continue;
#pragma unroll
    for (int j = 0; j < R; ++j) get(s, b + j * OF_ONE, re[u][j], im[u][j]);
    if (M > 1) c_turn_points<R>(re[u], im[u], b % M, M * R);
    c_points<R>::transform(re[u], im[u]);
  }
  if (WAIT) c_sync();
#pragma unroll
  for (int u = 0; u < TURNS; ++u) {
    int s, b;
    if (!has_turn(u, s, b)) continue;
#pragma unroll
    for (int j = 0; j < R; ++j) put(s, b / M * (M * R) + b % M + j * M, re[u][j], im[u][j]);
  }
}
