#include "runtime/recorded_runs.h"

#include <algorithm>

namespace coil::runtime {

void RecordedRuns::run(Binding& binding, Queue& queue) {
  const std::span<const std::uint64_t> state = binding.state();
  auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Entry& e) { return std::ranges::equal(e.state, state); });
  if (found == kept_.end()) {
    binding.run_steps();
    kept_.push_front({{state.begin(), state.end()}, nullptr});
    if (kept_.size() > kKept) kept_.pop_back();
    return;
  }
  kept_.splice(kept_.begin(), kept_, found);
  if (!found->work) {
    if (!queue.begin_recording()) return binding.run_steps();
    try {
      binding.record_steps();
    } catch (...) {
      try {
        queue.end_recording();  // what was recorded is dropped; the first error is the one to tell
      } catch (...) {
      }
      throw;
    }
    found->work = queue.end_recording();
  }
  queue.run_recorded(*found->work);
}

}  // namespace coil::runtime
