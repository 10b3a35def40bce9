#include "support/mapped_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/error.h"

namespace coil {

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path, Mode mode) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail("cannot open {}: {}", path.string(), std::strerror(errno));
  const std::shared_ptr<void> close_fd(nullptr, [fd](void*) { ::close(fd); });
  struct stat info{};
  if (::fstat(fd, &info) != 0) fail("cannot read {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("cannot read {}: not a regular file", path.string());
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = nullptr;
  if (size > 0) {
    const int protection = mode == Mode::ReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
    data = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (data == MAP_FAILED) fail("cannot map {}: {}", path.string(), std::strerror(errno));
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(data_, size_);
}

}  // namespace coil
