// The constants of a program as one safetensors file, for programs that are written as source.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/file.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// Where a constant lies: `offset` bytes into tensor `name` of the file.
struct WeightPlace {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;
};

/// For each constant of the program its place; none for those that no line uses or that are empty. Constants that share
/// memory share it in the file.
std::vector<std::optional<WeightPlace>> place_weights(const Program&);

/// The file, written and completed but not yet under its name; nothing when no constant has a place. A piece that is
/// one dense tensor keeps its dtype and sizes, others are bytes.
std::unique_ptr<AtomicFile> write_weights(const Program&, const std::filesystem::path&);

}  // namespace coil::wrapper
