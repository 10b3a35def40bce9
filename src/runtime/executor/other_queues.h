// The queues of a context beside that of its program's device: of a program over several devices, one for each of the
// others.
#pragma once
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace coil::runtime {

class OtherQueues {
 public:
  explicit OtherQueues(std::span<const std::shared_ptr<DeviceRuntime>> devices) {
    for (const auto& device : devices) queues_.push_back(device->make_queue());
  }
  /// The queue of the device at a place in the plan, from 1 on.
  Queue& at(std::uint32_t place) const { return *queues_.at(place - 1); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(queues_.size()); }
  void wait() const {
    for (const auto& queue : queues_) queue->wait();
  }

 private:
  friend class OtherQueuesScope;
  std::vector<std::unique_ptr<Queue>> queues_;
};

/// QueueScope of all of them.
class OtherQueuesScope {
 public:
  explicit OtherQueuesScope(const OtherQueues& queues) : queues_(queues) {
    for (; begun_ < queues_.queues_.size(); ++begun_) try {
        queues_.queues_[begun_]->begin();
      } catch (...) {
        end();
        throw;
      }
  }
  ~OtherQueuesScope() { end(); }
  OtherQueuesScope(const OtherQueuesScope&) = delete;
  OtherQueuesScope& operator=(const OtherQueuesScope&) = delete;

 private:
  void end() noexcept {
    while (begun_ > 0) queues_.queues_[--begun_]->end();
  }
  const OtherQueues& queues_;
  std::size_t begun_ = 0;
};

}  // namespace coil::runtime
