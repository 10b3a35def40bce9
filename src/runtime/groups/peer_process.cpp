#include "runtime/groups/peer_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

namespace coil::runtime::groups {

std::string process_namespace() {
  constexpr std::size_t kLongest = 63;
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string().substr(0, kLongest);
}

PeerProcess::PeerProcess(std::int64_t id, const std::string& its_namespace) {
  if (process_namespace() != its_namespace || id <= 0) return;
#ifdef SYS_pidfd_open
  fd_ = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(id), 0));
#endif
}

PeerProcess::~PeerProcess() {
  if (fd_ >= 0) ::close(fd_);
}

bool PeerProcess::has_ended() const {
  pollfd one{fd_, POLLIN, 0};
  return fd_ >= 0 && ::poll(&one, 1, 0) == 1 && (one.revents & POLLIN) != 0;
}

}  // namespace coil::runtime::groups
