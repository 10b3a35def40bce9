#include "tensor/zeros.h"

#include <cstdlib>

namespace coil {

std::optional<Tensor> zeros(DType dtype, std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  Tensor t;
  t.dtype = dtype;
  t.sizes.assign(sizes.begin(), sizes.end());
  t.strides.assign(strides.begin(), strides.end());
  std::int64_t last = 0;
  bool empty = false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || strides[d] < 0) return std::nullopt;
    empty = empty || sizes[d] == 0;
    std::int64_t span = 0;
    if (sizes[d] > 0 &&
        (__builtin_mul_overflow(sizes[d] - 1, strides[d], &span) || __builtin_add_overflow(last, span, &last)))
      return std::nullopt;
  }
  if (empty) return t;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(last) + 1, size_of(dtype), &bytes)) return std::nullopt;
  auto* memory = static_cast<std::byte*>(std::calloc(bytes, 1));  // pages that nobody touches cost nothing
  if (!memory) return std::nullopt;
  t.storage = {std::shared_ptr<std::byte>(memory, [](std::byte* m) { std::free(m); }), bytes};
  return t;
}

}  // namespace coil
