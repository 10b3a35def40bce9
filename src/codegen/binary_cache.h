// What compilers made, on disk by content: an entry is a hash and the bytes, written aside and renamed; a torn or stale
// one is a miss.
#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace coil::codegen {

std::optional<std::vector<std::byte>> read_binary(const std::filesystem::path& entry);
/// A cache that cannot be written costs time, not the compile.
void write_binary(const std::filesystem::path& entry, std::span<const std::byte> binary);

}  // namespace coil::codegen
