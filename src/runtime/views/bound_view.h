// A view with its sizes bound: what library operations are prepared for.
#pragma once
#include <cstdint>

#include "tensor/device.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace coil::runtime {

/// Memory on other devices than the CPU begins at multiples of this many bytes.
inline constexpr std::int64_t kDeviceAlignment = 16;

/// A view with sizes bound: what an operation is prepared for.
struct BoundView {
  DType dtype = DType::F32;
  Sizes sizes, strides;
  std::int64_t alignment = kDeviceAlignment;  ///< on other devices than the CPU: its address is a multiple of this many
                                              ///< bytes, a power of two up to kDeviceAlignment
  Device device = {};                         ///< that its memory lies on
  bool operator==(const BoundView&) const = default;
};

}  // namespace coil::runtime
