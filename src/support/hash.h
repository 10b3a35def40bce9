// Content hashes (XXH3, 128 bits) that name cache entries and check packages. Not for adversaries.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "support/extension_api.h"

namespace coil {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
};

/// 32 lower-case hexadecimal digits, the same on every machine.
COIL_EXTENSION_API std::string to_hex(Hash128);

Hash128 hash(std::span<const std::byte>);
COIL_EXTENSION_API Hash128 hash(std::string_view);
/// The hash of the parts one behind another, as if they lay together.
Hash128 hash_concatenated(std::span<const std::span<const std::byte>> parts);

/// A hash over parts. Each part's length counts, so that {"ab", "c"} and {"a", "bc"} differ.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  Hasher& add(std::string_view);
  Hasher& add(std::span<const std::byte>);
  Hasher& add(std::uint64_t);
  Hash128 digest() const;

 private:
  friend Hash128 hash_concatenated(std::span<const std::span<const std::byte>>);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coil
