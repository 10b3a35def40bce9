// Where a tensor lives.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/extension_api.h"

namespace coil {

/// A kind of device, as a number. The host, CUDA and `meta` are always there; others are registered by name.
class DeviceType {
 public:
  constexpr DeviceType() = default;  ///< the host
  /// The kind of that name, registered now if it is not there yet. Throws Error on a name that is not written in small
  /// letters, digits and underscores, and when there are 250 kinds already.
  COIL_EXTENSION_API static DeviceType register_kind(std::string_view name);
  /// The kind of that name. Throws Error, with the names that there are.
  COIL_EXTENSION_API static DeviceType named(std::string_view name);

  /// The kind of that name, or nothing.
  COIL_EXTENSION_API static std::optional<DeviceType> find(std::string_view name);
  /// Whether kinds may be called so.
  static bool is_name(std::string_view name);
  /// Throws Error where they may not.
  static void check_name(std::string_view name);

  constexpr std::uint8_t number() const { return number_; }
  constexpr bool is_host() const { return number_ == 0; }
  constexpr bool is_meta() const { return number_ == 2; }
  COIL_EXTENSION_API std::string name() const;
  auto operator<=>(const DeviceType&) const = default;

  static const DeviceType CPU, CUDA, Meta;

 private:
  constexpr explicit DeviceType(std::uint8_t number) : number_(number) {}
  std::uint8_t number_ = 0;
};

inline constexpr DeviceType DeviceType::CPU{0};
inline constexpr DeviceType DeviceType::CUDA{1};
inline constexpr DeviceType DeviceType::Meta{2};

struct Device {
  DeviceType type;
  int index = 0;  ///< always 0 on the host
  /// Memory of the CPU, which the process reads and writes itself.
  constexpr bool is_host() const { return type.is_host(); }
  /// No memory at all: sizes alone.
  constexpr bool is_meta() const { return type == DeviceType::Meta; }
  bool operator==(const Device&) const = default;
};

/// `cpu`, `cuda:1`, `meta`.
COIL_EXTENSION_API std::string to_string(Device);
/// Parses `cpu`, `meta`, `NAME` and `NAME:N` of a registered kind; throws Error on anything else.
COIL_EXTENSION_API Device parse_device(const std::string&);

}  // namespace coil
