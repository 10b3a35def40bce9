// The order of steps in which a program waits least for exchanges with other processes.
//
// Time is a model: one step runs after the other, and beside them each process group carries out its exchanges, one
// after the other in the order in which they start. A wait takes until its exchange is over.
#pragma once
#include <optional>

#include "scheduler/peak.h"

namespace coil::scheduler {

struct TimedStep {
  double seconds = 0;  ///< that the step itself takes
  /// Of a step that starts an exchange: the group, by number, and how long that takes there.
  std::optional<std::size_t> group;
  double exchange_seconds = 0;
  bool is_done_at_once = false;     ///< the step is over when the exchange is
  std::optional<StepId> waits_for;  ///< the step that starts what this one waits for
  /// Exchanges of one kind that is not 0 may start together. `bytes` are those of the results, and each but the first
  /// saves `saved_seconds` of an exchange.
  std::size_t kind = 0;
  std::uint64_t bytes = 0;
  double saved_seconds = 0;
};

struct TimedProgram {
  MemoryProgram memory;
  std::vector<TimedStep> steps;  ///< as those of `memory`
};

struct Span {
  double begin = 0, end = 0;
};
struct Timeline {
  std::vector<Span> steps;      ///< by step
  std::vector<Span> exchanges;  ///< of steps that start one
  double seconds = 0;           ///< until all is over
};
Timeline timeline(const TimedProgram&, std::span<const StepId> order);

struct OverlapLimits {
  std::uint64_t bucket_bytes = 0;  ///< of exchanges that start together
  std::uint64_t peak_bytes = 0;    ///< of temporaries
};

/// Steps in their new order. Those that start together are in one list, in the order in which they were; each other
/// step is a list by itself.
struct OverlapOrder {
  std::vector<std::vector<StepId>> steps;
  double written_seconds = 0, seconds = 0;
  Peak written, found;
};

/// Of several orders the one that takes the least time; the written one unless another takes less. Starts come as early
/// and waits as late as the steps' order among each other lets them, with what an exchange needs computed first; starts
/// keep their order. A start that others join moves to the last of them, which only happens where that saves time. An
/// order whose peak is above both that of the written one and the limit is not taken. The same program gives the same
/// order. Time n log n in steps and what they touch, and for what starts together their number by all steps.
OverlapOrder overlap_exchanges(const TimedProgram&, const OverlapLimits&);

}  // namespace coil::scheduler
