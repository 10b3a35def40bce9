// The Fourier transform of a length, for as many sequences at once as a vector has lanes (kernels.h).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/ops/fourier/kernels.h"

namespace coil::runtime::fourier {

template <class T>
class Transform {
 public:
  /// A transform of any length, at least 1. A length with a prime factor above kLargestFactor goes by way of a
  /// convolution, whose length is a power of two (Bluestein 1970).
  Transform(std::int64_t length, const KernelsOf<T>&);

  std::int64_t length() const { return length_; }
  /// Points that the arrays of `run` have room for.
  std::int64_t room() const { return convolution_ ? convolution_->room() : length_; }
  /// e^(-2 pi i j k / length), summed over the points of `x`. Either array holds the result; the other is overwritten.
  Pair<T> run(Pair<T> x, Pair<T> other) const;
  /// The same sum with e^(2 pi i j k / length).
  Pair<T> run_backwards(Pair<T> x, Pair<T> other) const;

 private:
  /// A number for each point.
  struct Table {
    std::vector<T> re, im;
    Pair<const T> view() const { return {re.data(), im.data()}; }
  };

  void make_passes(const std::vector<std::int64_t>& factors);
  void make_convolution();
  Pair<T> run_passes(Pair<T> x, Pair<T> other) const;

  std::int64_t length_;
  const KernelsOf<T>& kernels_;
  std::vector<Pass<T>> passes_;
  std::vector<std::vector<T>> numbers_;  ///< of the passes
  std::unique_ptr<Transform> convolution_;
  Table chirp_, spectrum_;
};

extern template class Transform<float>;
extern template class Transform<double>;

}  // namespace coil::runtime::fourier
