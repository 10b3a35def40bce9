// Descriptors by which a GPU's copy engine finds tiles of a tensor (CUDA's tensor maps, for TMA).
#pragma once
#include <cstdint>

namespace coil::runtime {

inline constexpr std::uint32_t kTensorMapBytes = 128, kTensorMapAlignment = 64;  ///< as an argument of a kernel
inline constexpr std::uint32_t kTensorMapRank = 5;                               ///< the most dimensions

/// A tensor and its tiles, the dimension first whose elements lie side by side.
struct TensorMapShape {
  std::uint32_t element = 0;  ///< CUtensorMapDataType
  std::uint32_t swizzle = 0;  ///< CUtensorMapSwizzle
  std::uint32_t rank = 0;
  std::uint32_t box[kTensorMapRank] = {};      ///< elements of a tile
  std::uint64_t sizes[kTensorMapRank] = {};    ///< elements of the tensor
  std::uint64_t strides[kTensorMapRank] = {};  ///< in bytes
  bool operator==(const TensorMapShape&) const = default;
};

}  // namespace coil::runtime
