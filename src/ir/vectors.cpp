#include "ir/vectors.h"

namespace coil::ir {

bool lies_in_vectors(const sym::ShapeEnv& env, const BufferView& v, std::size_t dim) {
  const std::int64_t vector = 16 / static_cast<std::int64_t>(size_of(v.dtype));
  const auto whole = [&](Expr e) { return env.statically_known_multiple_of(e, vector); };
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (d == dim ? !v.strides[d].is_constant(1) || !whole(v.sizes[d]) : !whole(v.strides[d])) return false;
  return whole(v.offset);
}

}  // namespace coil::ir
