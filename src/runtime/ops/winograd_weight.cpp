#include "runtime/ops/winograd_weight.h"

#include <array>
#include <vector>

#include "runtime/device/threads.h"

namespace coil::runtime {

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
  std::vector<std::array<double, winograd::kWindow>> g;
  for (const auto& row : t.g) g.push_back({row[0].value(), row[1].value(), row[2].value()});
  parallel_ranges(channels, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::array<double, winograd::kWindow>> half(n);  // G g
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t o = 0; o < results; ++o) {
        const float* window = dense.data<float>() + (o * channels + c) * winograd::kWindow * winograd::kWindow;
        float* to = made.data<float>() + c * step + o;
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < winograd::kWindow; ++j)
            half[i][j] = g[i][0] * double{window[j]} + g[i][1] * double{window[winograd::kWindow + j]} +
                         g[i][2] * double{window[2 * winograd::kWindow + j]};
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j, to += channels * step)
            *to = static_cast<float>(half[i][0] * g[j][0] + half[i][1] * g[j][1] + half[i][2] * g[j][2]);
      }
  });
  return made;
}

}  // namespace coil::runtime
