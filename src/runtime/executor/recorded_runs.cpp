#include "runtime/executor/recorded_runs.h"

#include <algorithm>

#include "runtime/executor/recorded_parts.h"

namespace coil::runtime {

void RecordedRuns::run(Binding& binding, Queue& queue) {
  const std::span<const std::uint64_t> state = binding.state();
  auto found =
      std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return std::ranges::equal(e.state, state); });
  if (found == kept_.end()) {
    binding.run_steps();
    kept_.push_front({{state.begin(), state.end()}, nullptr, false});
    keep_at_most(most_);
    return;
  }
  kept_.splice(kept_.begin(), kept_, found);
  if (!found->work) {
    if (!found->refused) found->work = try_to_record(queue, [&] { binding.record_steps(); });
    found->refused = !found->work;
    if (found->refused) return binding.run_steps();
  }
  queue.run_recorded(*found->work);
}

void RecordedRuns::keep_at_most(std::size_t count) {
  most_ = std::max<std::size_t>(count, 1);
  while (kept_.size() > most_) kept_.pop_back();
}

}  // namespace coil::runtime
