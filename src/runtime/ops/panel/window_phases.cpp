#include "runtime/ops/panel/window_phases.h"

#include <algorithm>

namespace coil::runtime::panels {
namespace {

std::vector<PhaseAxis> axes_of(const ConvolutionProblem& p, std::size_t d) {
  const std::int64_t out = p.y.sizes[d + 2], stride = p.stride[d];
  std::vector<PhaseAxis> all;
  for (std::int64_t start = 0; start < (p.transposed ? stride : 1); ++start) {
    PhaseAxis axis{.start = start, .step = 1, .count = out, .from_step = stride, .taps = {}};
    if (p.transposed) {
      axis.step = stride, axis.from_step = 1;
      axis.count = out > start ? (out - start + stride - 1) / stride : 0;
    }
    for (std::int64_t k = 0; k < p.kernel(d); ++k) {
      const std::int64_t reach = k * p.dilation[d], from = start + p.padding[d] - reach;
      if (!p.transposed)
        axis.taps.push_back({k, reach - p.padding[d]});
      else if (from % stride == 0)
        axis.taps.push_back({k, from / stride});
    }
    std::ranges::sort(axis.taps, {}, &Tap::offset);
    all.push_back(std::move(axis));
  }
  return all;
}

}  // namespace

Places spatial_sizes(const BoundView& v) {
  Places sizes = {1, 1, 1};
  std::copy(v.sizes.begin() + 2, v.sizes.end(), sizes.end() - static_cast<std::ptrdiff_t>(v.sizes.size() - 2));
  return sizes;
}

bool is_f32(const ConvolutionProblem& p) {
  const auto is = [](const BoundView& v) { return v.dtype == DType::F32; };
  return is(p.x) && is(p.y) && is(p.weight) && (!p.bias || is(*p.bias)) && std::ranges::all_of(p.operands, is);
}

bool is_of_channels(const BoundView& v) {
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (d != 1 && v.strides[d] != 0 && v.sizes[d] != 1) return false;
  return true;
}

std::vector<Phase> phases_of(const ConvolutionProblem& p) {
  std::vector<Phase> all(1);
  for (std::size_t d = 0; d < p.spatial(); ++d) {
    std::vector<Phase> longer;
    for (const Phase& phase : all)
      for (PhaseAxis& axis : axes_of(p, d)) {
        longer.push_back(phase);
        longer.back().axes[kDims - p.spatial() + d] = std::move(axis);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace coil::runtime::panels
