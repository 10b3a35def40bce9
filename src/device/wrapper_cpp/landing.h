// For programs over a GPU and the CPU: copies of values to the host that end while the host goes on.
#pragma once
#include "memory_gpu.h"

// @piece landing
namespace {

/// Copies to memory of the host that are on their way. Their memory is held until they have been waited for, whoever
/// else lets go of it, be it in a run that failed.
class Landing {
 public:
  Landing(Queue& queue, Failures& failures) : queue_(queue), failures_(failures) {}
  Landing(const Landing&) = delete;
  ~Landing() {
    if (!copies_.empty()) coil_queue_wait(queue_.handle);
    release();
  }
  void add(void* data, void* owner) { copies_.emplace_back(data, coil_retain(owner)); }
  /// Before somebody touches the memory there.
  void await(const void* data) {
    for (const auto& copy : copies_)
      if (copy.first == data) return finish();
  }
  /// Waits for all of them; fails where a kernel has.
  void finish() {
    if (copies_.empty()) return;
    queue_.wait();
    release();
    failures_.look();
  }

 private:
  void release() {
    for (const auto& copy : copies_) coil_free(copy.second);
    copies_.clear();
  }
  Queue& queue_;
  Failures& failures_;
  std::vector<std::pair<void*, void*>> copies_;  ///< memory, and the block that holds it
};

}  // namespace
