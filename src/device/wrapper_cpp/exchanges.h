// What programs that exchange values with other processes have beside the calls.
#pragma once
#include "helpers.h"

// @piece exchanges
namespace {

/// A place in memory that all ranks of a process group reach.
struct CommPlace {
  Address data;
  void free() { data.at = nullptr; }
};

/// Memory that all ranks of a group reach. The first run makes it, together with the other ranks; later runs find the
/// same places in it.
class Comm {
 public:
  Comm(const char* group, size_t bytes, const char* plan) : group_(group), bytes_(bytes), plan_(plan) {}
  Comm(const Comm&) = delete;
  ~Comm() { coil_comm_close(memory_); }
  CommPlace at(size_t offset) {
    if (!memory_) memory_ = open_comm(group_, bytes_, plan_);
    if (!memory_) fail(coil_last_error());
    return {{static_cast<char*>(coil_comm_data(memory_)) + offset}};
  }

  void abandon() { coil_comm_abandon(memory_); }

 private:
  const char* group_;
  size_t bytes_;
  const char* plan_;
  coil_comm* memory_ = nullptr;
};

/// A run: where it fails, other ranks are told.
struct CommRun {
  Comm& comm;
  int exceptions = std::uncaught_exceptions();
  ~CommRun() {
    if (std::uncaught_exceptions() > exceptions) comm.abandon();
  }
};

/// An exchange with other processes that was started: it ends before the memory goes that it reads and writes.
struct Exchange {
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  ~Exchange() { coil_groups_settle(); }
};

}  // namespace
