// Steps whose sizes or memory are only known as the program runs, and the branches and loops around them.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/executor/binding.h"
#include "support/error.h"

namespace coil::runtime {

void Binding::find_late() {
  late_memory_.resize(plan_.buffers.size());
  late_buffer_.assign(plan_.buffers.size(), false);
  late_base_.assign(plan_.buffers.size(), -1);
  undefined_.assign(plan_.shape_program.size(), false);
  for (const Step& step : plan_.steps) {
    if (const auto* a = std::get_if<AllocateBuffer>(&step)) late_buffer_[memory_of_[a->buffer]] = true;
    late_ = late_ || std::holds_alternative<ReadSymbol>(step) || std::holds_alternative<SetNumber>(step) ||
            std::holds_alternative<Control>(step);
  }
  find_blocks();
  // An assertion outside of blocks whose sizes are known is checked before anything runs.
  int depth = 0;
  for (const Step& step : plan_.steps) {
    using Kind = Control::Kind;
    if (const auto* c = std::get_if<Control>(&step))
      depth += c->kind == Kind::If || c->kind == Kind::Loop         ? 1
               : c->kind == Kind::EndIf || c->kind == Kind::EndLoop ? -1
                                                                    : 0;
    const auto* assertion = std::get_if<AssertCall>(&step);
    early_assert_.push_back(assertion && depth == 0 && !is_late(assertion->condition));
  }
}

void Binding::find_blocks() {
  block_end_.resize(plan_.steps.size());
  int depth = 0;
  std::uint32_t first = 0;
  for (std::uint32_t k = 0; k < plan_.steps.size(); ++k) {
    block_end_[k] = k;
    const auto* c = std::get_if<Control>(&plan_.steps[k]);
    if (!c) continue;
    using Kind = Control::Kind;
    if ((c->kind == Kind::If || c->kind == Kind::Loop) && depth++ == 0) first = k;
    if ((c->kind != Kind::EndIf && c->kind != Kind::EndLoop) || --depth > 0) continue;
    blocks_.push_back({first, k});
    std::fill(block_end_.begin() + first, block_end_.begin() + k, k);
  }
}

void Binding::add_late_words() {
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& b = plan_.buffers[id];
    if (memory_of_[id] != id || late_buffer_[id]) continue;
    const bool comes = (b.kind == BufferKind::Input && !plan_.inputs[b.index].unused) || b.kind == BufferKind::Output ||
                       (b.kind == BufferKind::Temporary && b.place == 0 && has_pieces());
    late_base_[id] = comes ? static_cast<std::int32_t>(now_.words.size()) : -1;
    if (comes) add_word(id, 0);
  }
}

LateStep Binding::bind_late(const Step& step, std::uint32_t site, std::uint32_t failure) {
  for_each_buffer(step, [&](BufferId b) { use(memory_of_[b]); });
  return {site, failure};
}

bool Binding::is_late(const View& v) const {
  auto late = [&](Slot s) { return is_late(s); };
  return late_buffer_[memory_of_[v.buffer]] || late(v.offset) || std::any_of(v.sizes.begin(), v.sizes.end(), late) ||
         std::any_of(v.strides.begin(), v.strides.end(), late);
}

bool Binding::is_late(const Step& step) const {
  if (const auto* k = std::get_if<KernelCall>(&step))
    return is_late(k->extent) || is_late(k->grain) ||
           (!k->grid.empty() && (is_late(k->shared_bytes) ||
                                 std::any_of(k->grid.begin(), k->grid.end(), [&](Slot s) { return is_late(s); }))) ||
           std::any_of(k->scalars.begin(), k->scalars.end(), [&](Slot s) { return is_late(s); }) ||
           std::any_of(k->arguments.begin(), k->arguments.end(), [&](const auto& a) { return is_late(a.value); }) ||
           std::any_of(k->buffers.begin(), k->buffers.end(), [&](BufferId b) { return late_buffer_[memory_of_[b]]; });
  if (const auto* e = std::get_if<ExternCall>(&step)) {
    auto late = [&](const View& v) { return is_late(v); };
    return std::any_of(e->inputs.begin(), e->inputs.end(), late) ||
           std::any_of(e->outputs.begin(), e->outputs.end(), late);
  }
  if (const auto* h = std::get_if<HostCall>(&step)) {
    auto late = [&](const View& v) { return is_late(v); };
    auto late_argument = [&](const auto& self, const HostArgument& a) -> bool {
      if (const auto* i = std::get_if<HostInteger>(&a)) return is_late(i->slot);
      const auto* list = std::get_if<std::vector<HostArgument>>(&a);
      return list && std::any_of(list->begin(), list->end(), [&](const HostArgument& x) { return self(self, x); });
    };
    return std::any_of(h->arguments.begin(), h->arguments.end(),
                       [&](const NamedHostArgument& a) { return late_argument(late_argument, a.value); }) ||
           std::any_of(h->inputs.begin(), h->inputs.end(), late) ||
           std::any_of(h->outputs.begin(), h->outputs.end(), [&](const auto& v) { return v && is_late(*v); });
  }
  return true;
}

bool Binding::is_late(const Output& out) const {
  switch (out.kind) {
    case Output::Kind::Tensor: return is_late(out.view);
    case Output::Kind::Int:
    case Output::Kind::Bool: return is_late(out.value);
    default: return false;
  }
}

void Binding::begin_watching() {
  checker_->begin();
  for (BufferId id = 0; id < plan_.buffers.size(); ++id)
    if (memory_of_[id] == id && !late_buffer_[id] && now_.buffer_bytes[id] > 0)
      checker_->allocated(id, late_address(id), now_.buffer_bytes[id], plan_.buffers[id].kind == BufferKind::Temporary);
}

void Binding::walk_steps(const MemoryHooks& hooks) {
  late_peak_ = 0;
  ComingAndGoing memory{hooks};
  if (checker_) reach(kNoStep, memory);
  if (checker_) begin_watching();
  if (seconds_) seconds_->assign(plan_.steps.size(), 0);
  walk(0, now_.steps.size(), hooks.allocate, &memory);
  reach(kNoStep, memory);
  if (checker_) checker_->end();
  for (std::size_t k = 0; k < plan_.outputs.size(); ++k)
    if (is_late(plan_.outputs[k])) now_.results[k] = bind_result(plan_.outputs[k]);
}

/// Memory comes and goes with whole blocks; `memory` is null within a part that is recorded.
void Binding::walk(std::size_t from, std::size_t to, const OutputAllocator& allocate, ComingAndGoing* memory) {
  for (std::size_t at = from; at < to;) {
    const BoundPart* part = part_at(at);
    const std::uint32_t last = block_end_[part ? part->end - 1 : at];
    if (memory) reach(last, *memory);
    if (part) {
      run_part(*part, allocate);
      at = part->end;
    } else {
      at = walk_step(at, allocate);
    }
    if (memory && at > last) leave(last, *memory);
  }
}

/// The step that comes next.
std::size_t Binding::walk_step(std::size_t here, const OutputAllocator& allocate) {
  std::size_t at = here;
  if (checker_) checker_->before(here);
  const auto start = std::chrono::steady_clock::now();
  const BoundStep& bound = now_.steps[at];
  step_now_ = static_cast<std::int64_t>(here);
  const Step& step = plan_.steps[at++];
  if (const auto* k = std::get_if<KernelStep>(&bound))
    run_bound(*k, now_.words.data());
  else if (const auto* e = std::get_if<ExternStep>(&bound))
    run_bound(*e);
  else if (const auto* h = std::get_if<HostStep>(&bound))
    run_bound(*h);
  else if (const auto* c = std::get_if<Control>(&step))
    at = walk_control(*c, here);
  else if (const auto* late = std::get_if<LateStep>(&bound))
    run_late(step, *late, allocate);
  if (checker_) checker_->after(here, at);
  if (!seconds_) return at;
  if (queue_.runs_ahead()) queue_.wait();
  (*seconds_)[here] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return at;
}

/// The step that comes behind a border.
std::size_t Binding::walk_control(const Control& c, std::size_t at) {
  using Kind = Control::Kind;
  switch (c.kind) {
    case Kind::If:
    case Kind::BreakUnless: return slot(c.value) == 0 ? c.target : at + 1;
    case Kind::Else: return c.target;
    case Kind::EndIf: return at + 1;
    case Kind::Loop:
      if (slot(c.value) <= 0) return c.target;
      set_number(c.counter, 0);
      return at + 1;
    case Kind::EndLoop: break;
  }
  const auto& loop = std::get<Control>(plan_.steps[c.target]);
  const std::int64_t next = now_.slots[loop.counter] + 1;
  if (stop_ && stop_()) fail("the run was interrupted in a loop, after {} turns", next);
  if (next >= slot(loop.value)) return at + 1;
  set_number(loop.counter, next);
  return c.target + std::size_t{1};
}

void Binding::release() {
  if (!landing_.empty()) {  // the run failed before anybody waited for what still comes to this memory
    landing_.clear();
    try {
      queue_.wait();
    } catch (const Error&) {  // it failed already, and says why
    }
  }
  if (takes_memory_for_each_run()) arena_ = {}, workspace_ = {};
  if (borrows_memory_)
    for (OtherMemory& other : other_memory_) other = {};
  for (Storage& piece : piece_memory_) piece = {};
  if (!late_) return;
  for (Storage& s : late_memory_) s = {};
  late_bytes_ = 0;
}

void Binding::run_late(const Step& step, const LateStep& late, const OutputAllocator& allocate) {
  if (const auto* k = std::get_if<KernelCall>(&step))
    return run_late_kernel(*k, late.failure, static_cast<std::size_t>(step_now_));
  if (const auto* e = std::get_if<ExternCall>(&step)) return run_late_extern(*e, late.site);
  if (const auto* h = std::get_if<HostCall>(&step)) return run_late_host(*h, *host_ops_[late.site]);
  const auto* a = std::get_if<AllocateBuffer>(&step);
  const auto* f = std::get_if<FreeBuffer>(&step);
  if ((a || f) && in_part_) return;  // a part's memory is there while the part is
  if (a) return allocate_late(a->buffer, allocate);
  if (f) {
    await_copies_of(step);
    return free_late(f->buffer);
  }
  if (const auto* r = std::get_if<ReadSymbol>(&step)) {
    std::int64_t value = 0;
    await_copies_of(step);
    Queue& queue = queue_of(plan_.buffers[r->source].place);
    if (queue.device() == Device{}) {
      std::memcpy(&value, late_address(r->source), sizeof value);
    } else {
      Tensor to = Tensor::empty(DType::I64, {}), from = to;
      from.storage = {
          {late_memory_[memory_of_[r->source]].data, late_address(r->source)}, sizeof value, queue.device()};
      queue.copy(to, from);
      queue.wait();
      value = *to.data<std::int64_t>();
    }
    return set_number(r->symbol, value);
  }
  if (const auto* s = std::get_if<SetNumber>(&step)) return set_number(s->symbol, slot(s->value));
  const auto& assertion = std::get<AssertCall>(step);
  if (undefined_[assertion.condition])
    fail("{}: a number in it has no value, for it is divided by zero, not a number, or does not fit in 64 bits",
         assertion.message);
  if (slot(assertion.condition) == 0) fail("{}", assertion.message);
}

void Binding::set_number(Slot s, std::int64_t value) {
  now_.slots[s] = value;
  undefined_[s] = false;
  run_late_shape_program(plan_.shape_program, stages_.after[stages_.of[s]], now_.slots, undefined_);
}

void Binding::free_late(BufferId id) {
  const BufferId owner = memory_of_[id];
  if (checker_) checker_->freed(owner);
  late_bytes_ -= now_.buffer_bytes[owner];
  late_memory_[owner] = {};
}

void Binding::allocate_late(BufferId id, const OutputAllocator& allocate) {
  const Buffer& b = plan_.buffers[id];
  const BufferId owner = memory_of_[id];
  slot(b.bytes);
  now_.buffer_bytes[owner] = slot_bytes(b.bytes, b.name);
  const bool guarded = checker_ && b.kind != BufferKind::Output;
  constexpr std::uint64_t kGuard = LifetimeChecker::kGuard;
  const std::size_t bytes = now_.buffer_bytes[owner] + (guarded ? 2 * kGuard : 0);
  Storage& memory = late_memory_[owner] = b.place != 0                   ? allocate_on(b.place, bytes)
                                          : b.kind == BufferKind::Output ? allocate(bytes)
                                                                         : queue_.allocate(bytes);
  if (guarded) memory.data = std::shared_ptr<std::byte>(memory.data, memory.data.get() + kGuard);
  if (checker_) checker_->allocated(owner, memory.data.get(), now_.buffer_bytes[owner], guarded);
  late_bytes_ += now_.buffer_bytes[owner];
  if (b.kind != BufferKind::Output) late_peak_ = std::max(late_peak_, late_bytes_);
}

std::byte* Binding::late_address(BufferId id) const {
  const BufferId owner = memory_of_[id];
  if (late_buffer_[owner]) return late_memory_[owner].data.get();
  if (late_base_[owner] >= 0) return static_cast<std::byte*>(now_.words[static_cast<std::size_t>(late_base_[owner])]);
  return now_.buffer_base[owner];
}

void Binding::run_late_kernel(const KernelCall& call, std::uint32_t failure, std::size_t step) {
  std::optional<Launch> l = launch_of(call);
  if (!l) return;
  const bool gpu = !call.grid.empty();
  late_words_.clear();
  l->words = 0;
  KernelStep bound{*l, failure, plan_.kernels[call.kernel].place, settles(call, step)};
  const auto point = [&](BufferId b, std::uint64_t offset) {
    std::byte* base = late_address(b);
    late_words_.push_back(base ? base + offset : nullptr);
  };
  if (!call.arguments.empty()) {
    argument_block(call, bound, late_words_, point);
  } else {
    for (BufferId b : call.buffers) late_words_.push_back(late_address(b));
    if (gpu) scalars(call, late_words_);
    late_words_.push_back(failures_.word_of(failure, step, !gpu));
    if (!gpu) scalars(call, late_words_);
    descriptors(call, bound, late_words_, point);
  }
  run_bound(bound, late_words_.data());
  now_.tensor_maps.resize(now_.tensor_maps.size() - bound.map_count);
}

void Binding::run_late_extern(const ExternCall& call, std::uint32_t site) {
  LibraryOp& op = *ops_[site];
  settle(static_cast<std::size_t>(step_now_));
  if (others_.size() > 0) await_copies_of(plan_.steps[now_.plan_step[static_cast<std::size_t>(step_now_)]]);
  std::vector<BoundView> in, out;
  for (const View& v : call.inputs) in.push_back(bind_view(v));
  for (const View& v : call.outputs) out.push_back(bind_view(v));
  if (has_nothing_to_do(op, out)) return;
  late_words_.clear();
  auto point_at = [&](const View& v, const BoundView& bound) {
    std::byte* base = late_address(v.buffer);
    late_words_.push_back(base ? base + static_cast<std::uint64_t>(view_offset(v, bound)) * size_of(bound.dtype)
                               : nullptr);
  };
  for (std::size_t i = 0; i < in.size(); ++i) point_at(call.inputs[i], in[i]);
  for (std::size_t i = 0; i < out.size(); ++i) point_at(call.outputs[i], out[i]);
  if (prepare(site, std::move(in), std::move(out))) {
    if (op.workspace_bytes() > workspace(op_places_[site]).bytes) {
      ask_calls();
      grow_workspace();
    }
  }
  if (op.runs_on_host() && queue_.is_recording()) fail("{} is the host's to carry out for these sizes", call.op);
  op.run({late_words_.data(), call.inputs.size()}, {late_words_.data() + call.inputs.size(), call.outputs.size()},
         workspace(op_places_[site]).data.get());
  after_copy(call);
}

void Binding::run_late_host(const HostCall& call, HostOp& op) {
  settle(static_cast<std::size_t>(step_now_));
  await_copies_of(plan_.steps[static_cast<std::size_t>(step_now_)]);
  std::vector<BoundView> in, out;
  late_words_.clear();
  auto take = [&](const View& v, std::vector<BoundView>& views) {
    views.push_back(bind_view(v));
    std::byte* base = late_address(v.buffer);
    late_words_.push_back(base ? base + static_cast<std::uint64_t>(view_offset(v, views.back())) * size_of(v.dtype)
                               : nullptr);
  };
  for (const View& v : call.inputs) take(v, in);
  for (const auto& v : call.outputs)
    if (v) take(*v, out);
  op.prepare(in, out, now_.slots);
  op.run({late_words_.data(), in.size()}, {late_words_.data() + in.size(), out.size()});
}

void Binding::fail_undefined() const {
  fail("a size that the program computes as it runs has no value: it is divided by zero, or does not fit in 64 bits");
}

}  // namespace coil::runtime
