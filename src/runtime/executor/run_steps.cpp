// Bound steps as they run, one after another, but for the parts that are recorded.
#include "runtime/executor/binding.h"

namespace coil::runtime {

void Binding::run_steps(const MemoryHooks& hooks) {
  if (walks()) {
    for (std::uint32_t k = 0; k < now_.outputs.size() && hooks.output_needed; ++k) hooks.output_needed(k);
    return walk_steps(hooks.allocate);
  }
  const std::size_t count = now_.steps.size();
  std::size_t needed = hooks.output_needed ? 0 : now_.by_first_use.size(),
              done = hooks.inputs_done ? 0 : now_.by_last_use.size();
  std::uint32_t taken = 0, given_back = 0;  // pieces
  for (std::size_t i = 0; i < count; ++i) {
    const BoundPart* part = part_at(i);
    const std::size_t begin = i;
    if (part) i = part->end - 1;
    for (; needed < now_.by_first_use.size() && now_.outputs[now_.by_first_use[needed]].first <= i; ++needed)
      hooks.output_needed(now_.by_first_use[needed]);
    for (; taken < now_.pieces.size() && now_.pieces[taken].first <= i; ++taken) take_piece(taken);
    step_now_ = static_cast<std::int64_t>(begin);
    if (part)
      run_part(*part, hooks.allocate);
    else
      run_bound(now_.steps[begin]);
    for (; given_back < taken && now_.pieces[now_.pieces_by_last[given_back]].last <= i; ++given_back)
      piece_memory_[now_.pieces_by_last[given_back]] = {};
    const std::size_t from = done;
    while (done < now_.by_last_use.size() && now_.inputs[now_.by_last_use[done]].last <= i) ++done;
    if (done > from) hooks.inputs_done(std::span(now_.by_last_use).subspan(from, done - from));
  }
  for (; needed < now_.by_first_use.size(); ++needed)
    hooks.output_needed(now_.by_first_use[needed]);  // there are no steps
}

void Binding::run_bound(const BoundStep& step) {
  if (const auto* k = std::get_if<KernelStep>(&step))
    run_bound(*k, now_.words.data());
  else if (const auto* h = std::get_if<HostStep>(&step))
    run_bound(*h);
  else
    run_bound(std::get<ExternStep>(step));
}

void Binding::make_tensor_maps(const KernelStep& k, void** words, Queue& queue) {
  for (BoundTensorMap& m : std::span(now_.tensor_maps).subspan(k.maps, k.map_count)) {
    if (m.made_for == words[m.from]) continue;
    queue.make_tensor_map(m.shape, words[m.from], words + m.to);
    m.made_for = words[m.from];
  }
}

void Binding::run_bound(const KernelStep& k, void** words) {
  if (k.place != 0) return run_elsewhere(k, words);
  if (k.settles) settle(static_cast<std::size_t>(step_now_));
  if (k.map_count > 0) make_tensor_maps(k, words, queue_);
  queue_.launch(k.launch, words);
  if (k.failure && !queue_.runs_ahead() && !in_part_) failures_.check(k.failure);
}

void Binding::run_bound(const HostStep& h) {
  settle(static_cast<std::size_t>(step_now_));
  await_copies_of(plan_.steps[now_.plan_step[static_cast<std::size_t>(step_now_)]]);
  void* const* words = now_.words.data();
  h.op->run({words + h.inputs, h.input_count}, {words + h.outputs, h.output_count});
}

void Binding::run_bound(const ExternStep& e) {
  settle(static_cast<std::size_t>(step_now_));
  void* const* words = now_.words.data();
  if (others_.size() > 0) return run_between(e, words);
  void* const scratch = e.scratch >= 0 ? words[e.scratch] : workspace_.data.get();
  e.op->run({words + e.inputs, e.input_count}, {words + e.outputs, e.output_count}, scratch);
}

void Binding::settle(std::size_t bound) {
  if (!failures_.guards(now_.plan_step[bound])) return;
  queue_.wait();
  failures_.check();
}

}  // namespace coil::runtime
