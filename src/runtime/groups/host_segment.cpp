// Segments of the host's memory: POSIX shared memory, which processes of one machine map by its name. The name goes
// when all have mapped it, so that nothing stays behind.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>

#include "runtime/groups/symmetric.h"
#include "support/error.h"

namespace coil::runtime::groups {
namespace {

/// The first bytes of a segment, by which those who map it know that it is the one that was meant: on another machine
/// the same name may stand for something else.
constexpr std::size_t kNonceBytes = 128;

[[noreturn]] void fail_as(const char* what, int error) { fail("{}: {}", what, std::strerror(error)); }

std::string new_nonce() {
  std::random_device random;
  std::string nonce;
  for (int i = 0; i < 4; ++i) nonce += fmt::format("{:08x}", random());
  return nonce;
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

class SharedSegment final : public Segment {
 public:
  /// A new one.
  explicit SharedSegment(std::size_t bytes)
      : bytes_(bytes + kNonceBytes), nonce_(new_nonce()), name_("/coil-" + nonce_) {
    const Descriptor file(::shm_open(name_.c_str(), O_RDWR | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR));
    if (file.get() < 0) fail_as("shared memory cannot be made", errno);
    named_ = true;
    try {
      // Taken now: memory that is not there is an error here, and no signal when it is first touched.
      if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes_)))
        fail_as("shared memory cannot be taken", error);
      map(file.get());
    } catch (...) {
      mapped_by_all();
      throw;
    }
    std::memcpy(memory_, nonce_.data(), nonce_.size());
  }

  /// Another process's.
  SharedSegment(const std::string& nonce, std::size_t bytes)
      : bytes_(bytes + kNonceBytes), nonce_(nonce), name_("/coil-" + nonce_) {
    const Descriptor file(::shm_open(name_.c_str(), O_RDWR, 0));
    if (file.get() < 0) fail_as("the shared memory of another rank cannot be opened", errno);
    map(file.get());
    if (std::memcmp(memory_, nonce_.data(), nonce_.size()) == 0) return;
    ::munmap(memory_, bytes_);
    fail("the shared memory of this name is not the other rank's");
  }

  ~SharedSegment() override {
    mapped_by_all();
    if (memory_) ::munmap(memory_, bytes_);
  }

  std::byte* data() const override { return memory_ + kNonceBytes; }
  std::string handle() const override { return nonce_; }
  void mapped_by_all() override {
    if (std::exchange(named_, false)) ::shm_unlink(name_.c_str());
  }

 private:
  void map(int file) {
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) fail_as("shared memory cannot be mapped", errno);
    memory_ = static_cast<std::byte*>(at);
  }

  std::size_t bytes_;
  std::string nonce_, name_;
  bool named_ = false;
  std::byte* memory_ = nullptr;
};

class OwnSegment final : public Segment {
 public:
  explicit OwnSegment(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    memory_ = static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
    if (!memory_) fail("no memory of {} bytes", bytes);
    std::memset(memory_, 0, bytes);
  }
  ~OwnSegment() override { std::free(memory_); }
  std::byte* data() const override { return memory_; }

 private:
  std::byte* memory_ = nullptr;
};

const DefineSegments kHost(
    Device{}.type, {.allocate = [](std::size_t bytes, Device) { return std::make_unique<SharedSegment>(bytes); },
                    .allocate_alone = [](std::size_t bytes, Device) { return std::make_unique<OwnSegment>(bytes); },
                    .map = [](const std::string& handle, std::size_t bytes,
                              Device) { return std::make_unique<SharedSegment>(handle, bytes); }});

}  // namespace
}  // namespace coil::runtime::groups
