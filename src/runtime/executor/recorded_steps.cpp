// What a recording of bound steps is told: all that their work depends on, and which of them touch the same memory.
#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/executor/binding.h"
#include "runtime/views/strided_copy.h"

namespace coil::runtime {

std::span<const std::uint64_t> Binding::state() {
  if (state_sizes_ == 0) {
    state_.assign(1, now_.seen.size());
    for (const SeenInput& s : now_.seen) {
      state_.push_back(s.sizes.size());
      state_.insert(state_.end(), s.sizes.begin(), s.sizes.end());
      state_.insert(state_.end(), s.strides.begin(), s.strides.end());
      state_.push_back(static_cast<std::uint64_t>(s.value));
    }
    state_sizes_ = state_.size();
  }
  state_.resize(state_sizes_ + now_.words.size() + 2);
  static_assert(sizeof(void*) == sizeof(std::uint64_t));
  std::memcpy(state_.data() + state_sizes_, now_.words.data(), now_.words.size() * sizeof(void*));
  state_[state_.size() - 2] = reinterpret_cast<std::uint64_t>(arena_.data.get());  // where late steps find temporaries
  state_.back() = reinterpret_cast<std::uint64_t>(workspace_.data.get());
  return state_;
}

void Binding::flush_parts() {
  if (!parts_ || !parts_->pending()) return;
  parts_->flush([this](std::int64_t step) -> std::vector<Touch> {
    if (step < 0)
      return {{0, std::numeric_limits<std::uintptr_t>::max(), true}};  // one whose memory the run alone tells
    return touches(static_cast<std::size_t>(step));
  });
  if (!queue_.runs_ahead()) failures_.check();
}

void Binding::record_steps() {
  if (late_) {  // one after another, as the walk comes to them
    queue_.begin_step({});
    walk_steps({});
    queue_.end_step({});
    return;
  }
  std::vector<std::vector<Touch>> touched;
  for (std::size_t i = 0; i < now_.steps.size(); ++i) touched.push_back(touches(i));
  const std::vector<StepOrder> orders = order_steps(touched, queue_.lanes());
  for (std::size_t i = 0; i < now_.steps.size(); ++i) {
    queue_.begin_step(orders[i]);
    run_bound(now_.steps[i]);
    queue_.end_step(orders[i]);
  }
}

std::uintptr_t Binding::base_of(BufferId owner) const {
  const Buffer& b = plan_.buffers[owner];
  const auto patched = [&](const std::vector<Patch>& patches) {
    return patches.empty()
               ? 0
               : reinterpret_cast<std::uintptr_t>(now_.words[patches.front().word]) - patches.front().offset;
  };
  if (b.kind == BufferKind::Input) return patched(now_.inputs[b.index].patches);
  if (b.kind == BufferKind::Output) return patched(now_.outputs[output_index_[owner]].patches);
  return reinterpret_cast<std::uintptr_t>(now_.buffer_base[owner]);
}

std::vector<Touch> Binding::touches(std::size_t bound) const {
  std::vector<Touch> out;
  const Step& step = plan_.steps[now_.plan_step[bound]];
  if (const auto* call = std::get_if<KernelCall>(&step)) {
    for (std::uint32_t k = 0; k < call->buffers.size(); ++k) {
      const BufferId owner = memory_of_[call->buffers[k]];
      // Older plans do not tell.
      const bool writes = call->written.empty() || std::ranges::find(call->written, k) != call->written.end();
      out.push_back({base_of(owner), base_of(owner) + now_.buffer_bytes[owner], writes});
    }
    return out;
  }
  const auto& call = std::get<ExternStep>(now_.steps[bound]);
  const auto& views = std::get<ExternCall>(step);
  auto add = [&](const std::vector<View>& of, std::uint32_t words, bool writes) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      const BoundView v = bind_view(of[i]);
      const auto begin = reinterpret_cast<std::uintptr_t>(now_.words[words + i]);
      out.push_back(
          {begin, begin + static_cast<std::uintptr_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype), writes});
    }
  };
  add(views.inputs, call.inputs, false);
  add(views.outputs, call.outputs, true);
  const auto scratch = reinterpret_cast<std::uintptr_t>(workspace_.data.get());
  out.push_back({scratch, scratch + call.op->workspace_bytes(), true});
  return out;
}

}  // namespace coil::runtime
