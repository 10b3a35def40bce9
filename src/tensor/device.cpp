#include "tensor/device.h"

#include <charconv>

#include "support/error.h"

namespace coil {

std::string to_string(Device d) {
  switch (d.type) {
    case DeviceType::CPU: return "cpu";
    case DeviceType::CUDA: return "cuda:" + std::to_string(d.index);
    case DeviceType::Meta: return "meta";
  }
  return {};
}

Device parse_device(const std::string& s) {
  if (s == "cpu") return {};
  if (s == "meta") return {DeviceType::Meta, 0};
  if (s == "cuda") return {DeviceType::CUDA, 0};
  if (s.starts_with("cuda:")) {
    int index = 0;
    auto [end, status] = std::from_chars(s.data() + 5, s.data() + s.size(), index);
    if (status == std::errc() && end == s.data() + s.size() && index >= 0) return {DeviceType::CUDA, index};
  }
  fail("unknown device '{}'; expected cpu, cuda or cuda:N", s);
}

}  // namespace coil
