#include "runtime/ops/winograd_weight.h"

#include <algorithm>
#include <atomic>

#include "runtime/device/threads.h"

namespace coil::runtime {
namespace {

/// In f64, some neighbouring results at a time.
class WeightTransform {
 public:
  WeightTransform(const float* weight, const Sizes& strides, std::int64_t channels, std::int64_t results,
                  std::int64_t width, const winograd::Transforms& t)
      : weight_(weight),
        strides_(strides),
        channels_(channels),
        results_(results),
        width_(width),
        panels_((results + width - 1) / width),
        square_(static_cast<std::size_t>(t.square)) {
    for (std::size_t i = 0; i < square_; ++i)
      for (std::size_t k = 0; k < kWindow; ++k) g_[i][k] = t.g[i][k].value();
  }

  /// Whether the weight is finite.
  bool write(float* to) const {
    std::atomic<bool> finite = true;
    parallel_ranges(panels_ * channels_, 16, [&](std::int64_t begin, std::int64_t end) {
      bool all = true;
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t lane = 0; lane < width_; lane += kLanes)
          all &= transform(row / channels_ * width_ + lane, row % channels_, to + row * width_ + lane);
      if (!all) finite = false;
    });
    return finite;
  }

 private:
  static constexpr std::int64_t kWindow = winograd::kWindow, kLanes = 16, kMostSquare = 6;
  using Lanes = double[kLanes];

  /// The results from `first` on; their first term goes to `to`.
  bool transform(std::int64_t first, std::int64_t channel, float* to) const {
    Lanes window[kWindow * kWindow] = {}, half[kMostSquare][kWindow];
    const bool finite = load(first, channel, window);
    for (std::size_t i = 0; i < square_; ++i)
      for (std::size_t j = 0; j < kWindow; ++j)
        for (std::size_t l = 0; l < kLanes; ++l)
          half[i][j][l] =
              g_[i][0] * window[j][l] + g_[i][1] * window[kWindow + j][l] + g_[i][2] * window[2 * kWindow + j][l];
    const std::int64_t term_floats = panels_ * channels_ * width_;
    for (std::size_t i = 0; i < square_; ++i)
      for (std::size_t j = 0; j < square_; ++j, to += term_floats)
        for (std::size_t l = 0; l < kLanes; ++l)
          to[l] = static_cast<float>(half[i][0][l] * g_[j][0] + half[i][1][l] * g_[j][1] + half[i][2][l] * g_[j][2]);
    return finite;
  }

  bool load(std::int64_t first, std::int64_t channel, Lanes* window) const {
    const std::int64_t lanes = std::clamp<std::int64_t>(results_ - first, 0, kLanes);
    double zeros = 0;
    for (std::int64_t l = 0; l < lanes; ++l) {
      const float* from = weight_ + (first + l) * strides_[0] + channel * strides_[1];
      for (std::int64_t i = 0; i < kWindow; ++i)
        for (std::int64_t j = 0; j < kWindow; ++j) {
          const double value = from[i * strides_[2] + j * strides_[3]];
          window[i * kWindow + j][l] = value;
          zeros += value * 0;
        }
    }
    return zeros == 0;
  }

  const float* weight_;
  const Sizes& strides_;
  const std::int64_t channels_, results_, width_, panels_;
  const std::size_t square_;
  double g_[kMostSquare][kWindow] = {};
};

}  // namespace

bool transform_weight(float* to, const float* weight, const Sizes& strides, std::int64_t channels, std::int64_t results,
                      std::int64_t width, const winograd::Transforms& t) {
  return WeightTransform(weight, strides, channels, results, width, t).write(to);
}

Tensor transformed_weight(const Tensor& weight, const winograd::Transforms& t) {
  const std::int64_t results = weight.sizes[0], channels = weight.sizes[1];
  constexpr std::int64_t line = 64 / sizeof(float);
  const std::int64_t step = ((results + line - 1) / line | 1) * line;
  Tensor made{Storage::allocate(static_cast<std::size_t>(t.terms() * channels * step) * sizeof(float)),
              DType::F32,
              {t.terms(), channels, results},
              {channels * step, step, 1},
              0};
  transform_weight(made.data<float>(), weight.data<float>(), weight.strides, channels, results, step, t);
  return made;
}

}  // namespace coil::runtime
