// Bytes together with whatever keeps them alive: a mapped file, an inflated entry.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace coil {

struct Bytes {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;

  std::span<const std::byte> span() const { return {data.get(), size}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data.get()), size}; }
  /// A part that keeps the whole alive; the caller has checked that it lies inside.
  Bytes part(std::size_t offset, std::size_t length) const {
    return {std::shared_ptr<std::byte>(data, data.get() + offset), length};
  }
};

}  // namespace coil
