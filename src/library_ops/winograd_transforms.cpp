#include "library_ops/winograd_transforms.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"

namespace coil::winograd {
namespace {

struct Row {
  std::int64_t tile;
  std::vector<Rational> pairs;  ///< p for the points p and -p, beside 0 and infinity
};

// Points are whole numbers of eighths, so that all numbers in Bt and At are f32. For F(4x4) those near 1 whose squares
// lie apart round least: of 64 to 512 channels, 3/4 and 3/2 give 1.1 to 2.3 times the error of a direct sum in f32
// (norm against f64), where the usual 1 and 2 give 2.3 to 4.7 times.
const std::vector<Row>& rows() {
  static const std::vector<Row> table{{2, {1}}, {4, {{3, 4}, {3, 2}}}};
  return table;
}

/// Coefficients of the product of x - p over all points but `skipped`, lowest first.
std::vector<Rational> polynomial(const std::vector<Rational>& points, std::size_t skipped) {
  std::vector<Rational> out{1};
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == skipped) continue;
    out.insert(out.begin(), 0);
    for (std::size_t k = 0; k + 1 < out.size(); ++k) out[k] = out[k] - points[i] * out[k + 1];
  }
  return out;
}

Transforms make(const Row& row) {
  std::vector<Rational> points{0};
  for (const Rational& p : row.pairs) points.insert(points.end(), {p, Rational{} - p});
  const auto n = points.size() + 1;
  Transforms t{row.tile,
               row.tile + kWindow - 1,
               {},
               {},
               Matrix(static_cast<std::size_t>(row.tile), std::vector<Rational>(n)),
               Matrix(kWindow, std::vector<Rational>(n))};
  COIL_CHECK(static_cast<std::int64_t>(n) == t.square);
  std::vector<Rational> scales;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Rational scale = 1, power = 1;
    for (std::size_t j = 0; j < points.size(); ++j)
      if (j != i) scale = scale * (points[i] - points[j]);
    t.bt.push_back(polynomial(points, i));
    t.bt.back().resize(n);
    t.g.emplace_back();
    for (std::int64_t k = 0; k < kWindow; ++k, power = power * points[i]) t.g.back().push_back(power / scale);
    power = 1;
    for (auto& results : t.at) results[i] = power, power = power * points[i];
    scales.push_back(scale);
  }
  t.bt.push_back(polynomial(points, n));
  t.g.push_back({0, 0, 1});
  t.at.back().back() = 1;
  // The window's ends are the terms at 0 and at infinity; between p and -p only the middle changes its sign.
  t.recover[0][0] = scales[0];
  t.recover[1][1] = scales[1] / (points[1] + points[1]);
  t.recover[1][2] = Rational{} - scales[2] / (points[1] + points[1]);
  t.recover[2][n - 1] = 1;
  return t;
}

}  // namespace

Rational operator+(Rational a, Rational b) {
  return {a.numerator * b.denominator + b.numerator * a.denominator, a.denominator * b.denominator};
}
Rational operator-(Rational a, Rational b) {
  return {a.numerator * b.denominator - b.numerator * a.denominator, a.denominator * b.denominator};
}
Rational operator*(Rational a, Rational b) { return {a.numerator * b.numerator, a.denominator * b.denominator}; }
Rational operator/(Rational a, Rational b) { return {a.numerator * b.denominator, a.denominator * b.numerator}; }

double Transforms::amplification() const {
  double all = 0;
  for (std::size_t i = 0; i < bt.size(); ++i) {
    double input = 0, window = 1, back = 1;
    for (const Rational& r : bt[i]) input += std::fabs(r.value());
    for (const Rational& r : g[i]) window = std::max(window, std::fabs(r.value()));
    for (const auto& row : at) back = std::max(back, std::fabs(row[i].value()));
    all += input * window * back;
  }
  return all * all;
}

const std::vector<Transforms>& all_transforms() {
  static const std::vector<Transforms> made = [] {
    std::vector<Transforms> out;
    for (const Row& row : rows()) out.push_back(make(row));
    return out;
  }();
  return made;
}

const Transforms& transforms(std::int64_t tile) {
  for (const Transforms& t : all_transforms())
    if (t.tile == tile) return t;
  fail("there is no Winograd transform of tile {}", tile);
}

}  // namespace coil::winograd
