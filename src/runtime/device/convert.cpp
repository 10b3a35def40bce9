#include "runtime/device/convert.h"

#include <algorithm>
#include <cstring>

#include "runtime/device/threads.h"
#include "runtime/views/half.h"
#include "runtime/views/strided_copy.h"
#include "runtime/views/turn_four.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

struct Dimension {
  std::int64_t size, to, from;  ///< strides in elements
};

/// [outer, inner] whose elements are neighbours along `inner` in `to`, and along `outer` in `from`.
template <class T>
void turn(T* to, const T* from, const Dimension& outer, const Dimension& inner) {
  constexpr std::int64_t kBlock =
      256;  // of `inner`: its lines stay in the first-level cache for the next four of `outer`
  const std::int64_t fours = outer.size / 4 * 4;
  for (std::int64_t first = 0; first < inner.size; first += kBlock) {
    const std::int64_t last = std::min(first + kBlock, inner.size), turned = first + (last - first) / 4 * 4;
    for (std::int64_t i = 0; i < outer.size; ++i) {
      if (i < fours && i % 4 == 0)
        for (std::int64_t j = first; j < turned; j += 4)
          turn_four(to + i * outer.to + j, outer.to, from + i + j * inner.from, inner.from);
      for (std::int64_t j = i < fours ? turned : first; j < last; ++j) to[i * outer.to + j] = from[i + j * inner.from];
    }
  }
}

template <class To, class From>
void rows(To* to, const From* from, std::span<const Dimension> dims) {
  const Dimension& d = dims.front();
  if constexpr (std::is_same_v<To, From> && sizeof(To) == 4)
    if (dims.size() == 2 && d.from == 1 && dims[1].to == 1) return turn(to, from, d, dims[1]);
  if (dims.size() > 1) {
    for (std::int64_t i = 0; i < d.size; ++i) rows(to + i * d.to, from + i * d.from, dims.subspan(1));
  } else if constexpr (std::is_same_v<To, BF16>) {
    for (std::int64_t i = 0; i < d.size; ++i) to[i * d.to] = BF16(static_cast<float>(from[i * d.from]));
  } else {
    for (std::int64_t i = 0; i < d.size; ++i) to[i * d.to] = static_cast<To>(from[i * d.from]);
  }
}

template <class To, class From>
void convert_as(void* to, const void* from, const std::vector<Dimension>& dims) {
  const Dimension outer = dims.front();
  std::int64_t inner = 1;
  for (std::size_t d = 1; d < dims.size(); ++d) inner *= dims[d].size;
  parallel_ranges(outer.size, 16384 / inner + 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<Dimension> part = dims;
    part.front().size = end - begin;
    rows(static_cast<To*>(to) + begin * outer.to, static_cast<const From*>(from) + begin * outer.from, part);
  });
}

template <class T>
void convert_between(bool widen, void* to, const void* from, const std::vector<Dimension>& dims) {
  auto both = [&]<class Loop>(Loop) {
    if (widen)
      convert_as<Loop, T>(to, from, dims);
    else
      convert_as<T, Loop>(to, from, dims);
  };
  if constexpr (std::is_same_v<T, double>)
    both(double{});
  else if constexpr (std::is_integral_v<T>)
    both(std::int64_t{});
  else
    both(float{});
}

void dispatch(DType narrow, bool widen, void* to, const void* from, const std::vector<Dimension>& dims) {
  switch (narrow) {
    case DType::F32: return convert_between<float>(widen, to, from, dims);
    case DType::F16: return convert_between<F16>(widen, to, from, dims);
    case DType::BF16: return convert_between<BF16>(widen, to, from, dims);
    case DType::F64: return convert_between<double>(widen, to, from, dims);
    case DType::I8: return convert_between<std::int8_t>(widen, to, from, dims);
    case DType::I16: return convert_between<std::int16_t>(widen, to, from, dims);
    case DType::I32: return convert_between<std::int32_t>(widen, to, from, dims);
    case DType::I64: return convert_between<std::int64_t>(widen, to, from, dims);
    case DType::U8: return convert_between<std::uint8_t>(widen, to, from, dims);
    case DType::U16: return convert_between<std::uint16_t>(widen, to, from, dims);
    case DType::U32: return convert_between<std::uint32_t>(widen, to, from, dims);
    case DType::U64: return convert_between<std::uint64_t>(widen, to, from, dims);
    case DType::Bool: return convert_between<bool>(widen, to, from, dims);
    default: fail("library operations do not take {}", torch_name(narrow));
  }
}

std::vector<Dimension> merged_dimensions(const BoundView& to, const BoundView& from) {
  std::vector<Dimension> dims;
  for (std::size_t d = 0; d < to.sizes.size(); ++d)
    if (to.sizes[d] != 1) dims.push_back({to.sizes[d], to.strides[d], from.strides[d]});
  std::stable_sort(dims.begin(), dims.end(), [](const Dimension& a, const Dimension& b) { return a.to > b.to; });
  std::vector<Dimension> merged;
  for (const Dimension& d : dims) {
    if (!merged.empty() && merged.back().to == d.to * d.size && merged.back().from == d.from * d.size)
      merged.back() = {merged.back().size * d.size, d.to, d.from};
    else
      merged.push_back(d);
  }
  if (merged.empty()) merged.push_back({1, 1, 1});
  return merged;
}

}  // namespace

DType loop_dtype(DType d) {
  switch (d) {
    case DType::F32:
    case DType::F16:
    case DType::BF16: return DType::F32;
    case DType::F64: return DType::F64;
    default:
      if (is_integral(d) || d == DType::Bool) return DType::I64;
      fail("library operations do not take {}", torch_name(d));
  }
}

void convert(const BoundView& to, void* to_data, const BoundView& from, const void* from_data) {
  COIL_CHECK(to.sizes == from.sizes);
  if (numel(to.sizes) == 0) return;
  const std::vector<Dimension> dims = merged_dimensions(to, from);
  if (to.dtype == from.dtype && dims.size() == 1 && dims[0].to == 1 && dims[0].from == 1) {
    std::memcpy(to_data, from_data, static_cast<std::size_t>(dims[0].size) * size_of(to.dtype));
    return;
  }
  const bool widen = to.dtype == loop_dtype(from.dtype);
  if (widen) return dispatch(from.dtype, true, to_data, from_data, dims);
  if (from.dtype == loop_dtype(to.dtype)) return dispatch(to.dtype, false, to_data, from_data, dims);
  COIL_CHECK(to.dtype == from.dtype, "{} to {}", short_name(from.dtype), short_name(to.dtype));
  switch (size_of(to.dtype)) {
    case 1: return convert_as<std::uint8_t, std::uint8_t>(to_data, from_data, dims);
    case 2: return convert_as<std::uint16_t, std::uint16_t>(to_data, from_data, dims);
    default: return convert_as<std::uint32_t, std::uint32_t>(to_data, from_data, dims);
  }
}

BoundView dense_view(DType dtype, Sizes sizes) {
  Sizes strides = contiguous_strides(sizes);
  return {dtype, std::move(sizes), std::move(strides)};
}

std::size_t dense_bytes(const BoundView& v) { return static_cast<std::size_t>(numel(v.sizes)) * size_of(v.dtype); }

std::optional<BoundView> reshape_view(const BoundView& from, const Sizes& sizes) {
  COIL_CHECK(numel(from.sizes) == numel(sizes));
  if (numel(sizes) == 0) return dense_view(from.dtype, sizes);
  BoundView to{from.dtype, sizes, Sizes(sizes.size(), 1), from.alignment};
  Sizes old_sizes, old_strides;
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] == 1) continue;
    old_sizes.push_back(from.sizes[d]);
    old_strides.push_back(from.strides[d]);
  }
  // Runs of dimensions that step evenly, from the right; each must be cut into whole new dimensions.
  std::size_t next = sizes.size();
  for (std::size_t d = old_sizes.size(); d > 0;) {
    const std::int64_t step = old_strides[--d];
    std::int64_t run = old_sizes[d], cut = 1;
    while (d > 0 && old_strides[d - 1] == run * step) run *= old_sizes[--d];
    while (next > 0 && (cut < run || sizes[next - 1] == 1)) {
      --next;
      to.strides[next] = cut * step;
      cut *= sizes[next];
    }
    if (cut != run) return std::nullopt;
  }
  return to;
}

BoundView expand_view(const BoundView& from, const Sizes& sizes) {
  if (from.sizes.size() > sizes.size())
    fail("an operand of {} dimensions does not broadcast to {}", from.sizes.size(), sizes.size());
  BoundView to{from.dtype, sizes, Sizes(sizes.size(), 0), from.alignment};
  const std::size_t shift = sizes.size() - from.sizes.size();
  for (std::size_t d = 0; d < from.sizes.size(); ++d) {
    if (from.sizes[d] != 1 && from.sizes[d] != sizes[d + shift])
      fail("an operand of sizes [{}] does not broadcast to [{}]", fmt::join(from.sizes, ", "), fmt::join(sizes, ", "));
    if (from.sizes[d] != 1) to.strides[d + shift] = from.strides[d];
  }
  return to;
}

}  // namespace coil::runtime
