#include "runtime/views/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace coil::runtime {
namespace {

struct Dimension {
  std::int64_t size, to, from;
};

template <std::size_t kItem>
void copy_row(std::byte* to, const std::byte* from, const Dimension& d) {
  for (std::int64_t i = 0; i < d.size; ++i) std::memcpy(to + i * d.to, from + i * d.from, kItem);
}

void copy_dimensions(std::byte* to, const std::byte* from, std::span<const Dimension> dims, std::size_t item) {
  const Dimension& d = dims.front();
  if (dims.size() > 1) {
    for (std::int64_t i = 0; i < d.size; ++i) copy_dimensions(to + i * d.to, from + i * d.from, dims.subspan(1), item);
    return;
  }
  const auto step = static_cast<std::int64_t>(item);
  if (d.to == step && d.from == step) {
    std::memcpy(to, from, static_cast<std::size_t>(d.size) * item);
    return;
  }
  switch (item) {
    case 1: return copy_row<1>(to, from, d);
    case 2: return copy_row<2>(to, from, d);
    case 4: return copy_row<4>(to, from, d);
    case 8: return copy_row<8>(to, from, d);
    default: return copy_row<16>(to, from, d);
  }
}

}  // namespace

void copy_strided(const Tensor& to, const Tensor& from) {
  COIL_CHECK(to.sizes == from.sizes && to.dtype == from.dtype);
  if (to.numel() == 0) return;
  const std::size_t item = size_of(to.dtype);
  std::vector<Dimension> dims;
  for (std::size_t d = 0; d < to.sizes.size(); ++d)
    if (to.sizes[d] != 1)
      dims.push_back({to.sizes[d], to.strides[d] * static_cast<std::int64_t>(item),
                      from.strides[d] * static_cast<std::int64_t>(item)});
  std::stable_sort(dims.begin(), dims.end(), [](const Dimension& a, const Dimension& b) { return a.to > b.to; });
  if (dims.empty()) dims.push_back({1, static_cast<std::int64_t>(item), static_cast<std::int64_t>(item)});
  std::vector<Dimension> merged;
  for (const Dimension& d : dims) {
    if (!merged.empty() && merged.back().to == d.to * d.size && merged.back().from == d.from * d.size)
      merged.back() = {merged.back().size * d.size, d.to, d.from};
    else
      merged.push_back(d);
  }
  copy_dimensions(to.bytes(), from.bytes(), merged, item);
}

bool same_layout(std::span<const std::int64_t> sizes, std::span<const std::int64_t> a,
                 std::span<const std::int64_t> b) {
  bool same = true;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && a[d] != b[d]) same = false;
  }
  return same;
}

bool is_one_piece(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  std::vector<std::pair<std::int64_t, std::int64_t>> by_stride;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) by_stride.emplace_back(strides[d], sizes[d]);
  }
  std::sort(by_stride.begin(), by_stride.end());
  std::int64_t next = 1;
  for (const auto& [stride, size] : by_stride) {
    if (stride != next) return false;
    next *= size;
  }
  return true;
}

Sizes strides_of_copy(const Tensor& t) {
  return is_one_piece(t.sizes, t.strides) ? t.strides : contiguous_strides(t.sizes);
}

std::int64_t layout_span(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  COIL_CHECK(sizes.size() == strides.size());
  std::int64_t last = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    if (sizes[d] < 0) fail("a size is negative: {}", sizes[d]);
    if (strides[d] < 0) fail("a stride is negative: {}", strides[d]);
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) || __builtin_add_overflow(last, reach, &last) ||
        last > (std::int64_t{1} << 58))
      fail("the layout of a tensor overflows 64 bits");
  }
  return last + 1;
}

}  // namespace coil::runtime
