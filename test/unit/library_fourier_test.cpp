// `fourier` and `fourier_to_real` against sums in double.
#include <complex>
#include <numbers>

#include "error_of.h"
#include "runtime_calls.h"

namespace coil::runtime {
namespace {

using Complex = std::complex<double>;

/// The sum over j of x[j] e^(sign 2 pi i j k / n) along a dimension, at an index of the result.
template <class X>
Complex sum_at(const X& x, Sizes at, std::size_t dim, std::int64_t n, double sign) {
  const std::int64_t k = at[dim];
  Complex sum = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    at[dim] = j;
    sum +=
        x(at) * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
  }
  return sum;
}

double tolerance_of(DType dtype, std::int64_t n) {
  return (dtype == DType::F32 ? 4e-7 : 1e-15) * static_cast<double>(n + 4);
}

/// Transforms operands of some layouts along a dimension and compares both parts.
void expect_transform(const std::vector<BoundView>& views, std::size_t dim, std::int64_t points, bool backwards) {
  Operands in;
  for (const BoundView& v : views) in.add(v);
  const std::int64_t n = views[0].sizes[dim];
  BoundView out = dense_view(views[0].dtype, views[0].sizes);
  out.sizes[dim] = points;
  out = dense_view(out.dtype, out.sizes);
  const Attributes attributes{{"dim", static_cast<std::int64_t>(dim)}, {"backwards", std::int64_t{backwards}}};
  const std::vector<Tensor> made = run_call("fourier", attributes, in, {out, out});
  const auto x = [&](const Sizes& at) { return Complex(in.value(0, at), views.size() > 1 ? in.value(1, at) : 0); };
  std::vector<double> re, im;
  for_each_index(out.sizes, [&](const Sizes& at) {
    const Complex sum = sum_at(x, at, dim, n, backwards ? 1 : -1);
    re.push_back(sum.real());
    im.push_back(sum.imag());
  });
  expect_near(numbers(out, made[0].bytes()), re, tolerance_of(out.dtype, n));
  expect_near(numbers(out, made[1].bytes()), im, tolerance_of(out.dtype, n));
}

TEST(Fourier, LengthsWithAllKindsOfFactors) {
  for (DType dtype : {DType::F32, DType::F64})
    for (std::int64_t n : {1, 2, 3, 4, 5, 7, 12, 31, 37, 60, 64, 97, 143}) {
      SCOPED_TRACE(n);
      const BoundView x = dense_view(dtype, {5, n});
      expect_transform({x, x}, 1, n, false);
      expect_transform({x, x}, 1, n, true);
    }
}

TEST(Fourier, RealNumbersGiveAHalfOrAWhole) {
  for (DType dtype : {DType::F32, DType::F64})
    for (std::int64_t rows : {1, 2, 19, 40})
      for (std::int64_t n : {1, 2, 9, 16, 37}) {
        SCOPED_TRACE(fmt::format("{} x {}", rows, n));
        const BoundView x = dense_view(dtype, {rows, n});
        expect_transform({x}, 1, n / 2 + 1, false);
        expect_transform({x}, 1, n, false);
        expect_transform({x}, 1, n, true);
      }
}

TEST(Fourier, AnyDimensionAndAnyStrides) {
  const BoundView turned{DType::F32, {3, 20, 6}, {200, 1, 25}};
  const BoundView repeated{DType::F32, {3, 20, 6}, {0, 2, 40}};
  for (std::size_t dim : {0U, 1U, 2U}) {
    SCOPED_TRACE(dim);
    expect_transform({turned, repeated}, dim, turned.sizes[dim], false);
    expect_transform({turned}, dim, turned.sizes[dim] / 2 + 1, false);
  }
  const BoundView columns = dense_view(DType::F64, {24, 33});
  expect_transform({columns, columns}, 0, 24, true);
}

TEST(Fourier, ManySequencesOnSeveralThreads) {
  const BoundView x = dense_view(DType::F32, {300, 48});
  expect_transform({x}, 1, 25, false);
  expect_transform({x, x}, 1, 48, false);
}

TEST(Fourier, HalfOfATransformGivesRealNumbers) {
  for (DType dtype : {DType::F32, DType::F64})
    for (std::int64_t n : {1, 2, 7, 16, 37})
      for (bool both : {true, false}) {
        SCOPED_TRACE(n);
        const BoundView half = dense_view(dtype, {21, n / 2 + 1}), out = dense_view(dtype, {21, n});
        Operands in;
        in.add(half);
        if (both) in.add(half);
        std::vector<double> expected;
        const auto x = [&](const Sizes& at) {  // of the first and the middle point the real part alone counts
          const bool mirrored = at[1] > n / 2;
          const Sizes there{at[0], mirrored ? n - at[1] : at[1]};
          const bool is_real = there[1] == 0 || 2 * there[1] == n;
          const double im = both && !is_real ? in.value(1, there) : 0;
          return Complex(in.value(0, there), mirrored ? -im : im);
        };
        for_each_index(out.sizes, [&](const Sizes& at) { expected.push_back(sum_at(x, at, 1, n, 1).real()); });
        expect_near(run("fourier_to_real", {{"dim", std::int64_t{1}}}, in, out), expected, tolerance_of(dtype, n));
      }
}

TEST(Fourier, SizesThatDoNotFitAreErrors) {
  const auto error = [](const char* op, const Sizes& from, const Sizes& to, std::size_t results, std::int64_t dim) {
    auto call = make_library_op(op, {{"dim", dim}});
    const std::vector<BoundView> in{dense_view(DType::F32, from)}, out(results, dense_view(DType::F32, to));
    return error_of([&] { call->prepare(in, out); });
  };
  EXPECT_NE(error("fourier", {2, 8}, {2, 6}, 2, 1).find("do not fit"), std::string::npos);
  EXPECT_NE(error("fourier", {2, 8}, {3, 8}, 2, 1).find("other sizes"), std::string::npos);
  EXPECT_NE(error("fourier", {2, 8}, {2, 8}, 2, 2).find("no dimension 2"), std::string::npos);
  EXPECT_NE(error("fourier", {2, 0}, {2, 0}, 2, 1).find("nothing to be transformed"), std::string::npos);
  EXPECT_NE(error("fourier_to_real", {2, 4}, {2, 8}, 1, 1).find("do not fit"), std::string::npos);
}

}  // namespace
}  // namespace coil::runtime
