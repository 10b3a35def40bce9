#include "runtime/ops/winograd_weight.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/device/threads.h"

namespace coil::runtime {
namespace {

// Results whose windows are transformed together, so that the arithmetic is that of vectors and each line of the
// result is written whole.
constexpr std::int64_t kBlock = 16;
constexpr std::int64_t kElements = winograd::kWindow * winograd::kWindow;

using Block = std::array<double, kBlock>;
using Window = std::array<Block, kElements>;
using Rows = std::vector<std::array<double, winograd::kWindow>>;

/// Windows that lie `apart`, element by element.
Window gather(const float* windows, std::int64_t apart, std::int64_t count) {
  Window out{};
  for (std::int64_t b = 0; b < count; ++b)
    for (std::int64_t k = 0; k < kElements; ++k)
      out[static_cast<std::size_t>(k)][static_cast<std::size_t>(b)] = windows[b * apart + k];
  return out;
}

/// `to` = a row's products with three blocks, added up.
void combine(const std::array<double, winograd::kWindow>& row, const Block& x, const Block& y, const Block& z,
             Block& to) {
  for (std::size_t b = 0; b < to.size(); ++b) to[b] = row[0] * x[b] + row[1] * y[b] + row[2] * z[b];
}

/// G g G^T of each window. `half`: room for G g. Terms of the result lie `apart`.
void transform(const Window& window, const Rows& g, std::vector<Block>& half, float* to, std::int64_t apart,
               std::int64_t count) {
  constexpr std::size_t w = winograd::kWindow;
  for (std::size_t i = 0; i < g.size(); ++i)
    for (std::size_t j = 0; j < w; ++j) combine(g[i], window[j], window[w + j], window[2 * w + j], half[i * w + j]);
  for (std::size_t i = 0; i < g.size(); ++i)
    for (std::size_t j = 0; j < g.size(); ++j, to += apart) {
      Block whole;
      combine(g[j], half[i * w], half[i * w + 1], half[i * w + 2], whole);
      for (std::int64_t b = 0; b < count; ++b) to[b] = static_cast<float>(whole[static_cast<std::size_t>(b)]);
    }
}

}  // namespace

Tensor transformed_weight(const Tensor& weight, const winograd::Transforms& t) {
  const Tensor dense = weight.contiguous();
  const std::int64_t results = dense.sizes[0], channels = dense.sizes[1];
  constexpr std::int64_t line = 64 / sizeof(float);
  const std::int64_t step = ((results + line - 1) / line | 1) * line;
  const auto n = static_cast<std::size_t>(t.square);
  Tensor made{Storage::allocate(static_cast<std::size_t>(t.terms() * channels * step) * sizeof(float)),
              DType::F32,
              {t.terms(), channels, results},
              {channels * step, step, 1},
              0};
  Rows g;
  for (const auto& row : t.g) g.push_back({row[0].value(), row[1].value(), row[2].value()});
  parallel_ranges(channels, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Block> half(n * winograd::kWindow);
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t o = 0; o < results; o += kBlock) {
        const std::int64_t count = std::min(kBlock, results - o);
        const Window window = gather(dense.data<float>() + (o * channels + c) * kElements, channels * kElements, count);
        transform(window, g, half, made.data<float>() + c * step + o, channels * step, count);
      }
  });
  return made;
}

}  // namespace coil::runtime
