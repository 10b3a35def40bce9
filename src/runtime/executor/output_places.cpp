// Temporaries in the memory of outputs, on the CPU: it has no other user before the output's first step, and the arena
// is kept between calls.
#include <algorithm>

#include "runtime/executor/binding.h"
#include "runtime/plan/output_rooms.h"

namespace coil::runtime {

void Binding::place_in_outputs(std::vector<BufferId>& temporaries, std::vector<Interval>& intervals,
                               std::vector<std::uint64_t>& offsets) {
  now_.in_outputs.clear();
  const bool is_plain = queue_.device().is_host() && !walks() && others_.size() == 0 && host_ops_.empty();
  if (!is_plain || borrows_memory_ || now_.outputs.empty() || temporaries.empty()) return;
  const std::vector<std::uint32_t> first = first_uses_of_outputs();
  std::vector<OutputRoom> rooms;
  for (std::size_t k = 0; k < now_.outputs.size(); ++k) rooms.push_back({now_.outputs[k].bytes, first[k]});
  std::vector<Interval> lives;
  for (BufferId id : temporaries) lives.push_back(intervals[id]);
  const RoomPlan plan = plan_output_rooms(lives, rooms, now_.arena_bytes);
  if (plan.arena >= now_.arena_bytes) return;
  now_.in_outputs.resize(plan_.buffers.size());
  std::vector<BufferId> left;
  for (std::size_t k = 0; k < temporaries.size(); ++k) {
    const BufferId id = temporaries[k];
    if (plan.room_of[k] == RoomPlan::kArena) {
      left.push_back(id);
      offsets[id] = plan.offsets[k];
    } else {
      now_.in_outputs[id] = {static_cast<std::int32_t>(plan.room_of[k]), plan.offsets[k]};
      intervals[id] = {};
    }
  }
  temporaries = std::move(left);
  now_.arena_bytes = static_cast<std::size_t>(plan.arena);
}

/// The steps of the plan that touch them first; those that no step touches are never free.
std::vector<std::uint32_t> Binding::first_uses_of_outputs() const {
  std::vector<std::uint32_t> first(now_.outputs.size(), 0);
  std::vector<bool> seen(now_.outputs.size(), false);
  for (std::uint32_t s = 0; s < plan_.steps.size(); ++s)
    for_each_buffer(plan_.steps[s], [&](BufferId b) {
      const BufferId owner = memory_of_[b];
      if (plan_.buffers[owner].kind != BufferKind::Output || late_buffer_[owner]) return;
      const std::uint32_t k = output_index_[owner];
      if (!seen[k]) seen[k] = true, first[k] = s;
    });
  return first;
}

}  // namespace coil::runtime
