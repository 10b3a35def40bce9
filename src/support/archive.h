// Zip archives: stored entries are read where they lie in the mapped file, and written where they can be mapped.
//
// libzip was no fit: it neither tells where an entry's data begins nor aligns what it writes, and would bring a
// cryptography library into the runtime. Inflating and checksums are libdeflate's.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/bytes.h"
#include "support/file.h"

namespace coil {

/// What an archive may claim before it is refused.
struct ArchiveLimits {
  std::size_t entries = 1'000'000;
  std::uint64_t inflated_bytes = std::uint64_t{1} << 30;  ///< of all deflated entries together, and beyond that
  std::uint64_t inflated_ratio = 20;                      ///< at most this many times the archive's own length
};

/// Opening reads the directory only. Entries are listed under relative paths without `..`, each once; folders are left
/// out.
class Archive {
 public:
  /// Maps the file copy-on-write, so that what is read may be written to without reaching it. Throws Error on anything
  /// malformed.
  static Archive open(const std::filesystem::path&, ArchiveLimits = {});
  /// An archive in memory; `name` is for errors.
  static Archive from_bytes(Bytes, std::string name, ArchiveLimits = {});

  std::vector<std::string> names() const;  ///< sorted
  bool contains(std::string_view entry) const { return entries_.find(entry) != entries_.end(); }
  /// Length of an entry, inflated.
  std::uint64_t size(std::string_view entry) const { return find(entry).size; }
  /// A stored entry in place, without reading it; a deflated one inflated, its checksum verified. Throws Error if there
  /// is none of that name.
  Bytes map(std::string_view entry) const;
  /// The same with the checksum verified in either case.
  Bytes read(std::string_view entry) const;

 private:
  struct Entry {
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    std::uint64_t compressed = 0, size = 0, header = 0;  ///< `header`: where the local header lies
  };
  Archive() = default;
  void read_directory(const ArchiveLimits&);
  std::size_t read_entry(std::size_t at, std::size_t end);
  const Entry& find(std::string_view entry) const;
  Bytes inflate(std::string_view entry, const Entry&, Bytes compressed) const;

  Bytes bytes_;
  std::string name_;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// Writes stored entries whose data is aligned in the file. Same entries in the same order, same bytes; nothing appears
/// under the name before `commit`.
class ArchiveWriter {
 public:
  static constexpr std::size_t kPage = 4096;

  /// `alignment` of each entry's data, a power of two.
  explicit ArchiveWriter(std::filesystem::path, std::size_t alignment = 64);
  /// Throws Error on a name already written or unfit for a reader. `alignment` 0 is the archive's own.
  void add(std::string_view entry, std::span<const std::byte> content, std::size_t alignment = 0);
  /// The parts one behind another, never together in memory.
  void add_parts(std::string_view entry, std::span<const std::span<const std::byte>> parts, std::size_t alignment = 0);
  void add(std::string_view entry, std::string_view content, std::size_t alignment = 0) {
    add(entry, std::as_bytes(std::span(content)), alignment);
  }
  void commit();

 private:
  struct Entry {
    std::uint32_t crc;
    std::uint64_t size, header;
  };
  AtomicFile file_;
  std::size_t alignment_;
  std::vector<std::pair<std::string, Entry>> entries_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace coil
