// The order of steps in which a program needs the least memory.
#pragma once
#include <string_view>

#include "scheduler/peak.h"

namespace coil::scheduler {

struct MemoryOrder {
  std::vector<StepId> steps;
  std::string_view name;  ///< what found it: `as written`, `least growth`, …
  Peak written, found;
};

/// Of several orders the one with the lowest estimated peak of temporaries; of equal ones the first, and the written
/// one before all. Time n log n in steps and what they touch; the same program gives the same order.
///
/// Lists are made from either end by taking the step that grows memory least, breadth first, and depth first from the
/// results by the rule that is best for trees: of two operands the one is made first whose making needs more beyond
/// what it leaves (J. Liu, "On the storage requirement in the out-of-core multifrontal method", 1986). The best of them
/// is then improved where its peak is: a window of up to 64 steps around it is searched, to the optimum where few
/// states are open at a time (memory_search.h).
MemoryOrder order_for_memory(const MemoryProgram&);
/// The order of order_for_memory without the search.
MemoryOrder listed_for_memory(const MemoryProgram&);

/// The order with each step that reads nothing, such as one that fills a result with zeros to be added to, right before
/// the first step that touches what it makes or must follow it: the peak is never higher.
std::vector<StepId> begun_late(const MemoryProgram&, const std::vector<StepId>& order);

/// The orders that it starts from, each with its name.
std::vector<StepId> written_order(const MemoryProgram&);
enum class Growth : std::uint8_t { Net, Transient };
/// Takes, of the steps that may run, the one after which least is live (Net), or while which least is (Transient).
std::vector<StepId> list_order(const MemoryProgram&, Growth);
/// What reads nothing, what reads only that, and so on.
std::vector<StepId> level_order(const MemoryProgram&);
/// Each result's operands right before it, in the order that is best for trees.
std::vector<StepId> demand_order(const MemoryProgram&);
/// The program from its end to its beginning: what touches first touches last.
MemoryProgram reversed(const MemoryProgram&);

}  // namespace coil::scheduler
