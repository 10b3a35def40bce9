// Parts of a bound plan as they run: what each depends on, the memory that it alone sizes, and which of its steps touch
// the same memory.
#include <algorithm>
#include <cstring>

#include "runtime/executor/binding.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {

void Binding::find_parts() {
  plan_parts_ = parts_of(plan_, stages_);
  int depth = 0;
  std::uint32_t at = 0;
  for (const Part& part : plan_parts_) {
    part_memory_.push_back(memory_of(plan_, part));
    for (; at < part.first; ++at)
      if (const auto* c = std::get_if<Control>(&plan_.steps[at])) {
        depth += c->kind == Control::Kind::If || c->kind == Control::Kind::Loop;
        depth -= c->kind == Control::Kind::EndIf || c->kind == Control::Kind::EndLoop;
      }
    at = part.end;
    in_block_.push_back(depth > 0);
  }
}

// Where a library call turns out to be the host's for these sizes, a part falls into several.
void Binding::bind_parts() {
  now_.parts.clear();
  now_.part_at.assign(now_.steps.size(), -1);
  std::uint32_t at = 0;
  for (std::uint32_t k = 0; k < plan_parts_.size(); ++k) {
    const Part& part = plan_parts_[k];
    while (at < now_.steps.size() && now_.plan_step[at] < part.first) ++at;
    std::uint32_t end = at;
    while (end < now_.steps.size() && now_.plan_step[end] < part.end) ++end;
    if (walks()) {
      if (steps_of(part) <= kMostRecorded) add_part(k, at, end);
    } else {
      for (std::uint32_t i = at, first = at; i <= end; ++i) {
        if (i < end && can_be_recorded(i)) continue;
        add_part(k, first, i);
        first = i + 1;
      }
    }
    at = end;
  }
}

std::size_t Binding::steps_of(const Part& part) const {
  std::vector<std::size_t> turns{1};  // of the loops around a step, all together
  std::size_t steps = 0;
  for (std::uint32_t k = part.first; k < part.end && steps <= kMostRecorded; ++k) {
    const auto* c = std::get_if<Control>(&plan_.steps[k]);
    if (c && c->kind == Control::Kind::EndLoop) turns.pop_back();
    steps += turns.back();
    if (c && c->kind == Control::Kind::Loop)
      turns.push_back(std::min<std::size_t>(
          kMostRecorded, turns.back() * static_cast<std::size_t>(std::max<std::int64_t>(0, slot(c->value)))));
  }
  return steps;
}

bool Binding::can_be_recorded(std::uint32_t bound) const {
  if (const auto* k = std::get_if<KernelStep>(&now_.steps[bound])) return !k->settles;
  const auto* e = std::get_if<ExternStep>(&now_.steps[bound]);
  return e && !e->op->runs_on_host() && !failures_.guards(now_.plan_step[bound]);
}

void Binding::add_part(std::uint32_t part, std::uint32_t first, std::uint32_t end) {
  if (end - first < kFewestRecorded) return;
  BoundPart out{part, first, end};
  std::vector<bool> seen(plan_.buffers.size(), false);
  for (std::uint32_t k = first; k < end; ++k) {
    const Step& step = plan_.steps[now_.plan_step[k]];
    out.uses_workspace = out.uses_workspace || std::holds_alternative<ExternCall>(step);
    out.in_order =
        out.in_order || std::holds_alternative<LateStep>(now_.steps[k]) || std::holds_alternative<Control>(step);
    for_each_buffer(step, [&](BufferId b) {
      const BufferId owner = memory_of_[b];
      if (seen[owner]) return;
      seen[owner] = true;
      add_root(out, owner);
    });
  }
  now_.part_at[first] = static_cast<std::int32_t>(now_.parts.size());
  now_.parts.push_back(std::move(out));
}

void Binding::add_root(BoundPart& part, BufferId owner) const {
  const Buffer& b = plan_.buffers[owner];
  const auto add = [&](const std::vector<Patch>& patches) {
    if (!patches.empty()) part.roots.push_back(patches.front());
  };
  if (late_buffer_[owner])
    part.late.push_back(owner);
  else if (b.kind == BufferKind::Input)
    add(now_.inputs[b.index].patches);
  else if (b.kind == BufferKind::Output)
    add(now_.outputs[output_index_[owner]].patches);
  else if (b.kind == BufferKind::Temporary)
    part.uses_arena = true;
}

/// Everything else that a part's work depends on stays as it is while the sizes do. What is put together here grows
/// with what crosses a part's borders, not with its steps.
std::span<const std::uint64_t> Binding::key_of(const BoundPart& part) {
  static_assert(sizeof(void*) == sizeof(std::uint64_t));
  const auto number = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
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
  state_.resize(state_sizes_);
  state_.push_back(part.first);
  if (part.uses_arena) state_.push_back(number(arena_.data.get()));
  if (part.uses_workspace) state_.push_back(number(workspace_.data.get()));
  for (const Patch& p : part.roots) state_.push_back(number(now_.words[p.word]) - p.offset);
  for (BufferId owner : part.late) state_.push_back(number(late_memory_[owner].data.get()));
  if (late_)
    for (Slot s : plan_parts_[part.part].sizes)
      if (is_late(s)) state_.push_back(static_cast<std::uint64_t>(now_.slots[s]));
  return state_;
}

void Binding::run_part(const BoundPart& part, const OutputAllocator& allocate) {
  enter_part(part_memory_[part.part], allocate);
  struct Inside {
    bool& flag;
    explicit Inside(bool& f) : flag(f) { flag = true; }
    ~Inside() { flag = false; }
  };
  {
    const Inside inside(in_part_);
    const auto run = [&] {
      if (late_) return walk(part.first, part.end, allocate, nullptr);
      for (std::uint32_t i = part.first; i < part.end; ++i) {
        step_now_ = i;
        run_bound(now_.steps[i]);
      }
    };
    parts_->run(part.part, key_of(part), in_block_[part.part], run, [&] { record_part(part, allocate); });
  }
  leave_part(part_memory_[part.part]);
  if (!queue_.runs_ahead()) failures_.check();
}

void Binding::record_part(const BoundPart& part, const OutputAllocator& allocate) {
  if (part.in_order) {  // one after another, as the walk comes to them
    queue_.begin_step({});
    walk(part.first, part.end, allocate, nullptr);
    queue_.end_step({});
    return;
  }
  std::vector<std::uint32_t> steps;
  std::vector<std::vector<Touch>> touched;
  for (std::uint32_t i = part.first; i < part.end; ++i)
    if (!std::holds_alternative<std::monostate>(now_.steps[i])) steps.push_back(i), touched.push_back(touches(i));
  const std::vector<StepOrder> orders = order_steps(touched, queue_.lanes());
  for (std::size_t k = 0; k < steps.size(); ++k) {
    queue_.begin_step(orders[k]);
    step_now_ = steps[k];
    run_bound(now_.steps[steps[k]]);
    queue_.end_step(orders[k]);
  }
}

// ---- Memory that only the run sizes: a part's own lies in one block, so that it is found again where it was ----

void Binding::enter_part(PartMemory& memory, const OutputAllocator& allocate) {
  for (BufferId b : memory.made) allocate_late(b, allocate);
  if (memory.inside.empty()) return;
  bool same = !memory.places.offsets.empty();
  for (std::size_t i = 0; i < memory.inside.size(); ++i) {
    const Buffer& b = plan_.buffers[memory.inside[i]];
    slot(b.bytes);
    const std::uint64_t bytes = slot_bytes(b.bytes, b.name);
    same = same && memory.when[i].bytes == bytes;
    memory.when[i].bytes = now_.buffer_bytes[memory.inside[i]] = bytes;
  }
  if (!same) memory.places = plan_arena(memory.when, ArenaEffort::Call);
  const Storage block = queue_.allocate(memory.places.peak);
  for (std::size_t i = 0; i < memory.inside.size(); ++i)
    late_memory_[memory.inside[i]] = {{block.data, block.data.get() + memory.places.offsets[i]},
                                      static_cast<std::size_t>(memory.when[i].bytes),
                                      block.device};
  late_bytes_ += memory.places.peak;
  late_peak_ = std::max(late_peak_, late_bytes_);
}

void Binding::leave_part(const PartMemory& memory) {
  for (BufferId b : memory.freed) free_late(b);
  if (memory.inside.empty()) return;
  for (BufferId b : memory.inside) late_memory_[b] = {};
  late_bytes_ -= memory.places.peak;
}

// ---- What steps touch ----

std::uintptr_t Binding::base_of(BufferId owner) const {
  if (late_) return reinterpret_cast<std::uintptr_t>(late_address(owner));
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
