#include "runtime/cuda/driver/tensor_maps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"

namespace coil::runtime::cuda {

void make_tensor_map(const Driver& driver, const TensorMapShape& s, void* address, void* to) {
  constexpr int kNotInterleaved = 0, kPromotedTo128Bytes = 2, kZerosOutside = 0;  // values of cuda.h
  constexpr int kDriverWithBug = 13010;
  constexpr std::uint64_t kSmall = 128 << 10;
  if (!driver.tensor_map) fail("the CUDA driver is too old: it has no cuTensorMapEncodeTiled");
  const unsigned steps[kTensorMapRank] = {1, 1, 1, 1, 1};
  std::uint64_t strides[kTensorMapRank];
  for (std::uint32_t d = 0; d < s.rank; ++d)  // where there is one element, any stride will do that the driver takes
    strides[d] = d > 0 && s.sizes[d] == 1 ? std::max<std::uint64_t>(16, s.strides[d] / 16 * 16) : s.strides[d];
  alignas(kTensorMapAlignment) std::uint64_t map[kTensorMapBytes / 8] = {};
  const Result made =
      driver.tensor_map(map, static_cast<int>(s.element), s.rank, address, s.sizes, strides + 1, s.box, steps,
                        kNotInterleaved, static_cast<int>(s.swizzle), kPromotedTo128Bytes, kZerosOutside);
  if (made != kSuccess)
    fail(
        "CUDA cannot describe a tensor to the copy engine, of {} elements by {} bytes, the innermost first, at {}: {}; "
        "it and its rows begin at multiples of 16 bytes, and no dimension is empty",
        fmt::join(s.sizes, s.sizes + s.rank, ", "), fmt::join(s.strides, s.strides + s.rank, ", "), address,
        driver.describe(made));
  // Drivers up to 13.1 set a bit for small tensors that must not be set (CUTLASS and Triton clear it too).
  std::uint64_t last = 0;
  for (std::uint32_t d = 0; d < s.rank; ++d) last += (s.sizes[d] - 1) * s.strides[d];
  if (driver.version() <= kDriverWithBug && last + 1 < kSmall) map[1] &= ~(std::uint64_t{1} << 21);
  std::memcpy(to, map, sizeof map);
}

}  // namespace coil::runtime::cuda
