#include "runtime/device/cached_op.h"

#include <algorithm>

#include "runtime/device/threads.h"

namespace coil::runtime {

void CachedOp::prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  const int threads = thread_count();
  auto found = std::find_if(prepared_.begin(), prepared_.end(), [&](const Entry& e) {
    return e.threads == threads && std::ranges::equal(e.inputs, inputs) && std::ranges::equal(e.outputs, outputs);
  });
  if (found != prepared_.end()) {
    prepared_.splice(prepared_.begin(), prepared_, found);
    return;
  }
  Entry entry{{inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, threads, make(inputs, outputs)};
  prepared_.push_front(std::move(entry));
  if (prepared_.size() > kKept) prepared_.pop_back();
}

}  // namespace coil::runtime
