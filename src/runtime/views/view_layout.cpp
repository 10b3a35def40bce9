#include "runtime/views/view_layout.h"

namespace coil::runtime {

bool has_zero_stride(const BoundView& v) {
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (v.strides[d] == 0 && v.sizes[d] != 1) return true;
  return false;
}

BoundView channels_last(DType dtype, const Sizes& sizes) {
  BoundView v{dtype, sizes, Sizes(sizes.size())};
  std::int64_t step = sizes[1];
  v.strides[1] = 1;
  for (std::size_t d = sizes.size(); d-- > 2; step *= sizes[d]) v.strides[d] = step;
  v.strides[0] = step;
  return v;
}

}  // namespace coil::runtime
