// Where a tensor lives.
#pragma once
#include <cstdint>
#include <string>

namespace coil {

enum class DeviceType : std::uint8_t { CPU, CUDA, Meta };

struct Device {
  DeviceType type = DeviceType::CPU;
  int index = 0;  ///< always 0 on the CPU
  bool operator==(const Device&) const = default;
};

/// `cpu`, `cuda:1`, `meta`.
std::string to_string(Device);
/// Parses `cpu`, `cuda`, `cuda:N`, `meta`; throws Error on anything else.
Device parse_device(const std::string&);

}  // namespace coil
