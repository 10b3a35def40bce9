// Where kernels tell that they failed, and what must not run behind one that did.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan.h"

namespace coil::runtime {

/// The status words of a plan's kernel calls that can fail, counted from 1 in the plan's order; 0 stands for kernels
/// that cannot. Where a plan stops on failure (plan.h), nothing that comes after a failed step may write to memory of
/// the caller: such steps are guarded.
class FailureStatuses {
 public:
  /// `memory_of`: for each buffer, the one whose memory it lives in. The queue is begun.
  FailureStatuses(const Plan&, std::span<const BufferId> memory_of, Queue&);

  /// What the kernel of a step finds as its status; null where it has none to look at.
  /// `on_host`: of the kernels of a program over several devices those that the host runs.
  void* word_of(std::uint32_t failure, std::size_t step, bool on_host) const;
  /// The status of a kernel that looks at it in any case; the plan stops on failure, and some kernel may fail.
  void* status_of(std::uint32_t failure) const { return reinterpret_cast<FailureStatus*>(statuses_.bytes()) + failure; }
  /// Whether a step of the plan writes to memory of the caller behind one that may fail.
  bool guards(std::size_t step) const { return !guarded_.empty() && guarded_[step]; }
  /// Throws Error when this one has failed. On a device that runs ahead only what has been waited for has told.
  void check(std::uint32_t failure) {
    if (*failures_[failure].status) fail_run(failures_[failure]);
  }
  /// Throws Error when any kernel has failed, likewise.
  void check();

 private:
  struct Failure {
    std::int64_t* status;
    const std::string* message;
  };
  void find_guarded_steps(std::span<const BufferId> memory_of);
  void copy_to_device();
  [[noreturn]] void fail_run(const Failure&);

  const Plan& plan_;
  Queue& queue_;
  std::vector<Failure> failures_;     ///< the first is of kernels that cannot fail
  std::vector<bool> guarded_;         ///< for each step, where the plan stops on failure
  Tensor statuses_, clear_statuses_;  ///< there, four words each: on the device, and as they are before a run
};

}  // namespace coil::runtime
