// Whole files in, whole files out: what is written appears under its name complete or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace coil {

/// The bytes of a file (or pipe). Throws Error when it cannot be read.
std::string read_file(const std::filesystem::path&);

/// Writes beside the target and renames over it in `commit`; without a commit (an exception, a kill) the target stays
/// as it was and nothing is left behind. A target that is there and no regular file (`/dev/stdout`) is written to
/// directly. Every failure, a full disk included, throws Error.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte>);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Bytes written so far.
  std::uint64_t position() const { return position_; }
  /// Flushes to the disk: what can go wrong for want of space has gone wrong then. Files that belong together are all
  /// completed before the first is committed.
  void complete();
  /// Completes the file and gives it its name.
  void commit();

 private:
  void flush(std::span<const std::byte>);
  [[noreturn]] void fail_with(int error) const;
  std::filesystem::path target_, temporary_;
  std::string buffer_;
  std::uint64_t position_ = 0;
  int fd_ = -1;
  bool completed_ = false;
  bool direct_ = false;   ///< the target is no regular file
  bool unnamed_ = false;  ///< the temporary file has no name until `commit`
};

void write_file(const std::filesystem::path&, std::string_view content);
void write_file(const std::filesystem::path&, std::span<const std::byte> content);

}  // namespace coil
