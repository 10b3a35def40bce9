#include "runtime/cuda/convolution_layout.h"

#include "runtime/strided_copy.h"
#include "runtime/view_layout.h"

namespace coil::runtime::cuda {

BoundView widened(BoundView v) {
  if (v.sizes.size() != 3) return v;
  v.sizes.insert(v.sizes.begin() + 2, 1);
  v.strides.insert(v.strides.begin() + 2, v.sizes[3] * v.strides[3]);
  return v;
}

Sizes widened(Sizes s, std::int64_t first) {
  if (s.size() == 1) s.insert(s.begin(), first);
  return s;
}

bool is_channels_last(const BoundView& v) { return same_layout(v.sizes, v.strides, channels_last(v.dtype, v.sizes).strides) && !same_layout(v.sizes, v.strides, contiguous_strides(v.sizes)); }

}  // namespace coil::runtime::cuda
