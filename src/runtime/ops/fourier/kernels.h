// Fourier transforms of several sequences side by side: element k of all of them is one vector. This header and the
// files that are compiled for one kind of machine include nothing with inline functions.
//
// Arrays of vectors have the real parts and the imaginary parts apart. A transform is a chain of passes, one for each
// factor of its length, from one pair of arrays to another (Stockham's order: what comes out needs no sorting).
#pragma once
#include <cstdint>

namespace coil::runtime::fourier {

inline constexpr std::int64_t kMostLanes = 16;
/// The largest factor that a pass has; a length with a larger prime factor is transformed by way of a longer one.
inline constexpr std::int64_t kLargestFactor = 31;

/// Takes sequences of `radix` * `count` points, of which there are `stride` interleaved, apart into `radix` times as
/// many.
template <class T>
struct Pass {
  std::int64_t radix, count, stride;
  const T* twiddles;  ///< for p below `count` and k from 1 to radix - 1: e^(-2 pi i p k / (radix count))
  const T* roots;     ///< e^(-2 pi i j / radix), where the radix has no code of its own
};

/// Where sequences lie in memory: up to as many as a vector has lanes; lanes behind the last are zeros.
struct Places {
  const std::int64_t* starts;
  std::int64_t count, step;
};

template <class T>
struct Pair {
  T *re, *im;
};

template <class T>
struct KernelsOf {
  std::int64_t lanes;
  void (*pass)(const Pass<T>&, Pair<const T> from, Pair<T> to);
  void (*gather)(const T* from, const Places&, std::int64_t points, T* to);
  void (*scatter)(const T* from, std::int64_t points, T* to, const Places&);
  /// Each point of all sequences times a number of `table`, in place.
  void (*multiply)(Pair<const T> table, std::int64_t points, Pair<T> x);
  /// From the transform of sequences a + i b, writes the first `points` points of the transform of a, or of b where
  /// `second`.
  void (*take_apart)(Pair<const T> both, std::int64_t length, bool second, std::int64_t points, Pair<T> one);
  /// Undoes `take_apart`: the first half of a Hermitian sequence of `length` points, times i where `second`, is written
  /// to `both` as a whole one, or added to it where `second`.
  void (*put_together)(Pair<const T> half, std::int64_t length, bool second, Pair<T> both);
};

struct Kernels {
  KernelsOf<float> f32;
  KernelsOf<double> f64;
  const KernelsOf<float>& of(float) const { return f32; }
  const KernelsOf<double>& of(double) const { return f64; }
};

extern const Kernels kAvx2, kAvx512;  ///< on x86-64 alone
const Kernels& kernels_of_this_machine();

}  // namespace coil::runtime::fourier
