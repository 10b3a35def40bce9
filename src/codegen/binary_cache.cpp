#include "codegen/binary_cache.h"

#include <exception>

#include "support/error.h"
#include "support/file.h"
#include "support/hash.h"

namespace coil::codegen {

namespace fs = std::filesystem;

namespace {

/// In front of an entry; the hash follows, and then the binary.
constexpr std::string_view kMagic = "coil-so1";

}  // namespace

std::optional<std::vector<std::byte>> read_binary(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  std::string content;
  try {
    content = read_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
  constexpr std::size_t kHeader = kMagic.size() + 32;
  if (content.size() <= kHeader || !content.starts_with(kMagic)) return std::nullopt;
  std::string_view body = std::string_view(content).substr(kHeader);
  if (to_hex(hash(body)) != std::string_view(content).substr(kMagic.size(), 32)) return std::nullopt;
  auto bytes = std::as_bytes(std::span(body));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

void write_binary(const fs::path& path, std::span<const std::byte> binary) {
  try {
    fs::create_directories(path.parent_path());
    AtomicFile file(path);
    file.write(kMagic);
    file.write(to_hex(hash(binary)));
    file.write(binary);
    file.commit();
  } catch (const std::exception&) {
    // A cache that cannot be written costs time, not the compile.
  }
}

}  // namespace coil::codegen
