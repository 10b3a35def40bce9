// Bound steps as they run, one after another, but for the parts that are recorded.
#include "runtime/executor/binding.h"

namespace coil::runtime {

void Binding::run_steps(const MemoryHooks& hooks) {
  if (walks()) return walk_steps(hooks);
  ComingAndGoing memory{hooks};
  for (std::size_t i = 0; i < now_.steps.size(); ++i) {
    const BoundPart* part = part_at(i);
    const std::size_t begin = i;
    if (part) i = part->end - 1;
    reach(static_cast<std::uint32_t>(i), memory);
    step_now_ = static_cast<std::int64_t>(begin);
    if (part)
      run_part(*part, hooks.allocate);
    else
      run_bound(now_.steps[begin]);
    leave(static_cast<std::uint32_t>(i), memory);
  }
  reach(kNoStep, memory);
}

void Binding::reach(std::uint32_t last, ComingAndGoing& m) {
  const std::vector<std::uint32_t>& outputs = now_.by_first_use;
  for (; m.hooks.output_needed && m.needed < outputs.size() && now_.outputs[outputs[m.needed]].first <= last;
       ++m.needed)
    m.hooks.output_needed(outputs[m.needed]);
  for (; m.taken < now_.pieces.size() && now_.pieces[m.taken].first <= last; ++m.taken) take_piece(m.taken);
}

void Binding::leave(std::uint32_t last, ComingAndGoing& m) {
  const std::vector<std::uint32_t>&pieces = now_.pieces_by_last, &inputs = now_.by_last_use;
  for (; m.given_back < m.taken && now_.pieces[pieces[m.given_back]].last <= last; ++m.given_back)
    piece_memory_[pieces[m.given_back]] = {};
  const std::size_t from = m.done;
  while (m.hooks.inputs_done && m.done < inputs.size() && now_.inputs[inputs[m.done]].last <= last) ++m.done;
  if (m.done > from) m.hooks.inputs_done(std::span(inputs).subspan(from, m.done - from));
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
