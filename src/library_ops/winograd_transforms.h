// The transforms of Winograd's minimal filtering F(m x m, 3 x 3), as exact numbers: one table of points, from which
// their matrices follow.
//
// A row of m results is a product of polynomials (Toom and Cook): window and input are taken at the points 0, p, -p, q,
// -q, .. and at infinity, multiplied there, and put together again. With n = m + 2 points, y = At ((G g) * (Bt d)) for
// the window g of 3 and the input d of n; in two dimensions each matrix is applied to columns and to rows.
#pragma once
#include <cstdint>
#include <vector>

namespace coil::winograd {

/// A fraction in lowest terms, its denominator positive. What the transforms hold is small: nothing overflows.
struct Rational {
  std::int64_t numerator = 0, denominator = 1;

  constexpr Rational(std::int64_t n = 0, std::int64_t d = 1);  // NOLINT: whole numbers are fractions
  constexpr double value() const { return static_cast<double>(numerator) / static_cast<double>(denominator); }
  constexpr bool operator==(const Rational&) const = default;
};
Rational operator+(Rational, Rational);
Rational operator-(Rational, Rational);
Rational operator*(Rational, Rational);
Rational operator/(Rational, Rational);

using Matrix = std::vector<std::vector<Rational>>;

constexpr std::int64_t kWindow = 3;

struct Transforms {
  std::int64_t tile;    ///< m
  std::int64_t square;  ///< n = m + 2
  Matrix bt;            ///< n x n, of the input: each number is an f32
  Matrix g;             ///< n x 3, of the window
  Matrix at;            ///< m x n, back: each number is an f32
  Matrix recover;       ///< 3 x n, the window of its transform: recover * g = 1

  std::int64_t terms() const { return square * square; }
  /// By what a sum over a tile may be greater, in magnitude, than sums of products of input and window are.
  double amplification() const;
};

/// The transforms that there are, by tile: F(2x2) and F(4x4).
const std::vector<Transforms>& all_transforms();
/// The one of this tile, which must be there.
const Transforms& transforms(std::int64_t tile);

constexpr Rational::Rational(std::int64_t n, std::int64_t d) {
  std::int64_t a = n < 0 ? -n : n, b = d < 0 ? -d : d;
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b, b = rest;
  }
  const std::int64_t common = d < 0 ? -a : a;
  numerator = n / common, denominator = d / common;
}

}  // namespace coil::winograd
