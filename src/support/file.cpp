#include "support/file.h"

#include <atomic>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/error.h"

namespace coil {

namespace {

constexpr std::size_t kBuffer = 1 << 20;

/// A name in the target's folder that no other process or thread uses.
std::filesystem::path aside(const std::filesystem::path& target) {
  static std::atomic<unsigned> counter{0};
  const std::string name = fmt::format(".{}.{}.{}.tmp", target.filename().string(), ::getpid(), counter++);
  return target.parent_path() / name;
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // the file is complete; only the durability of its name is at stake
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open {}: {}", path.string(), std::strerror(errno));
  const std::shared_ptr<void> close_fd(nullptr, [fd](void*) { ::close(fd); });
  struct stat info{};
  std::string content;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) content.resize(static_cast<std::size_t>(info.st_size));
  std::size_t size = 0;
  while (true) {
    if (size == content.size()) content.resize(size + std::max<std::size_t>(size / 2, 4096));
    const ssize_t n = ::read(fd, content.data() + size, content.size() - size);
    if (n == 0) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path.string(), std::strerror(errno));
    size += static_cast<std::size_t>(n);
  }
  content.resize(size);
  return content;
}

AtomicFile::AtomicFile(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(target_, ignored)) {
    const auto resolved = std::filesystem::weakly_canonical(target_, ignored);
    if (!ignored) target_ = resolved;
  }
  struct stat info{};
  if (::stat(target_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) fail("cannot write {}: it is a folder", target_.string());
    direct_ = true;
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail_with(errno);
    return;
  }
  const auto folder = target_.parent_path();
  fd_ = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  unnamed_ = fd_ >= 0;
  if (!unnamed_) {
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) fail_with(errno);
    temporary_ = aside(target_);
    fd_ = ::open(temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      const int error = errno;
      temporary_.clear();
      fail_with(error);
    }
  }
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail_with(int error) const { fail("cannot write {}: {}", target_.string(), std::strerror(error)); }

void AtomicFile::flush(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  COIL_CHECK(fd_ >= 0, "written to after commit");
  completed_ = false;
  position_ += bytes.size();
  if (buffer_.size() + bytes.size() >= kBuffer) {
    flush(std::as_bytes(std::span(buffer_)));
    buffer_.clear();
  }
  if (bytes.size() >= kBuffer)
    flush(bytes);
  else
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

void AtomicFile::complete() {
  flush(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
  if (!direct_ && !completed_ && ::fsync(fd_) != 0) fail_with(errno);
  completed_ = true;
}

void AtomicFile::commit() {
  complete();
  if (unnamed_) {
    temporary_ = aside(target_);
    const std::string self = fmt::format("/proc/self/fd/{}", fd_);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      const int error = errno;
      temporary_.clear();
      fail_with(error);
    }
  }
  if (!direct_ && ::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with(errno);
  temporary_.clear();
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail_with(errno);
  if (!direct_) sync_folder(target_.parent_path());
}

void write_file(const std::filesystem::path& path, std::span<const std::byte> content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  write_file(path, std::as_bytes(std::span(content)));
}

}  // namespace coil
