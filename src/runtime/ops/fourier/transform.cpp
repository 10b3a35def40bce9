#include "runtime/ops/fourier/transform.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace coil::runtime::fourier {
namespace {

struct Wave {
  double re, im;
};

/// e^(-2 pi i turn / whole), with the angle in the first eighth of a circle, where it is most exact.
Wave wave(std::int64_t turn, std::int64_t whole) {
  turn %= whole;
  const std::int64_t eighth = 8 * turn / whole;
  const auto angle = [&](std::int64_t part) {  // from the nearest quarter
    const std::int64_t quarters = (part + 1) / 2;
    return 2 * std::numbers::pi * static_cast<double>(4 * turn - quarters * whole) / (4 * static_cast<double>(whole));
  };
  const double a = angle(eighth), c = std::cos(a), s = std::sin(a);
  switch ((eighth + 1) / 2 % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

/// The factors of a number up to kLargestFactor, as passes like them, and what is left.
struct Factors {
  std::vector<std::int64_t> all;
  std::int64_t rest;
};

Factors factors_of(std::int64_t n) {
  Factors found{{}, n};
  const auto take = [&](std::int64_t factor) {
    for (; found.rest % factor == 0 && found.rest > 1; found.rest /= factor) found.all.push_back(factor);
  };
  for (std::int64_t factor : {4, 2, 3, 5}) take(factor);
  for (std::int64_t factor = 7; factor <= kLargestFactor; factor += 2) take(factor);
  return found;
}

}  // namespace

template <class T>
Transform<T>::Transform(std::int64_t length, const KernelsOf<T>& kernels) : length_(length), kernels_(kernels) {
  const Factors factors = factors_of(length);
  if (factors.rest == 1)
    make_passes(factors.all);
  else
    make_convolution();
}

template <class T>
void Transform<T>::make_passes(const std::vector<std::int64_t>& factors) {
  std::int64_t left = length_, stride = 1;
  for (std::int64_t radix : factors) {
    const std::int64_t count = left / radix;
    std::vector<T>& twiddles = numbers_.emplace_back();
    twiddles.reserve(static_cast<std::size_t>(2 * count * (radix - 1)));
    for (std::int64_t p = 0; p < count; ++p)
      for (std::int64_t k = 1; k < radix; ++k) {
        const Wave w = wave(p * k, left);
        twiddles.insert(twiddles.end(), {static_cast<T>(w.re), static_cast<T>(w.im)});
      }
    const T* first = twiddles.data();
    std::vector<T>& roots = numbers_.emplace_back();
    for (std::int64_t j = 0; j < radix; ++j) {
      const Wave w = wave(j, radix);
      roots.insert(roots.end(), {static_cast<T>(w.re), static_cast<T>(w.im)});
    }
    passes_.push_back({radix, count, stride, first, roots.data()});
    left = count;
    stride *= radix;
  }
}

/// With c[j] = e^(-pi i j j / n): the transform is c[k] times the sum of (x[j] c[j]) times the conjugate of c[k - j].
template <class T>
void Transform<T>::make_convolution() {
  const auto whole = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(2 * length_ - 1)));
  convolution_ = std::make_unique<Transform>(whole, kernels_);
  // The spectrum is computed in double, in the first lane.
  const KernelsOf<double>& wide = kernels_of_this_machine().f64;
  const Transform<double> transform(whole, wide);
  std::vector<double> arrays[4];
  for (std::vector<double>& array : arrays) array.assign(static_cast<std::size_t>(whole * wide.lanes), 0.0);
  const Pair<double> x{arrays[0].data(), arrays[1].data()}, other{arrays[2].data(), arrays[3].data()};
  for (std::int64_t j = 0; j < length_; ++j) {
    const Wave w = wave(j * j % (2 * length_), 2 * length_);
    chirp_.re.push_back(static_cast<T>(w.re));
    chirp_.im.push_back(static_cast<T>(w.im));
    for (std::int64_t at : {j, (whole - j) % whole}) x.re[at * wide.lanes] = w.re, x.im[at * wide.lanes] = -w.im;
  }
  const Pair<double> made = transform.run(x, other);
  for (std::int64_t k = 0; k < whole; ++k) {
    spectrum_.re.push_back(static_cast<T>(made.re[k * wide.lanes] / static_cast<double>(whole)));
    spectrum_.im.push_back(static_cast<T>(made.im[k * wide.lanes] / static_cast<double>(whole)));
  }
}

template <class T>
Pair<T> Transform<T>::run_passes(Pair<T> x, Pair<T> other) const {
  for (const Pass<T>& p : passes_) {
    kernels_.pass(p, {x.re, x.im}, other);
    std::swap(x, other);
  }
  return x;
}

template <class T>
Pair<T> Transform<T>::run(Pair<T> x, Pair<T> other) const {
  if (!convolution_) return run_passes(x, other);
  kernels_.multiply(chirp_.view(), length_, x);
  for (T* part : {x.re, x.im}) std::fill(part + length_ * kernels_.lanes, part + room() * kernels_.lanes, T(0));
  Pair<T> made = convolution_->run(x, other);
  kernels_.multiply(spectrum_.view(), room(), made);
  made = convolution_->run_backwards(made, made.re == x.re ? other : x);
  kernels_.multiply(chirp_.view(), length_, made);
  return made;
}

template <class T>
Pair<T> Transform<T>::run_backwards(Pair<T> x, Pair<T> other) const {
  // Where real and imaginary parts change places, before and behind.
  const Pair<T> made = run({x.im, x.re}, {other.im, other.re});
  return {made.im, made.re};
}

template class Transform<float>;
template class Transform<double>;

}  // namespace coil::runtime::fourier
