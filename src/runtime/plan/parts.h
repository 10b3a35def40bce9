// The parts of a plan as a run takes them: those that the plan tells, or what can be found in one that tells none.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/plan/arena_planner.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/shape_program.h"

namespace coil::runtime {

/// A recording of fewer steps costs more than it saves, and one of more is put together for too long.
inline constexpr std::size_t kFewestRecorded = 2, kMostRecorded = 1 << 13;

/// The buffers that a step reads or writes; where it allocates or frees one, none.
void for_each_buffer(const Step&, const std::function<void(BufferId)>&);

/// Whether a step asks nothing of the host and touches memory of the plan's first device alone; that a library carries
/// it out there is for others to say.
bool can_be_in_part(const Plan&, const Step&);

/// The plan's own parts; of a plan without (of versions before 12), runs of kernels and library calls in one block,
/// whole blocks among them that go the same way in all runs with the same sizes. Those depend on all numbers that steps
/// before them give.
std::vector<Part> parts_of(const Plan&, const ShapeStages&);

/// Memory of a part that only the run sizes.
struct PartMemory {
  std::vector<BufferId> made;    ///< that it allocates and that lives on, in order
  std::vector<BufferId> freed;   ///< that it frees and that was there before
  std::vector<BufferId> inside;  ///< that it allocates and frees: these lie in one block
  std::vector<Interval> when;    ///< the steps between which each of those is there; bytes are the last run's
  ArenaPlan places;              ///< of those in the block
};
PartMemory memory_of(const Plan&, const Part&);

}  // namespace coil::runtime
