// Watches the runs of a plan that was compiled with `assert_lifetimes`: a step uses memory only while it lives and
// after something was written there, and writes only to what it was given to write to.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/arena_planner.h"
#include "runtime/plan/plan.h"
#include "support/hash.h"

namespace coil::runtime {

/// Slow: the contents of all temporaries and outputs are hashed after each step. For finding faults in plans, kernels
/// and the planner, on memory of the host. Memory without a value holds bytes of 0xff, which is NaN in every floating
/// type.
class LifetimeChecker {
 public:
  /// Bytes before and behind each temporary that nobody may write to.
  static constexpr std::uint64_t kGuard = 64;

  explicit LifetimeChecker(const Plan&);

  /// Throws Error when two temporaries that live at once lie over each other. Intervals and offsets are by buffer, of
  /// those in `temporaries`.
  void check_placement(std::span<const BufferId> temporaries, std::span<const Interval> intervals,
                       std::span<const std::uint64_t> offsets) const;
  /// Each with memory of its own, between guards: what is read after it was freed has not become something else.
  static ArenaPlan apart(std::span<const BufferId> temporaries, std::span<const Interval> intervals);

  /// A run begins; nothing has memory.
  void begin();
  /// An owner of memory has it from now on. `guarded`: kGuard bytes lie before and behind it.
  void allocated(BufferId owner, std::byte* data, std::uint64_t bytes, bool guarded);
  /// Throws Error when it is not allocated.
  void freed(BufferId owner);
  /// Around a step. Throws Error naming the step and the buffer.
  void before(std::size_t step);
  void after(std::size_t step, std::size_t next);  ///< `next`: the step that comes then
  /// The run is over: inputs and constants are what they were.
  void end();

 private:
  struct Memory {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0, guard = 0;
    Hash128 seen;         ///< of the bytes and the guards, after the last step
    BufferId holder = 0;  ///< the buffer that was written there last, of those that share it
    bool there = false;
    bool alive() const { return there && bytes > 0; }
    std::span<const std::byte> all() const { return {data - guard, bytes + 2 * guard}; }
  };
  struct Use {
    BufferId buffer;
    bool write;
  };

  std::vector<Use> uses(const Step&) const;
  std::string describe(std::size_t step) const;
  /// Whether its place among the steps says when a buffer lives; others live between `allocated` and `freed`.
  bool is_timed(BufferId owner) const { return plan_.buffers[owner].kind == BufferKind::Temporary && !late_[owner]; }
  bool is_given(BufferId owner) const {
    return plan_.buffers[owner].kind == BufferKind::Input || plan_.buffers[owner].kind == BufferKind::Constant;
  }
  void check_guards(std::size_t step, BufferId owner) const;
  void clear(BufferId owner);

  const Plan& plan_;
  std::vector<BufferId> owner_;              ///< of each buffer's memory
  std::vector<bool> late_;                   ///< memory owners that steps allocate
  std::vector<std::vector<BufferId>> ends_;  ///< for each step, the owners that live until then
  std::vector<Memory> memory_;               ///< of owners
  std::vector<bool> has_value_;              ///< of buffers
  std::vector<bool> was_written_;            ///< of owners, in this run
};

}  // namespace coil::runtime
