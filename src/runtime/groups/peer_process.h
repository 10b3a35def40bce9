// The process of another rank on this machine: whether it has ended.
#pragma once
#include <cstdint>
#include <string>

namespace coil::runtime::groups {

/// Where process ids mean the same: the name of this process's namespace of processes.
std::string process_namespace();

/// A descriptor of a process, which tells that it has ended. Where there is none (another namespace of processes, an
/// old system) a rank that is gone is found by the time that it takes.
class PeerProcess {
 public:
  PeerProcess(std::int64_t id, const std::string& its_namespace);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  bool has_ended() const;

 private:
  int fd_ = -1;
};

}  // namespace coil::runtime::groups
