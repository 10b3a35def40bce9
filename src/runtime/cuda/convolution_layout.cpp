#include "runtime/cuda/convolution_layout.h"

#include "runtime/strided_copy.h"

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

bool overlaps(const BoundView& v) {
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (v.strides[d] == 0 && v.sizes[d] != 1) return true;
  return false;
}

bool is_channels_last(const BoundView& v) { return same_layout(v.sizes, v.strides, channels_last(v).strides) && !same_layout(v.sizes, v.strides, contiguous_strides(v.sizes)); }

BoundView channels_last(const BoundView& v) {
  BoundView out{v.dtype, v.sizes, Sizes(v.sizes.size())};
  std::int64_t next = out.strides[1] = 1;
  next *= v.sizes[1];
  for (std::size_t d = v.sizes.size(); d-- > 2; next *= v.sizes[d]) out.strides[d] = next;
  out.strides[0] = next;
  return out;
}

}  // namespace coil::runtime::cuda
