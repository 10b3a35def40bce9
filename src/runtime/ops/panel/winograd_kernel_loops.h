// The transforms of winograd_kernels.h, for the file that includes this: it gives, before, what differs between
// instruction sets (Vector, Lanes, and the functions of namespace coil::runtime::panels that winograd_kernels_avx2.cpp
// lists).
#include <cstdint>

#ifdef __clang__
#define COIL_UNROLL _Pragma("unroll")
#else
#define COIL_UNROLL _Pragma("GCC unroll 16")
#endif

namespace coil::runtime::panels {
namespace {

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
  Lanes lost{};
  for (std::int64_t c = 0; c < s.channels; c += kLanes) {
    const Lanes there = first_lanes(s.channels - c < kLanes ? static_cast<int>(s.channels - c) : kLanes);
    Vector half[n][n];  // column by column of Bt d
    COIL_UNROLL
    for (int j = 0; j < n; ++j) {
      Vector column[n];
      COIL_UNROLL
      for (int i = 0; i < n; ++i)
        column[i] = kInside || ((s.lines >> i & s.places >> j) & 1u)
                        ? load_lanes(s.from + i * s.line_step + j * s.place_step + c, there)
                        : Vector{};
      to_terms(powers, column, half[j]);
      Vector squares = column[0] * column[0];
      COIL_UNROLL
      for (int i = 1; i < n; ++i) squares += column[i] * column[i];
      lost |= not_below(squares, kMost);
    }
    COIL_UNROLL
    for (int i = 0; i < n; ++i) {
      Vector row[n], terms[n];
      COIL_UNROLL
      for (int j = 0; j < n; ++j) row[j] = half[j][i];
      to_terms(powers, row, terms);
      COIL_UNROLL
      for (int j = 0; j < n; ++j) store_vector(s.to + (n * i + j) * s.term_step + c, terms[j]);
    }
  }
  return !any(lost);
}

template <int kPairs>
bool transform_in_any(const SquareIn& s) {
  constexpr unsigned kAll = (1u << (2 * kPairs + 2)) - 1;
  return (s.lines & s.places) == kAll ? transform_in<kPairs, true>(s) : transform_in<kPairs, false>(s);
}

template <int kPairs>
bool transform_out(const SquareOut& s) {
  constexpr int n = 2 * kPairs + 2, tile = 2 * kPairs;
  const Powers<kPairs> powers(s.points);
  Lanes lost{};
  for (int at = 0; at < s.vectors * kLanes; at += kLanes) {
    Vector half[n][tile];  // column by column of At m
    COIL_UNROLL
    for (int j = 0; j < n; ++j) {
      Vector column[n];
      COIL_UNROLL
      for (int i = 0; i < n; ++i) column[i] = load_vector(s.from + (n * i + j) * s.term_step + at);
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
        lost |= not_finite(results[b]);
        store_vector(s.to + a * s.line_step + b * s.place_step + at, results[b]);
      }
    }
  }
  return !any(lost);
}

bool in(const SquareIn& s) { return s.points.pairs == 1 ? transform_in_any<1>(s) : transform_in_any<2>(s); }
bool out(const SquareOut& s) { return s.points.pairs == 1 ? transform_out<1>(s) : transform_out<2>(s); }

constexpr WinogradKernels kTransforms = {in, out};

}  // namespace
}  // namespace coil::runtime::panels
