// Copies elements between two layouts of the same sizes.
#pragma once
#include "support/extension_api.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// `to[i] = from[i]` for every index; sizes and dtype are equal, strides need not be. The two must not overlap.
COIL_EXTENSION_API void copy_strided(const Tensor& to, const Tensor& from);

/// Whether two lists are equal; they are a few numbers long.
inline bool same_numbers(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}
/// Whether two sets of strides address the same elements for these sizes (dimensions of size 1 do not count).
bool same_layout(std::span<const std::int64_t> sizes, std::span<const std::int64_t> a, std::span<const std::int64_t> b);

/// One stretch of memory without holes and without elements that lie on one another.
bool is_one_piece(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);
/// Strides of a copy that takes no more memory than its elements: the tensor's own where it is one piece, else
/// row-major ones.
Sizes strides_of_copy(const Tensor&);

/// Elements from the first to the last that a layout addresses, both included; 0 when there are none. Throws Error when
/// that does not fit in 64 bits or a stride is negative.
COIL_EXTENSION_API std::int64_t layout_span(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides);

}  // namespace coil::runtime
