// Kernels that hold more memory at once than their parts would need one after the other are taken apart again.
#pragma once
#include "scheduler/peak.h"
#include "scheduler/schedule.h"

namespace coil::scheduler {

/// What fusions may add to the estimated peak, since they save time: one part in so many, and so many bytes.
inline constexpr std::uint64_t kFusionSlack = 8;
inline constexpr std::uint64_t kFusionSlackBytes = 1 << 20;

/// The items as steps over buffers: what is made and used within a kernel has no memory, and a kernel without an inner
/// loop may write over an operand of equal size.
MemoryProgram memory_of(ir::Graph&, const Schedule&);

/// Groups of pointwise operations that read or write many large values, each part of them made or used elsewhere (a sum
/// of a hundred sorted matrices, a kernel that makes the operands of a hundred products), and rows that have nothing of
/// one another, become a kernel for each part where that lowers the peak of the best order by more than the slack; else
/// they stay. Groups that the lower peak has room for are put together again. What is taken apart is a refusal that
/// says so.
void split_for_memory(ir::Graph&, Schedule&);

/// Says anew which buffers need no memory, after groups changed.
void find_internal(const ir::Graph&, Schedule&);

}  // namespace coil::scheduler
