#include "support/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "support/error.h"

namespace coil {

static Hash128 from_xxh(XXH128_hash_t h) { return {h.high64, h.low64}; }

std::string to_hex(Hash128 h) { return fmt::format("{:016x}{:016x}", h.high, h.low); }

Hash128 hash(std::span<const std::byte> bytes) { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }
Hash128 hash(std::string_view text) { return hash(std::as_bytes(std::span(text))); }

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  ~State() { XXH3_freeState(xxh); }
};

Hash128 hash_concatenated(std::span<const std::span<const std::byte>> parts) {
  const Hasher::State state;
  COIL_CHECK(state.xxh && XXH3_128bits_reset(state.xxh) == XXH_OK);
  for (const auto& part : parts) XXH3_128bits_update(state.xxh, part.data(), part.size());
  return from_xxh(XXH3_128bits_digest(state.xxh));
}

Hasher::Hasher() : state_(std::make_unique<State>()) {
  COIL_CHECK(state_->xxh && XXH3_128bits_reset(state_->xxh) == XXH_OK);
}
Hasher::~Hasher() = default;

Hasher& Hasher::add(std::uint64_t value) {
  std::byte little[8];
  for (int i = 0; i < 8; ++i) little[i] = static_cast<std::byte>(value >> (8 * i));
  XXH3_128bits_update(state_->xxh, little, sizeof little);
  return *this;
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  add(static_cast<std::uint64_t>(bytes.size()));
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

Hash128 Hasher::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace coil
