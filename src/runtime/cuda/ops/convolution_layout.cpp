#include "runtime/cuda/ops/convolution_layout.h"

#include <algorithm>

#include "runtime/cuda/ops/staging.h"
#include "runtime/device/convert.h"
#include "runtime/views/view_layout.h"

namespace coil::runtime::cuda {

BoundView widened(BoundView v) {
  if (v.sizes.size() != 3) return v;
  v.sizes.insert(v.sizes.begin() + 2, 1);
  v.strides.insert(v.strides.begin() + 2, v.sizes[3] * v.strides[2]);
  return v;
}

Sizes widened(Sizes s, std::int64_t first) {
  if (s.size() == 1) s.insert(s.begin(), first);
  return s;
}

BoundView shown_as(const BoundView& v, bool last) {
  return last ? channels_last(v.dtype, v.sizes) : dense_view(v.dtype, v.sizes);
}

std::size_t copied_bytes(std::span<const BoundView* const> views, bool last) {
  std::size_t bytes = 0;
  for (const BoundView* v : views)
    if (const BoundView shown = shown_as(*v, last); !lies_so(*v, shown)) bytes += dense_bytes(shown);
  return bytes;
}

bool lie_channels_last(std::span<const BoundView* const> views) {
  auto same_in_both = [](const BoundView* v) { return lies_so(shown_as(*v, true), shown_as(*v, false)); };
  return std::ranges::all_of(views, same_in_both) || copied_bytes(views, true) < copied_bytes(views, false);
}

}  // namespace coil::runtime::cuda
