#include "tensor/device.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <vector>

#include "support/error.h"

namespace coil {
namespace {

/// Names of kinds by their numbers. Kinds are never taken out.
struct Kinds {
  std::mutex mutex;
  std::vector<std::string> names = {"cpu", "cuda", "meta"};

  std::uint8_t find(std::string_view name) const {
    return static_cast<std::uint8_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }
};

Kinds& kinds() {
  static Kinds k;
  return k;
}

}  // namespace

bool DeviceType::is_name(std::string_view name) {
  auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.size() <= 40 && std::all_of(name.begin(), name.end(), fits);
}

void DeviceType::check_name(std::string_view name) {
  if (!is_name(name))
    fail("'{}' is no name for a kind of device: small letters, digits and underscores, at most 40 of them", name);
}

DeviceType DeviceType::register_kind(std::string_view name) {
  constexpr std::size_t kMost = 250;
  check_name(name);
  Kinds& k = kinds();
  std::lock_guard lock(k.mutex);
  const std::uint8_t number = k.find(name);
  if (number == k.names.size()) {
    if (number >= kMost) fail("there are {} kinds of devices already; '{}' is one too many", kMost, name);
    k.names.emplace_back(name);
  }
  return DeviceType(number);
}

std::optional<DeviceType> DeviceType::find(std::string_view name) {
  Kinds& k = kinds();
  std::lock_guard lock(k.mutex);
  const std::uint8_t number = k.find(name);
  return number == k.names.size() ? std::nullopt : std::optional(DeviceType(number));
}

DeviceType DeviceType::named(std::string_view name) {
  if (const auto type = find(name)) return *type;
  Kinds& k = kinds();
  std::lock_guard lock(k.mutex);
  fail("unknown device '{}'; there are {}; others come with a library that is loaded", name, fmt::join(k.names, ", "));
}

std::string DeviceType::name() const {
  Kinds& k = kinds();
  std::lock_guard lock(k.mutex);
  return k.names[number_];
}

std::string to_string(Device d) {
  return d.is_host() || d.is_meta() ? d.type.name() : fmt::format("{}:{}", d.type.name(), d.index);
}

Device parse_device(const std::string& s) {
  auto refuse = [&] {
    fail("unknown device '{}'; expected cpu, or the name of a device like cuda, or that with a number like cuda:1", s);
  };
  const std::size_t colon = s.find(':');
  Device device{DeviceType::named(std::string_view(s).substr(0, colon))};
  if (colon == std::string::npos) return device;
  const auto [end, status] = std::from_chars(s.data() + colon + 1, s.data() + s.size(), device.index);
  if (status != std::errc() || end != s.data() + s.size() || device.index < 0 || device.is_host() || device.is_meta())
    refuse();
  return device;
}

}  // namespace coil
