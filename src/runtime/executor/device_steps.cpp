// Programs over several devices: memory, and the steps that are carried out beside the program's device or between it
// and others. What is queued on a device that runs ahead goes on while the host works; copies are where they meet.
#include <algorithm>

#include "library_ops/check.h"
#include "library_ops/copies.h"
#include "library_ops/table.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/device_copy.h"
#include "runtime/plan/arena_planner.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

bool is_copy(const ExternCall& call) { return library_ops::has(call.op, library_ops::Trait::DeviceCopy); }

}  // namespace

std::unique_ptr<LibraryOp> Binding::make_op(const ExternCall& call) const {
  if (!is_copy(call)) return queue_of(plan_.place_of(call)).make_op(call.op, call.attributes);
  library_ops::check_attributes(library_ops::get(call.op), call.attributes);
  return make_device_copy(queue_of(plan_.buffers[call.inputs.at(0).buffer].place),
                          queue_of(plan_.buffers[call.outputs.at(0).buffer].place), is_ahead(call));
}

bool Binding::is_ahead(const ExternCall& call) const {
  return is_copy(call) && plan_.device_of(plan_.place_of(call)).is_host() &&
         read(call.attributes, library_ops::copies::kNonBlocking);
}

void Binding::bind_other_arenas(const std::vector<Interval>& intervals, std::vector<std::uint64_t>& offsets) {
  for (std::uint32_t place = 1; place <= others_.size(); ++place) {
    std::vector<Interval> here(intervals.size());
    std::vector<BufferId> temporaries;
    bool planned = true;
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      const Buffer& b = plan_.buffers[id];
      if (b.place != place || b.kind != BufferKind::Temporary || memory_of_[id] != id || late_buffer_[id]) continue;
      temporaries.push_back(id);
      here[id] = intervals[id];
      planned = planned && b.arena_offset >= 0;
    }
    OtherArena& arena = now_.others[place - 1];
    arena.bytes = plan_.others[place - 1].static_arena_bytes;
    ArenaPlan made;
    if (!planned) made = plan_arena(here, ArenaEffort::Call), arena.bytes = made.peak;
    for (BufferId id : temporaries)
      offsets[id] = planned ? static_cast<std::uint64_t>(plan_.buffers[id].arena_offset) : made.offsets[id];
  }
}

Storage Binding::allocate_on(std::uint32_t place, std::size_t bytes) const {
  Queue& there = queue_of(place);
  return lands_ahead_ && there.device().is_host() ? queue_.allocate_on_host(bytes) : there.allocate(bytes);
}

void Binding::take_other_memory() {
  for (std::uint32_t place = 1; place <= others_.size(); ++place) {
    OtherArena& bound = now_.others[place - 1];
    Storage& memory = other_memory_[place - 1].arena;
    if (memory.bytes < bound.bytes) {
      memory = {};
      memory = allocate_on(place, bound.bytes);
    }
    if (memory.data.get() == bound.base) continue;
    bound.base = memory.data.get();
    for (const Patch& p : bound.patches) now_.words[p.word] = memory.data.get() + p.offset;
    for (BufferId id : now_.temporaries)
      if (plan_.buffers[id].place == place) now_.buffer_base[id] = memory.data.get() + now_.arena_offset[id];
  }
}

void Binding::await_copies_of(const Step& step) {
  if (landing_.empty()) return;
  bool touches = false;
  const auto look = [&](BufferId b) {
    touches = touches || std::ranges::find(landing_, memory_of_[b]) != landing_.end();
  };
  for_each_buffer(step, look);
  if (const auto* f = std::get_if<FreeBuffer>(&step)) look(f->buffer);
  if (touches) await_copies();
}

void Binding::await_copies() {
  if (landing_.empty()) return;
  landing_.clear();
  queue_.wait();
  others_.wait();
  failures_.check();
}

void Binding::after_copy(const ExternCall& call) {
  if (!is_copy(call) || !plan_.device_of(plan_.place_of(call)).is_host()) return;
  if (is_ahead(call))
    landing_.push_back(memory_of_[call.outputs.front().buffer]);
  else
    failures_.check();  // the device has been waited for: the host goes on with what is right alone
}

void Binding::run_elsewhere(const KernelStep& k, void** words) {
  settle(static_cast<std::size_t>(step_now_));
  await_copies_of(plan_.steps[now_.plan_step[static_cast<std::size_t>(step_now_)]]);
  Queue& queue = queue_of(k.place);
  if (k.map_count > 0) make_tensor_maps(k, words, queue);
  queue.launch(k.launch, words);
  if (k.failure && !queue.runs_ahead()) failures_.check(k.failure);
}

void Binding::run_between(const ExternStep& e, void* const* words) {
  const auto& call = std::get<ExternCall>(plan_.steps[now_.plan_step[static_cast<std::size_t>(step_now_)]]);
  await_copies_of(plan_.steps[now_.plan_step[static_cast<std::size_t>(step_now_)]]);
  void* const scratch = e.scratch >= 0 ? words[e.scratch] : workspace(e.place).data.get();
  e.op->run({words + e.inputs, e.input_count}, {words + e.outputs, e.output_count}, scratch);
  after_copy(call);
}

}  // namespace coil::runtime
