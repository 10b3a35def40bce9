// The two 16-bit floats of the runtime's own loops.
#pragma once
#include <bit>
#include <cstdint>

namespace coil::runtime {

/// bfloat16: the upper half of a float, rounded to nearest even; NaN stays NaN.
struct BF16 {
  std::uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float f) {
    const auto u = std::bit_cast<std::uint32_t>(f);
    bits = f != f ? 0x7fc0 : static_cast<std::uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

using F16 = _Float16;

}  // namespace coil::runtime
