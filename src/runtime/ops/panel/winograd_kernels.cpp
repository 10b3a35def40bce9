#ifdef __AVX512F__
#include "runtime/ops/panel/winograd_kernels.h"

#include <immintrin.h>

#include <cstdint>

#ifdef __clang__
#define COIL_UNROLL _Pragma("unroll")
#else
#define COIL_UNROLL _Pragma("GCC unroll 16")
#endif

namespace coil::runtime::panels {
namespace {

typedef float Vector __attribute__((vector_size(64)));
constexpr int kLanes = 16;

/// The points and their powers, in registers.
template <int kPairs>
struct Powers {
  Vector first[kPairs], second[kPairs], third[kPairs];

  [[gnu::always_inline]] explicit Powers(const Points& points) {
    COIL_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      first[i] = Vector{} + points.of[i];
      second[i] = first[i] * first[i];
      third[i] = second[i] * first[i];
    }
  }
};

/// Bt x. With one pair p the rows are x^2 - p^2, x (x + p), x (x - p) and x (x^2 - p^2), each number of `x` being a
/// power's factor; with two there is one factor x^2 - q^2 more in those of p, and the other way round.
[[gnu::always_inline]] inline void to_terms(const Powers<1>& p, const Vector* x, Vector* v) {
  v[0] = x[2] - p.second[0] * x[0];
  v[1] = x[2] + p.first[0] * x[1];
  v[2] = x[2] - p.first[0] * x[1];
  v[3] = x[3] - p.second[0] * x[1];
}
[[gnu::always_inline]] inline void to_terms(const Powers<2>& p, const Vector* x, Vector* v) {
  const Vector both = p.second[0] + p.second[1], product = p.second[0] * p.second[1];
  v[0] = x[4] - both * x[2] + product * x[0];
  v[5] = x[5] - both * x[3] + product * x[1];
  COIL_UNROLL
  for (int i = 0; i < 2; ++i) {
    const Vector even = x[4] - p.second[1 - i] * x[2], odd = x[3] - p.second[1 - i] * x[1];
    v[1 + 2 * i] = even + p.first[i] * odd;
    v[2 + 2 * i] = even - p.first[i] * odd;
  }
}

/// At m: result k is the sum of the terms times the k-th powers of their points; infinity counts for the last alone.
[[gnu::always_inline]] inline void to_results(const Powers<1>& p, const Vector* m, Vector* y) {
  y[0] = m[0] + (m[1] + m[2]);
  y[1] = m[3] + p.first[0] * (m[1] - m[2]);
}
[[gnu::always_inline]] inline void to_results(const Powers<2>& p, const Vector* m, Vector* y) {
  const Vector sums[] = {m[1] + m[2], m[3] + m[4]}, differences[] = {m[1] - m[2], m[3] - m[4]};
  y[0] = m[0] + (sums[0] + sums[1]);
  y[1] = p.first[0] * differences[0] + p.first[1] * differences[1];
  y[2] = p.second[0] * sums[0] + p.second[1] * sums[1];
  y[3] = m[5] + p.third[0] * differences[0] + p.third[1] * differences[1];
}

/// `kInside`: all of the square lies in the input.
template <int kPairs, bool kInside>
bool transform_in(const SquareIn& s) {
  constexpr int n = 2 * kPairs + 2;
  constexpr float kMost = 1e24f;  // of a sum of squares
  const Powers<kPairs> powers(s.points);
  __mmask16 lost = 0;
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    const auto there = static_cast<__mmask16>(s.channels - c < kLanes ? (1u << (s.channels - c)) - 1 : 0xffffu);
    Vector half[n][n];  // column by column of Bt d
    COIL_UNROLL
    for (int j = 0; j < n; ++j) {
      Vector column[n];
      COIL_UNROLL
      for (int i = 0; i < n; ++i)
        column[i] = kInside || ((s.lines >> i & s.places >> j) & 1u)
                        ? (Vector)_mm512_maskz_loadu_ps(there, s.from + i * s.line_step + j * s.place_step + c)
                        : Vector{};
      to_terms(powers, column, half[j]);
      Vector squares = column[0] * column[0];
      COIL_UNROLL
      for (int i = 1; i < n; ++i) squares += column[i] * column[i];
      lost |= _mm512_cmp_ps_mask((__m512)squares, _mm512_set1_ps(kMost), _CMP_NLE_UQ);
    }
    COIL_UNROLL
    for (int i = 0; i < n; ++i) {
      Vector row[n], terms[n];
      COIL_UNROLL
      for (int j = 0; j < n; ++j) row[j] = half[j][i];
      to_terms(powers, row, terms);
      COIL_UNROLL
      for (int j = 0; j < n; ++j) _mm512_storeu_ps(s.to + (n * i + j) * s.term_step + c, (__m512)terms[j]);
    }
  }
  return lost == 0;
}

template <int kPairs>
bool transform_in_any(const SquareIn& s) {
  constexpr unsigned kAll = (1u << (2 * kPairs + 2)) - 1;
  return (s.lines & s.places) == kAll ? transform_in<kPairs, true>(s) : transform_in<kPairs, false>(s);
}

template <int kPairs>
bool transform_out(const SquareOut& s) {
  constexpr int n = 2 * kPairs + 2, tile = 2 * kPairs;
  constexpr int kNotFinite = 0x99;  // quiet and signalling NaN, both infinities
  const Powers<kPairs> powers(s.points);
  __mmask16 lost = 0;
  for (int at = 0; at < s.vectors * kLanes; at += kLanes) {
    Vector half[n][tile];  // column by column of At m
    COIL_UNROLL
    for (int j = 0; j < n; ++j) {
      Vector column[n];
      COIL_UNROLL
      for (int i = 0; i < n; ++i) column[i] = (Vector)_mm512_loadu_ps(s.from + (n * i + j) * s.term_step + at);
      to_results(powers, column, half[j]);
    }
    COIL_UNROLL
    for (int a = 0; a < tile; ++a) {
      Vector row[n], results[tile];
      COIL_UNROLL
      for (int j = 0; j < n; ++j) row[j] = half[j][a];
      to_results(powers, row, results);
      COIL_UNROLL
      for (int b = 0; b < tile; ++b) {
        const auto y = (__m512)results[b];
        lost |= _mm512_fpclass_ps_mask(y, kNotFinite);
        _mm512_storeu_ps(s.to + a * s.line_step + b * s.place_step + at, y);
      }
    }
  }
  return lost == 0;
}

bool in(const SquareIn& s) { return s.points.pairs == 1 ? transform_in_any<1>(s) : transform_in_any<2>(s); }
bool out(const SquareOut& s) { return s.points.pairs == 1 ? transform_out<1>(s) : transform_out<2>(s); }

}  // namespace

const WinogradKernels kWinogradAvx512 = {in, out};

}  // namespace coil::runtime::panels
#endif
