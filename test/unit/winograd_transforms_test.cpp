#include "library_ops/winograd_transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace coil::winograd {
namespace {

using Vector = std::vector<Rational>;

Vector times(const Matrix& m, const Vector& v) {
  Vector out;
  for (const Vector& row : m) {
    Rational sum;
    for (std::size_t i = 0; i < v.size(); ++i) sum = sum + row.at(i) * v[i];
    out.push_back(sum);
  }
  return out;
}

Matrix transposed(const Matrix& m) {
  Matrix out(m.at(0).size(), Vector(m.size()));
  for (std::size_t i = 0; i < m.size(); ++i)
    for (std::size_t j = 0; j < m[i].size(); ++j) out[j][i] = m[i][j];
  return out;
}

/// m x mt over columns, then rows.
Matrix on_both_sides(const Matrix& m, const Matrix& x) {
  Matrix half, out;
  for (const Vector& column : transposed(x)) half.push_back(times(m, column));
  for (const Vector& row : transposed(half)) out.push_back(times(m, row));
  return out;
}

Matrix random_matrix(std::mt19937& random, std::int64_t n) {
  std::uniform_int_distribution<int> small(-9, 9);
  Matrix out(static_cast<std::size_t>(n), Vector(static_cast<std::size_t>(n)));
  for (Vector& row : out)
    for (Rational& r : row) r = small(random);
  return out;
}

TEST(WinogradTransforms, AreExactlyTheConvolution) {
  std::mt19937 random(7);
  for (const Transforms& t : all_transforms())
    for (int round = 0; round < 20; ++round) {
      const Matrix g = random_matrix(random, kWindow), d = random_matrix(random, t.square);
      Matrix products = on_both_sides(t.g, g);
      const Matrix v = on_both_sides(t.bt, d);
      for (std::size_t i = 0; i < v.size(); ++i)
        for (std::size_t j = 0; j < v.size(); ++j) products[i][j] = products[i][j] * v[i][j];
      Matrix direct(static_cast<std::size_t>(t.tile), Vector(static_cast<std::size_t>(t.tile)));
      for (std::size_t a = 0; a < direct.size(); ++a)
        for (std::size_t b = 0; b < direct.size(); ++b)
          for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 3; ++j) direct[a][b] = direct[a][b] + g[i][j] * d[a + i][b + j];
      EXPECT_EQ(on_both_sides(t.at, products), direct) << "tile " << t.tile;
      EXPECT_EQ(on_both_sides(t.recover, on_both_sides(t.g, g)), g) << "tile " << t.tile;
    }
}

TEST(WinogradTransforms, NumbersOfTheLoopsAreF32) {
  for (const Transforms& t : all_transforms())
    for (const Matrix* m : {&t.bt, &t.at})
      for (const Vector& row : *m)
        for (const Rational& r : row)
          EXPECT_EQ(static_cast<double>(static_cast<float>(r.value())), r.value())
              << r.numerator << '/' << r.denominator;
}

TEST(WinogradTransforms, SumsStayWithinTheAmplification) {
  // Inputs of magnitude 1 with the signs that give the greatest sums, and windows of one element: what the bound
  // without transforms has for 1.
  for (const Transforms& t : all_transforms()) {
    for (const Vector& back : t.at)
      for (std::size_t k = 0; k < 3; ++k) {
        double sum = 0;
        for (std::size_t i = 0; i < back.size(); ++i) {
          double input = 0;
          for (const Rational& r : t.bt[i]) input += std::abs(r.value());
          sum += std::abs(back[i].value() * t.g[i][k].value()) * input;
          EXPECT_LE(input * input, t.amplification());
        }
        EXPECT_LE(sum * sum, t.amplification()) << "tile " << t.tile;
      }
    EXPECT_LT(t.amplification(), 1e5) << "inputs up to 1e12 still leave room for sums";
  }
}

TEST(WinogradTransforms, FractionsAreInLowestTerms) {
  EXPECT_EQ(Rational(6, -4), Rational(-3, 2));
  EXPECT_EQ(Rational(0, -5), Rational(0));
  EXPECT_EQ(Rational(1, 6) + Rational(1, 3), Rational(1, 2));
  EXPECT_EQ(Rational(1, 2) - Rational(1, 2), Rational());
  EXPECT_EQ(Rational(2, 3) / Rational(-4, 9), Rational(-3, 2));
}

}  // namespace
}  // namespace coil::winograd
