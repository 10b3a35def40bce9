// The loops of kernels.h for vectors of COIL_FOURIER_BYTES: included by a file for each kind of machine, and seen by
// that file alone, since the linker keeps one copy of what files share, which other machines might not run.
#pragma once
#include <cstdint>

#include "runtime/ops/fourier/kernels.h"

namespace coil::runtime::fourier {
namespace {

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(COIL_FOURIER_BYTES)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
constexpr int kLanes = COIL_FOURIER_BYTES / sizeof(T);

template <class T>
Vector<T> load(const T* from) {
  Vector<T> x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}
template <class T>
void store(T* to, Vector<T> x) {
  __builtin_memcpy(to, &x, sizeof x);
}

/// A vector of complex numbers.
template <class T>
struct Complex {
  Vector<T> re, im;
  Complex operator+(const Complex& b) const { return {re + b.re, im + b.im}; }
  Complex operator-(const Complex& b) const { return {re - b.re, im - b.im}; }
  Complex operator*(T by) const { return {re * by, im * by}; }
  Complex times(T c, T s) const { return {re * c - im * s, re * s + im * c}; }
  Complex over_i() const { return {im, -re}; }
};

template <class T>
Complex<T> load(Pair<const T> from, std::int64_t point) {
  return {load(from.re + point * kLanes<T>), load(from.im + point * kLanes<T>)};
}
template <class T>
void store(Pair<T> to, std::int64_t point, const Complex<T>& x) {
  store(to.re + point * kLanes<T>, x.re);
  store(to.im + point * kLanes<T>, x.im);
}

// Transforms of 2, 3, 4 and 5 points, in place.

template <class T>
void transform(Complex<T> (&x)[2]) {
  const Complex<T> a = x[0];
  x[0] = a + x[1];
  x[1] = a - x[1];
}

template <class T>
void transform(Complex<T> (&x)[3]) {
  constexpr T kSin = T(0.86602540378443864676);  // of 60 degrees
  const Complex<T> sum = x[1] + x[2], across = (x[1] - x[2]).over_i() * kSin, middle = x[0] - sum * T(0.5);
  x[0] = x[0] + sum;
  x[1] = middle + across;
  x[2] = middle - across;
}

template <class T>
void transform(Complex<T> (&x)[4]) {
  const Complex<T> even = x[0] + x[2], odd = x[1] + x[3], a = x[0] - x[2], b = (x[1] - x[3]).over_i();
  x[0] = even + odd;
  x[1] = a + b;
  x[2] = even - odd;
  x[3] = a - b;
}

template <class T>
void transform(Complex<T> (&x)[5]) {
  constexpr T kCos1 = T(0.30901699437494742410), kCos2 = T(-0.80901699437494742410);  // of 72 and 144 degrees
  constexpr T kSin1 = T(0.95105651629515357212), kSin2 = T(0.58778525229247312917);
  const Complex<T> a = x[1] + x[4], b = x[2] + x[3];
  const Complex<T> c = (x[1] - x[4]).over_i(), d = (x[2] - x[3]).over_i();
  const Complex<T> first = x[0] + a * kCos1 + b * kCos2, second = x[0] + a * kCos2 + b * kCos1;
  const Complex<T> across = c * kSin1 + d * kSin2, other = c * kSin2 - d * kSin1;
  x[0] = x[0] + a + b;
  x[1] = first + across;
  x[2] = second + other;
  x[3] = second - other;
  x[4] = first - across;
}

/// The points that differ by a multiple of `count` * `stride`, for one p: without twiddles, which are ones, where p is
/// 0.
template <class T, int kRadix>
void step(const Pass<T>& pass, std::int64_t p, Pair<const T> from, Pair<T> to) {
  const T* w = pass.twiddles + p * (kRadix - 1) * 2;
  for (std::int64_t q = 0; q < pass.stride; ++q) {
    Complex<T> x[kRadix];
    for (int j = 0; j < kRadix; ++j) x[j] = load(from, q + pass.stride * (p + pass.count * j));
    transform(x);
    const std::int64_t at = q + pass.stride * kRadix * p;
    store(to, at, x[0]);
    for (int k = 1; k < kRadix; ++k)
      store(to, at + pass.stride * k, p == 0 ? x[k] : x[k].times(w[2 * k - 2], w[2 * k - 1]));
  }
}

template <class T, int kRadix>
void pass_of(const Pass<T>& pass, Pair<const T> from, Pair<T> to) {
  for (std::int64_t p = 0; p < pass.count; ++p) step<T, kRadix>(pass, p, from, to);
}

/// Any radix up to kLargestFactor.
template <class T>
void any_pass(const Pass<T>& pass, Pair<const T> from, Pair<T> to) {
  for (std::int64_t p = 0; p < pass.count; ++p) {
    const T* w = pass.twiddles + p * (pass.radix - 1) * 2;
    for (std::int64_t q = 0; q < pass.stride; ++q) {
      Complex<T> x[kLargestFactor];
      for (std::int64_t j = 0; j < pass.radix; ++j) x[j] = load(from, q + pass.stride * (p + pass.count * j));
      for (std::int64_t k = 0; k < pass.radix; ++k) {
        Complex<T> sum = x[0];
        for (std::int64_t j = 1, turn = k; j < pass.radix; ++j, turn += k) {
          if (turn >= pass.radix) turn -= pass.radix;
          sum = sum + x[j].times(pass.roots[2 * turn], pass.roots[2 * turn + 1]);
        }
        store(to, q + pass.stride * (pass.radix * p + k),
              k == 0 || p == 0 ? sum : sum.times(w[2 * k - 2], w[2 * k - 1]));
      }
    }
  }
}

template <class T>
void pass(const Pass<T>& p, Pair<const T> from, Pair<T> to) {
  switch (p.radix) {
    case 2: return pass_of<T, 2>(p, from, to);
    case 3: return pass_of<T, 3>(p, from, to);
    case 4: return pass_of<T, 4>(p, from, to);
    case 5: return pass_of<T, 5>(p, from, to);
    default: return any_pass(p, from, to);
  }
}

// Sequences into lanes, and back.

template <int... kAt>
struct Indices {};
template <class>
struct IndicesUpTo;
template <int... kAt>
struct IndicesUpTo<Indices<kAt...>> {
  using Doubled = Indices<kAt..., static_cast<int>(sizeof...(kAt)) + kAt...>;
};
template <int kCount>
struct UpTo {
  using Type = typename IndicesUpTo<typename UpTo<kCount / 2>::Type>::Doubled;
};
template <>
struct UpTo<1> {
  using Type = Indices<0>;
};

/// Exchanges the blocks of `kDistance` elements beside the diagonal of a pair of rows that far apart.
template <class T, int kDistance, int... kAt>
void exchange(Vector<T>& a, Vector<T>& b, Indices<kAt...>) {
  constexpr int n = kLanes<T>;
  const Vector<T> upper = __builtin_shufflevector(a, b, ((kAt & kDistance) ? n + kAt - kDistance : kAt)...);
  b = __builtin_shufflevector(a, b, ((kAt & kDistance) ? n + kAt : kAt + kDistance)...);
  a = upper;
}

/// Transposes as many vectors as each has lanes; inlined, so that they stay in registers.
template <class T, int kDistance = kLanes<T> / 2>
[[gnu::always_inline]] inline void transpose(Vector<T> (&x)[kLanes<T>]) {
  if constexpr (kDistance > 0) {
    for (int i = 0; i < kLanes<T>; ++i)
      if (!(i & kDistance)) exchange<T, kDistance>(x[i], x[i + kDistance], typename UpTo<kLanes<T>>::Type{});
    transpose<T, kDistance / 2>(x);
  }
}

bool are_neighbours(const Places& places) {
  for (std::int64_t i = 1; i < places.count; ++i)
    if (places.starts[i] != places.starts[0] + i) return false;
  return true;
}

template <class T>
void gather_points(const T* from, const Places& places, std::int64_t begin, std::int64_t end, T* to) {
  for (std::int64_t k = begin; k < end; ++k) {
    store(to + k * kLanes<T>, Vector<T>{});
    for (std::int64_t i = 0; i < places.count; ++i) to[k * kLanes<T> + i] = from[places.starts[i] + k * places.step];
  }
}

template <class T>
void gather(const T* from, const Places& places, std::int64_t points, T* to) {
  std::int64_t k = 0;
  if (places.step == 1) {
    for (; k + kLanes<T> <= points; k += kLanes<T>) {
      Vector<T> x[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) x[i] = i < places.count ? load(from + places.starts[i] + k) : Vector<T>{};
      transpose<T>(x);
      for (int i = 0; i < kLanes<T>; ++i) store(to + (k + i) * kLanes<T>, x[i]);
    }
  } else if (places.count == kLanes<T> && are_neighbours(places)) {
    for (; k < points; ++k) store(to + k * kLanes<T>, load(from + places.starts[0] + k * places.step));
  }
  gather_points(from, places, k, points, to);
}

template <class T>
void scatter(const T* from, std::int64_t points, T* to, const Places& places) {
  std::int64_t k = 0;
  if (places.step == 1) {
    for (; k + kLanes<T> <= points; k += kLanes<T>) {
      Vector<T> x[kLanes<T>];
      for (int i = 0; i < kLanes<T>; ++i) x[i] = load(from + (k + i) * kLanes<T>);
      transpose<T>(x);
      for (int i = 0; i < kLanes<T>; ++i)
        if (i < places.count) store(to + places.starts[i] + k, x[i]);
    }
  } else if (places.count == kLanes<T> && are_neighbours(places)) {
    for (; k < points; ++k) store(to + places.starts[0] + k * places.step, load(from + k * kLanes<T>));
  }
  for (; k < points; ++k)
    for (std::int64_t i = 0; i < places.count; ++i) to[places.starts[i] + k * places.step] = from[k * kLanes<T> + i];
}

template <class T>
void multiply(Pair<const T> table, std::int64_t points, Pair<T> x) {
  for (std::int64_t k = 0; k < points; ++k)
    store(x, k, load(Pair<const T>{x.re, x.im}, k).times(table.re[k], table.im[k]));
}

template <class T>
void take_apart(Pair<const T> both, std::int64_t length, bool second, std::int64_t points, Pair<T> one) {
  for (std::int64_t k = 0; k < points; ++k) {
    const Complex<T> z = load(both, k), mirrored = load(both, k == 0 ? 0 : length - k);
    const Complex<T> sum = z + mirrored, difference = z - mirrored;
    store(one, k, second ? Complex<T>{sum.im, -difference.re} * T(0.5) : Complex<T>{sum.re, difference.im} * T(0.5));
  }
}

template <class T>
void put_together(Pair<const T> half, std::int64_t length, bool second, Pair<T> both) {
  const Pair<const T> before{both.re, both.im};
  for (std::int64_t k = 0; k <= length / 2; ++k) {
    Complex<T> z = load(half, k);
    if (k == 0 || 2 * k == length) z.im = Vector<T>{};
    const Complex<T> mirrored{z.re, -z.im};
    const auto put = [&](std::int64_t at, const Complex<T>& x) {
      store(both, at, second ? load(before, at) + Complex<T>{-x.im, x.re} : x);
    };
    put(k, z);
    if (k != 0 && 2 * k != length) put(length - k, mirrored);
  }
}

template <class T>
constexpr KernelsOf<T> kernels() {
  return {kLanes<T>, pass<T>, gather<T>, scatter<T>, multiply<T>, take_apart<T>, put_together<T>};
}

constexpr Kernels kKernels{kernels<float>(), kernels<double>()};

}  // namespace
}  // namespace coil::runtime::fourier
