#include "runtime/plan/package.h"

#include <algorithm>
#include <limits>

#include "runtime/plan/host_operators.h"
#include "runtime/plan/plan_json.h"
#include "runtime/plan/sample_inputs.h"
#include "runtime/views/strided_copy.h"
#include "support/archive.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::runtime {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kWeights = "weights.bin";
constexpr const char* kSource = "kernels/kernels.cpp";
constexpr const char* kProvenance = "provenance.json";
constexpr const char* kOperators = "operators.json";  // for people and hosts; nothing is read from it
constexpr const char* kSampleHeader = "sample_inputs/header.json";
constexpr const char* kSampleData = "sample_inputs/data.bin";
constexpr const char* kHashes = "hashes";  // lines `hash entry`

std::string library_entry(std::size_t i, std::size_t place = 0) {
  const std::string folder = place == 0 ? "kernels" : fmt::format("kernels/device_{}", place);
  return i == 0 ? folder + "/kernels.so" : fmt::format("{}/kernels_{}.so", folder, i);
}

/// A stretch of memory that holds one constant, or several that share it.
struct Piece {
  const std::byte *begin = nullptr, *end = nullptr;
  std::size_t first = 0;  ///< index of the first constant in it
  std::uint64_t offset = 0;
};

std::uint64_t constant_bytes(const Tensor& t) {
  return static_cast<std::uint64_t>(layout_span(t.sizes, t.strides)) * size_of(t.dtype);
}

/// Pieces in the order of their first constants, so that addresses do not reach the file.
std::vector<Piece> pieces_of(const std::vector<Tensor>& constants) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < constants.size(); ++i)
    if (const std::uint64_t bytes = constant_bytes(constants[i]); bytes > 0)
      pieces.push_back({constants[i].bytes(), constants[i].bytes() + bytes, i, 0});
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.begin != b.begin ? a.begin < b.begin : a.first < b.first; });
  std::vector<Piece> merged;
  for (const Piece& p : pieces) {
    if (!merged.empty() && p.begin < merged.back().end) {
      merged.back().end = std::max(merged.back().end, p.end);
      merged.back().first = std::min(merged.back().first, p.first);
    } else {
      merged.push_back(p);
    }
  }
  std::sort(merged.begin(), merged.end(), [](const Piece& a, const Piece& b) { return a.first < b.first; });
  return merged;
}

/// Places the pieces in the weights entry: from a page on for those of a page or more, on a cache line for the rest.
std::uint64_t place(std::vector<Piece>& pieces) {
  std::uint64_t at = 0;
  for (Piece& p : pieces) {
    const auto bytes = static_cast<std::uint64_t>(p.end - p.begin);
    const std::uint64_t alignment = bytes >= ArchiveWriter::kPage ? ArchiveWriter::kPage : 64;
    p.offset = at = (at + alignment - 1) / alignment * alignment;
    at += bytes;
  }
  return at;
}

void set_offsets(Plan& plan, const std::vector<Tensor>& constants, const std::vector<Piece>& pieces) {
  std::vector<const Piece*> by_address;
  for (const Piece& p : pieces) by_address.push_back(&p);
  std::sort(by_address.begin(), by_address.end(), [](const Piece* a, const Piece* b) { return a->begin < b->begin; });
  for (std::size_t i = 0; i < constants.size(); ++i) {
    plan.constants[i].bytes = constant_bytes(constants[i]);
    plan.constants[i].file_offset = 0;
    if (plan.constants[i].bytes == 0) continue;
    auto after = std::upper_bound(by_address.begin(), by_address.end(), constants[i].bytes(),
                                  [](const std::byte* a, const Piece* p) { return a < p->begin; });
    const Piece& p = **std::prev(after);
    plan.constants[i].file_offset = p.offset + static_cast<std::uint64_t>(constants[i].bytes() - p.begin);
  }
}

std::vector<std::span<const std::byte>> parts_of(const std::vector<Piece>& pieces) {
  static constexpr std::byte kGap[ArchiveWriter::kPage] = {};
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t at = 0;
  for (const Piece& p : pieces) {
    parts.push_back({kGap, static_cast<std::size_t>(p.offset - at)});
    parts.push_back({p.begin, p.end});
    at = p.offset + static_cast<std::uint64_t>(p.end - p.begin);
  }
  return parts;
}

/// `entry` with its hash verified.
Bytes checked_entry(const Archive& archive, const std::map<std::string, std::string, std::less<>>& hashes,
                    const std::string& entry) {
  const Bytes bytes = archive.map(entry);
  auto expected = hashes.find(entry);
  if (expected == hashes.end()) fail("entry '{}' has no hash", entry);
  if (to_hex(hash(bytes.span())) != expected->second) fail("entry '{}' is damaged", entry);
  return bytes;
}

std::map<std::string, std::string, std::less<>> read_hashes(std::string_view text) {
  std::map<std::string, std::string, std::less<>> hashes;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto space = line.find(' ');
    if (space != line.npos) hashes.emplace(line.substr(space + 1), line.substr(0, space));
  }
  return hashes;
}

Tensor constant_in(const Constant& c, const Bytes& weights) {
  Tensor t{{}, c.dtype, c.sizes, c.strides, 0};
  if (c.sizes.size() != c.strides.size())
    fail("constant '{}' has {} sizes and {} strides", c.name, c.sizes.size(), c.strides.size());
  const std::uint64_t needed = constant_bytes(t);
  if (needed > c.bytes || c.bytes > weights.size || c.file_offset > weights.size - c.bytes ||
      c.file_offset % size_of(c.dtype) != 0)
    fail("constant '{}' lies outside of the weights", c.name);
  const Bytes part = weights.part(c.file_offset, c.bytes);
  t.storage = {part.data, part.size};
  return t;
}

StoredProgram read_package(const Archive& archive, WeightCheck check) {
  if (!archive.contains(kManifest) || !archive.contains(kHashes) || !archive.contains(kWeights))
    fail("it is not a package");
  const auto hashes = read_hashes(archive.read(kHashes).text());
  StoredProgram program;
  program.plan = plan_from_json(checked_entry(archive, hashes, kManifest).text());
  auto read_libraries = [&](std::size_t place) {
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = 0; archive.contains(library_entry(i, place)); ++i) {
      const Bytes library = checked_entry(archive, hashes, library_entry(i, place));
      all.emplace_back(library.span().begin(), library.span().end());
    }
    return all;
  };
  program.libraries = read_libraries(0);
  for (std::size_t k = 0; k < program.plan.others.size(); ++k) program.other_libraries.push_back(read_libraries(k + 1));
  if (archive.contains(kSource)) program.kernel_source = archive.read(kSource).text();
  const Bytes weights = check == WeightCheck::Hash ? checked_entry(archive, hashes, kWeights) : archive.map(kWeights);
  for (const Constant& c : program.plan.constants) program.constants.push_back(constant_in(c, weights));
  if (archive.contains(kProvenance)) program.provenance = checked_entry(archive, hashes, kProvenance).text();
  if (archive.contains(kSampleHeader))
    program.sample_inputs = unpack_sample_inputs(checked_entry(archive, hashes, kSampleHeader).text(),
                                                 checked_entry(archive, hashes, kSampleData));
  return program;
}

}  // namespace

void save_package(const StoredProgram& program, const std::filesystem::path& path) {
  if (program.constants.size() != program.plan.constants.size())
    fail("the plan has {} constants, but {} were given", program.plan.constants.size(), program.constants.size());
  Plan plan = program.plan;
  std::vector<Piece> pieces = pieces_of(program.constants);
  place(pieces);
  set_offsets(plan, program.constants, pieces);
  const auto parts = parts_of(pieces);

  std::string hashes;
  ArchiveWriter writer(path);
  auto add = [&](const std::string& entry, std::span<const std::byte> content) {
    hashes += fmt::format("{} {}\n", to_hex(hash(content)), entry);
    writer.add(entry, content);
  };
  const std::string manifest = plan_to_json(plan);
  add(kManifest, std::as_bytes(std::span(manifest)));
  for (std::size_t i = 0; i < program.libraries.size(); ++i) add(library_entry(i), program.libraries[i]);
  for (std::size_t k = 0; k < program.other_libraries.size(); ++k)
    for (std::size_t i = 0; i < program.other_libraries[k].size(); ++i)
      add(library_entry(i, k + 1), program.other_libraries[k][i]);
  if (!program.kernel_source.empty()) add(kSource, std::as_bytes(std::span(program.kernel_source)));
  if (const std::string operators = host_operators_json(plan); !operators.empty())
    add(kOperators, std::as_bytes(std::span(operators)));
  if (!program.provenance.empty()) add(kProvenance, std::as_bytes(std::span(program.provenance)));
  if (const auto samples = pack_sample_inputs(program.sample_inputs)) {
    add(kSampleHeader, std::as_bytes(std::span(samples->header)));
    add(kSampleData, samples->data);
  }
  hashes += fmt::format("{} {}\n", to_hex(hash_concatenated(parts)), kWeights);
  writer.add(kHashes, hashes);
  writer.add_parts(kWeights, parts, ArchiveWriter::kPage);
  writer.commit();
}

StoredProgram load_program(const std::filesystem::path& path, WeightCheck check) {
  const Archive archive = Archive::open(path);
  try {
    StoredProgram program = read_package(archive, check);
    program.file = path;
    return program;
  } catch (const Error& e) {
    fail("cannot load package '{}': {}", path.string(), e.what());
  }
}

}  // namespace coil::runtime
