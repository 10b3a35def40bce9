#include "runtime/binding.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/arena_planner.h"
#include "runtime/constant_memory.h"
#include "runtime/messages.h"
#include "runtime/plan_check.h"
#include "runtime/shape_program.h"
#include "runtime/strided_copy.h"
#include "runtime/threads.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

std::string describe(const Tensor& t) { return fmt::format("{}[{}]", short_name(t.dtype), fmt::join(t.sizes, ", ")); }

}  // namespace

Binding::Binding(const Model::Impl& model, Queue& queue) : model_(model), plan_(model.plan), queue_(queue), constants_(model.constants), stages_(model.plan.shape_program) {
  const QueueScope scope(queue_);
  copy_states();
  reads_stride_.assign(plan_.inputs.size(), false);
  reads_value_.assign(plan_.inputs.size(), false);
  for (const ShapeInstruction& in : plan_.shape_program) {
    if (in.op == ShapeOp::InputStride) reads_stride_[static_cast<std::size_t>(in.a)] = true;
    if (in.op == ShapeOp::InputValue) reads_value_[static_cast<std::size_t>(in.a)] = true;
  }
  output_index_.assign(plan_.buffers.size(), 0);
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    memory_of_.push_back(memory_of(plan_, id));
    if (memory_of_[id] == id && plan_.buffers[id].kind == BufferKind::Output && !is_late(plan_.buffers[id].bytes)) {
      output_index_[id] = static_cast<std::uint32_t>(outputs.size());
      outputs.emplace_back();
    }
  }
  failures_.push_back({nullptr, nullptr});
  for (const Step& step : plan_.steps) {
    if (const auto* call = std::get_if<ExternCall>(&step)) sites_.push_back({queue_.make_op(call->op, call->attributes), {}, {}, false});
    if (const auto* call = std::get_if<KernelCall>(&step); call && !plan_.kernels[call->kernel].failure.empty()) failures_.push_back({nullptr, &plan_.kernels[call->kernel].failure});
  }
  for (const Step& step : plan_.steps)
    if (const auto* call = std::get_if<HostCall>(&step)) host_ops_.push_back(model_.host(*call));
  const std::span<std::int64_t> words = queue_.shared_words(failures_.size());
  for (std::size_t i = 0; i < failures_.size(); ++i) failures_[i].status = &words[i];
  reads_values_ = std::ranges::find(reads_value_, true) != reads_value_.end();
  slots_.resize(plan_.shape_program.size());
  last_.resize(plan_.inputs.size());
  inputs.resize(plan_.inputs.size());
  find_late();
  find_guarded_steps();
  if (!plan_.check_lifetimes) return;
  if (queue_.device() != Device{}) fail("lifetimes are checked on the cpu, not on {}; compile for the cpu, or without assert_lifetimes", to_string(queue_.device()));
  checker_ = std::make_unique<LifetimeChecker>(plan_);
}

bool Binding::writes_for_caller(const Step& step) const {
  auto of_caller = [&](BufferId id) {
    const Buffer& b = plan_.buffers[memory_of_[id]];
    return b.kind == BufferKind::Input || b.kind == BufferKind::Constant;
  };
  if (const auto* k = std::get_if<KernelCall>(&step)) return std::ranges::any_of(k->written, [&](std::uint32_t i) { return of_caller(k->buffers[i]); });
  if (const auto* e = std::get_if<ExternCall>(&step)) return std::ranges::any_of(e->outputs, [&](const View& v) { return of_caller(v.buffer); });
  if (const auto* h = std::get_if<HostCall>(&step)) return std::ranges::any_of(h->outputs, [&](const auto& v) { return v && of_caller(v->buffer); });
  return false;
}

void Binding::find_guarded_steps() {
  if (!plan_.stops_on_failure || failures_.size() < 2) return;
  const bool loops = std::ranges::any_of(plan_.steps, [](const Step& s) { return std::holds_alternative<Control>(s); });
  bool may_have_failed = loops;
  for (const Step& step : plan_.steps) {
    guarded_.push_back(may_have_failed && writes_for_caller(step));
    const auto* call = std::get_if<KernelCall>(&step);
    may_have_failed = may_have_failed || (call && !plan_.kernels[call->kernel].failure.empty());
  }
  const auto count = static_cast<std::int64_t>(failures_.size());
  clear_statuses_ = Tensor::empty(DType::I64, {4 * count});
  statuses_ = clear_statuses_;
  statuses_.storage = queue_.allocate(static_cast<std::size_t>(count) * 32);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t* words = clear_statuses_.data<std::int64_t>() + 4 * i;
    words[0] = 0;
    words[1] = reinterpret_cast<std::int64_t>(failures_[static_cast<std::size_t>(i)].status);
    words[2] = reinterpret_cast<std::int64_t>(statuses_.bytes());
    words[3] = count;
  }
  queue_.copy(statuses_, clear_statuses_);
}

void* Binding::status_of(std::uint32_t failure, std::size_t step) const {
  // The word that the host looks at lies across the bus: only a kernel that fails may touch it.
  if (!plan_.stops_on_failure) return failure || plan_.device == Device{} ? failures_[failure].status : nullptr;
  return statuses_.storage.data && (failure || guarded_[step]) ? statuses_.bytes() + std::size_t{failure} * 32 : nullptr;
}

void Binding::settle(std::size_t bound) {
  if (guarded_.empty() || !guarded_[plan_step_[bound]]) return;
  flush_parts();
  queue_.wait();
  check_failures();
}

bool Binding::Site::prepare(std::vector<BoundView> in, std::vector<BoundView> out) {
  if (prepared && inputs == in && outputs == out) return false;
  prepared = false;
  op->prepare(in, out);
  inputs = std::move(in);
  outputs = std::move(out);
  prepared = true;
  return true;
}

void Binding::copy_states() {
  for (const ConstantPiece& piece : constant_pieces(constants_)) {
    // Constants that share memory with a state see its writes: the piece moves whole.
    if (std::none_of(piece.constants.begin(), piece.constants.end(), [&](std::size_t i) { return plan_.constants[i].state; })) continue;
    move_piece(piece, queue_.allocate(piece.bytes()), 0, constants_, queue_);
  }
}

void Binding::bind(std::span<const Tensor> given) {
  if (given.size() != plan_.inputs.size()) {
    std::vector<std::string> names;
    for (const Input& in : plan_.inputs) names.push_back(in.name);
    fail("the program takes {} inputs ({}), but {} were given", names.size(), fmt::join(names, ", "), given.size());
  }
  if (threads_ != thread_count()) {
    for (Site& site : sites_) site.prepared = false;
    shelf_.clear();
    bound_ = false;
  }
  if (bound_ && looks_like(last_, given)) return;
  const bool bound = std::exchange(bound_, false);
  threads_ = thread_count();
  if (bound && !walks() && host_ops_.empty() && take_from_shelf(given)) {
    if (!borrows_memory_) take_memory();
    bound_ = true;
    return;
  }
  check_inputs(given);
  run_shape_program(plan_.shape_program, stages_.after[0], given, slots_);
  bind_inputs(given);
  check_conditions(given);
  bind_memory();
  bind_steps();
  bind_results();
  repeats_ = takes_the_same_steps();
  if (!borrows_memory_) take_memory();
  remember(given);
  bound_ = true;
  if (has_listener()) {
    std::vector<std::string> shapes;
    for (const Tensor& t : given) shapes.push_back(describe(t));
    tell(MessageLevel::Debug, "bound for ({}): {} bytes of temporaries, {} of scratch memory", fmt::join(shapes, ", "), arena_bytes_, workspace_bytes_);
  }
}

bool Binding::looks_like(const std::vector<Seen>& seen, std::span<const Tensor> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor& t = given[i];
    if ((t.dtype != plan_.inputs[i].dtype && !plan_.inputs[i].unused) || !same_numbers(t.sizes, seen[i].sizes)) return false;
    if (reads_stride_[i] && !same_numbers(t.strides, seen[i].strides)) return false;
    if (t.strides.size() != t.sizes.size()) return false;
    if (reads_value_[i] && integer_value(t) != seen[i].value) return false;
  }
  return true;
}

bool Binding::take_from_shelf(std::span<const Tensor> given) {
  state_sizes_ = 0;
  for (auto found = shelf_.begin(); found != shelf_.end(); ++found) {
    if (!looks_like((*found)->last, given)) continue;
    exchange(**found);
    std::rotate(shelf_.begin(), found, found + 1);
    for (Site& site : sites_)
      if (site.prepared) site.op->prepare(site.inputs, site.outputs);
    return true;
  }
  // Where sizes are mostly new there is little to keep: one in eight replaces the oldest.
  if (shelf_.size() == kShelved && ++misses_ % 8 != 0) return false;
  if (shelf_.size() < kShelved) shelf_.push_back(std::make_unique<Shelved>());
  std::rotate(shelf_.begin(), shelf_.end() - 1, shelf_.end());
  exchange(*shelf_.front());
  slots_.resize(plan_.shape_program.size());
  last_.resize(plan_.inputs.size());
  inputs.resize(plan_.inputs.size());
  outputs.resize(shelf_.front()->outputs.size());
  for (Site& site : sites_) site.prepared = false;
  return false;
}

void Binding::exchange(Shelved& other) {
  last_.swap(other.last), slots_.swap(other.slots);
  inputs.swap(other.inputs), outputs.swap(other.outputs), results.swap(other.results);
  buffer_bytes_.swap(other.buffer_bytes), buffer_base_.swap(other.buffer_base);
  words_.swap(other.words), steps_.swap(other.steps), plan_step_.swap(other.plan_step);
  by_first_use_.swap(other.by_first_use), by_last_use_.swap(other.by_last_use);
  temporaries_.swap(other.temporaries), arena_offset_.swap(other.arena_offset), arena_patches_.swap(other.arena_patches);
  std::swap(arena_base_, other.arena_base), std::swap(arena_bytes_, other.arena_bytes), std::swap(workspace_bytes_, other.workspace_bytes);
  other.sites.resize(sites_.size());
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    sites_[i].inputs.swap(other.sites[i].inputs), sites_[i].outputs.swap(other.sites[i].outputs);
    std::swap(sites_[i].prepared, other.sites[i].prepared);
  }
}

void Binding::remember(std::span<const Tensor> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {  // without new memory for each input
    last_[i].sizes = given[i].sizes;
    last_[i].strides = given[i].strides;
    last_[i].value = reads_value_[i] ? integer_value(given[i]) : 0;
  }
  state_sizes_ = 0;
}

void Binding::check_inputs(std::span<const Tensor> given) const {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Input& expected = plan_.inputs[i];
    const Tensor& t = given[i];
    if (expected.unused && !reads_value_[i]) {
      if (t.sizes.size() < expected.sizes.size() || t.strides.size() != t.sizes.size())
        fail("input '{}' has {} dimensions, but the program takes {}", expected.name, t.sizes.size(), expected.sizes.size());
      continue;
    }
    if (t.dtype != expected.dtype)
      fail("input '{}' is {}, but the program takes {}", expected.name, torch_name(t.dtype), torch_name(expected.dtype));
    if (t.sizes.size() != expected.sizes.size() || t.strides.size() != t.sizes.size())
      fail("input '{}' has {} dimensions ({}), but the program takes {}", expected.name, t.sizes.size(), describe(t), expected.sizes.size());
    for (std::int64_t s : t.sizes)
      if (s < 0) fail("input '{}' has a negative size: {}", expected.name, describe(t));
    if (reads_value_[i] && (!t.storage.data || t.storage.bytes < static_cast<std::size_t>(t.offset + 1) * size_of(t.dtype)))
      fail("input '{}' reaches outside of its memory", expected.name);
  }
}

void Binding::bind_inputs(std::span<const Tensor> given) {
  auto fill = [&](Sizes& values, const std::vector<Slot>& from) {  // without new memory for each input
    values.resize(from.size());
    for (std::size_t d = 0; d < from.size(); ++d) values[d] = slots_[from[d]];
  };
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Input& expected = plan_.inputs[i];
    BoundInput& bound = inputs[i];
    bound.patches.clear();
    bound.aliased = false;
    if (expected.unused) continue;
    fill(bound.sizes, expected.sizes);
    fill(bound.strides, expected.strides);
    for (std::size_t d = 0; d < bound.sizes.size(); ++d)
      if (given[i].sizes[d] != bound.sizes[d])
        fail("input '{}' has size {} in dimension {}, but the program takes {} ({} was given)", expected.name, given[i].sizes[d], d,
             bound.sizes[d], describe(given[i]));
    bound.span = layout_span(bound.sizes, bound.strides);
  }
}

void Binding::check_conditions(std::span<const Tensor> given) const {
  auto check = [&](Slot condition, const std::string& message) {
    if (slot(condition) != 0) return;
    std::vector<std::string> shapes;
    for (std::size_t i = 0; i < given.size(); ++i) shapes.push_back(plan_.inputs[i].name + " " + describe(given[i]));
    fail("{} (given: {})", message, fmt::join(shapes, ", "));
  };
  for (const Check& c : plan_.checks) check(c.condition, c.message);
  for (std::size_t k = 0; k < plan_.steps.size(); ++k)
    if (early_assert_[k]) check(std::get<AssertCall>(plan_.steps[k]).condition, std::get<AssertCall>(plan_.steps[k]).message);
}

std::size_t Binding::slot_bytes(Slot s, const std::string& buffer) const {
  if (slots_[s] < 0) fail("buffer {} would have {} bytes for these sizes", buffer, slots_[s]);
  return static_cast<std::size_t>(slots_[s]);
}

Sizes Binding::slots(const std::vector<Slot>& from) const {
  Sizes values;
  values.reserve(from.size());
  for (Slot s : from) values.push_back(slots_[s]);
  return values;
}

void Binding::bind_memory() {
  const std::size_t n = plan_.buffers.size();
  buffer_bytes_.assign(n, 0);
  buffer_base_.assign(n, nullptr);
  std::vector<Interval> intervals(n);
  std::vector<BufferId> temporaries;
  bool planned = true;  // by the compiler
  for (BufferId id = 0; id < n; ++id) {
    const Buffer& b = plan_.buffers[id];
    const BufferId owner = memory_of_[id];
    if (late_buffer_[owner]) continue;
    switch (plan_.buffers[owner].kind) {
      case BufferKind::Input: {
        const BoundInput& in = inputs[plan_.buffers[owner].index];
        buffer_bytes_[owner] = static_cast<std::uint64_t>(in.span) * size_of(plan_.inputs[plan_.buffers[owner].index].dtype);
        break;
      }
      case BufferKind::Constant: {
        const Tensor& c = constants_[plan_.buffers[owner].index];
        buffer_bytes_[owner] = static_cast<std::uint64_t>(layout_span(c.sizes, c.strides)) * size_of(c.dtype);
        buffer_base_[owner] = c.bytes();
        break;
      }
      case BufferKind::Output:
        buffer_bytes_[owner] = std::max<std::uint64_t>(buffer_bytes_[owner], slot_bytes(b.bytes, b.name));
        outputs[output_index_[owner]].bytes = buffer_bytes_[owner];
        break;
      case BufferKind::Temporary: {
        buffer_bytes_[owner] = std::max<std::uint64_t>(buffer_bytes_[owner], slot_bytes(b.bytes, b.name));
        Interval& live = intervals[owner];
        if (id == owner) temporaries.push_back(id);
        live.first = live.bytes == 0 && live.last == 0 ? b.first : std::min(live.first, b.first);
        live.last = std::max(live.last, b.last);
        live.bytes = buffer_bytes_[owner];
        if (id == owner && b.arena_offset < 0) planned = false;
        break;
      }
    }
  }
  std::vector<std::uint64_t> offsets(n, 0);
  arena_bytes_ = plan_.static_arena_bytes;
  if (planned) {
    for (BufferId id : temporaries) offsets[id] = static_cast<std::uint64_t>(plan_.buffers[id].arena_offset);
  } else {
    ArenaPlan arena = plan_arena(intervals);
    offsets = std::move(arena.offsets);
    arena_bytes_ = arena.peak;
  }
  if (checker_) {
    checker_->check_placement(temporaries, intervals, offsets);
    ArenaPlan apart = LifetimeChecker::apart(temporaries, intervals);
    offsets = std::move(apart.offsets);
    arena_bytes_ = apart.peak;
  }
  for (BufferId id : temporaries)
    if (buffer_bytes_[id] > arena_bytes_ || offsets[id] > arena_bytes_ - buffer_bytes_[id])
      fail("the plan is broken: buffer {} lies outside of the arena", plan_.buffers[id].name);
  temporaries_ = std::move(temporaries);
  arena_offset_ = std::move(offsets);
}

void Binding::take_memory() {
  if (arena_.bytes < arena_bytes_) {
    arena_ = {};
    queue_.planned_bytes = arena_bytes_ + model_.weight_bytes;
    for (const BoundOutputBuffer& out : outputs) queue_.planned_bytes += out.bytes;
    arena_ = queue_.allocate(arena_bytes_);
  }
  grow_workspace();
  if (arena_.data.get() == arena_base_) return;
  arena_base_ = arena_.data.get();
  place(arena_patches_, arena_.data.get());
  for (BufferId id : temporaries_) buffer_base_[id] = arena_.data.get() + arena_offset_[id];
}

void Binding::point(BufferId buffer, std::uint64_t byte_offset) {
  const BufferId owner = memory_of_[buffer];
  const auto at = static_cast<std::uint32_t>(words_.size());
  const Buffer& b = plan_.buffers[owner];
  std::byte* base = buffer_base_[owner];
  words_.push_back(base ? base + byte_offset : nullptr);
  if (b.kind == BufferKind::Temporary && !late_buffer_[owner]) arena_patches_.push_back({at, arena_offset_[owner] + byte_offset});
  const auto step = static_cast<std::uint32_t>(steps_.size());
  if (b.kind == BufferKind::Input) {
    inputs[b.index].patches.push_back({at, byte_offset});
    inputs[b.index].last = step;
  }
  if (b.kind == BufferKind::Output) {
    BoundOutputBuffer& out = outputs[output_index_[owner]];
    if (out.patches.empty()) out.first = step;
    out.patches.push_back({at, byte_offset});
  }
}

BoundView Binding::bind_view(const View& v) const { return {v.dtype, slots(v.sizes), slots(v.strides)}; }

std::int64_t Binding::view_offset(const View& v, const BoundView& bound) const {
  const std::int64_t span = layout_span(bound.sizes, bound.strides), offset = slot(v.offset);
  const auto items = static_cast<std::int64_t>(buffer_bytes_[memory_of_[v.buffer]] / size_of(v.dtype));
  if (span > 0 && (offset < 0 || span > items || offset > items - span))
    fail("the plan is broken: a view of buffer {} reaches outside of it", plan_.buffers[v.buffer].name);
  return span > 0 ? offset : 0;
}

void Binding::bind_steps() {
  words_.clear();
  steps_.clear();
  plan_step_.clear();
  arena_patches_.clear();
  arena_base_ = nullptr;
  for (BoundOutputBuffer& out : outputs) out.patches.clear(), out.first = 0;
  if (late_ || checker_)
    for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
      const BufferKind kind = plan_.buffers[id].kind;
      if (kind == BufferKind::Input && plan_.inputs[plan_.buffers[id].index].unused) continue;
      if (memory_of_[id] != id || late_buffer_[id] || (kind != BufferKind::Input && kind != BufferKind::Output)) continue;
      late_base_[id] = static_cast<std::int32_t>(words_.size());
      point(id, 0);
    }
  std::uint32_t site = 0, failing = 0;
  std::uint32_t host_call = 0;
  for (const Step& step : plan_.steps) {
    BoundStep bound;
    const std::uint32_t at = site;
    const auto* kernel = std::get_if<KernelCall>(&step);
    const std::uint32_t failure = kernel && !plan_.kernels[kernel->kernel].failure.empty() ? ++failing : 0;
    if (std::holds_alternative<ExternCall>(step)) ++site;
    const auto* host = std::get_if<HostCall>(&step);
    const std::uint32_t call_of_host = host ? host_call++ : 0;
    if (late_ && is_late(step)) bound = LateStep{host ? call_of_host : at, failure};
    else if (kernel) bound = bind_kernel(*kernel, failure, static_cast<std::size_t>(&step - plan_.steps.data()));
    else if (const auto* call = std::get_if<ExternCall>(&step)) bound = bind_extern(*call, sites_[at]);
    else if (host) bound = bind_host(*host, *host_ops_[call_of_host]);
    else bound = std::monostate();
    if (!walks() && std::holds_alternative<std::monostate>(bound)) continue;
    steps_.push_back(bound);
    plan_step_.push_back(static_cast<std::uint32_t>(&step - plan_.steps.data()));
  }
  find_first_and_last_uses();
  ask_calls();
}

void Binding::find_first_and_last_uses() {
  by_first_use_.clear();
  by_last_use_.clear();
  for (std::uint32_t k = 0; k < outputs.size(); ++k) by_first_use_.push_back(k);
  for (std::uint32_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].patches.empty()) by_last_use_.push_back(i);
  std::ranges::stable_sort(by_first_use_, {}, [&](std::uint32_t k) { return outputs[k].first; });
  std::ranges::stable_sort(by_last_use_, {}, [&](std::uint32_t i) { return inputs[i].last; });
}

void Binding::ask_calls() {
  workspace_bytes_ = 0;
  detours_ = false;
  for (const Site& s : sites_)
    if (s.prepared) {
      workspace_bytes_ = std::max(workspace_bytes_, s.op->workspace_bytes());
      detours_ = detours_ || s.op->runs_on_host();
    }
  for (std::size_t s = 0; s < guarded_.size(); ++s) detours_ = detours_ || (guarded_[s] && !std::holds_alternative<KernelCall>(plan_.steps[s]));
}

void Binding::grow_workspace() {
  if (workspace_.bytes < workspace_bytes_) {
    workspace_ = {};
    workspace_ = queue_.allocate(workspace_bytes_);
  }
}

std::optional<Launch> Binding::launch_of(const KernelCall& call) const {
  Launch l;
  l.kernel = model_.kernels[call.kernel];
  l.buffer_count = static_cast<std::uint32_t>(call.buffers.size());
  const bool gpu = !call.grid.empty();
  if (gpu != (plan_.device != Device{})) fail("the plan is broken: kernel '{}' is launched as on another device", plan_.kernels[call.kernel].symbol);
  if (gpu) {
    for (std::size_t d = 0; d < 3; ++d) {
      const std::int64_t blocks = slot(call.grid[d]);
      if (blocks <= 0) return std::nullopt;
      if (blocks > (d == 0 ? 0x7fffffff : 0xffff)) fail("kernel '{}' would need {} blocks along {}", plan_.kernels[call.kernel].symbol, blocks, "xyz"[d]);
      l.grid[d] = static_cast<std::uint32_t>(blocks);
    }
    l.block = call.block;
    l.early = plan_.launches_early;
    l.shared_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(0, slot(call.shared_bytes)));
  } else {
    l.extent = slot(call.extent);
    if (l.extent <= 0) return std::nullopt;
    l.chunks = chunk_count(l.extent, slot(call.grain), threads_);
  }
  return l;
}

Binding::BoundStep Binding::bind_kernel(const KernelCall& call, std::uint32_t failure, std::size_t step) {
  std::optional<Launch> l = launch_of(call);
  if (!l) return std::monostate();
  const bool gpu = !call.grid.empty();
  l->words = static_cast<std::uint32_t>(words_.size());
  for (BufferId b : call.buffers) point(b, 0);
  if (gpu) scalars(call, words_);
  words_.push_back(status_of(failure, step));
  if (!gpu) scalars(call, words_);
  l->word_count = static_cast<std::uint32_t>(words_.size()) - l->words;
  return KernelStep{*l, failure};
}

void Binding::scalars(const KernelCall& call, std::vector<void*>& words) const {
  for (Slot s : call.scalars) words.push_back(reinterpret_cast<void*>(slot(s)));
}

Binding::BoundStep Binding::bind_extern(const ExternCall& call, Site& site) {
  std::vector<BoundView> in, out;
  for (const View& v : call.inputs) in.push_back(bind_view(v));
  for (const View& v : call.outputs) out.push_back(bind_view(v));
  const bool empty = !out.empty() && std::all_of(out.begin(), out.end(), [](const BoundView& v) { return numel(v.sizes) == 0; });
  if (empty) {
    site.prepared = false;
    return std::monostate();
  }
  ExternStep bound{site.op.get(), static_cast<std::uint32_t>(words_.size()), 0, static_cast<std::uint32_t>(in.size()),
                   static_cast<std::uint32_t>(out.size())};
  for (std::size_t i = 0; i < in.size(); ++i)
    point(call.inputs[i].buffer, static_cast<std::uint64_t>(view_offset(call.inputs[i], in[i])) * size_of(in[i].dtype));
  bound.outputs = static_cast<std::uint32_t>(words_.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    point(call.outputs[i].buffer, static_cast<std::uint64_t>(view_offset(call.outputs[i], out[i])) * size_of(out[i].dtype));
  site.prepare(std::move(in), std::move(out));
  return bound;
}

Binding::BoundStep Binding::bind_host(const HostCall& call, HostOp& op) {
  std::vector<BoundView> in, out;
  HostStep bound{&op, static_cast<std::uint32_t>(words_.size()), 0, static_cast<std::uint32_t>(call.inputs.size()), 0};
  for (const View& v : call.inputs) {
    in.push_back(bind_view(v));
    point(v.buffer, static_cast<std::uint64_t>(view_offset(v, in.back())) * size_of(v.dtype));
  }
  bound.outputs = static_cast<std::uint32_t>(words_.size());
  for (const auto& v : call.outputs) {
    if (!v) continue;
    out.push_back(bind_view(*v));
    point(v->buffer, static_cast<std::uint64_t>(view_offset(*v, out.back())) * size_of(v->dtype));
  }
  bound.output_count = static_cast<std::uint32_t>(out.size());
  op.prepare(in, out, slots_);
  return bound;
}

BoundResult Binding::bind_result(const Output& out) const {
  BoundResult r;
  auto number = [&](DType dtype, const auto& value) {
    r.source = BoundResult::Source::Number;
    r.dtype = dtype;
    std::memcpy(r.number, &value, sizeof value);
  };
  switch (out.kind) {
    case Output::Kind::None: return r;
    case Output::Kind::Int: number(DType::I64, slot(out.value)); return r;
    case Output::Kind::Bool: number(DType::Bool, slot(out.value) != 0); return r;
    case Output::Kind::Float: number(DType::F64, out.number); return r;
    case Output::Kind::Tensor: break;
  }
  const BoundView view = bind_view(out.view);
  const BufferId owner = memory_of_[out.view.buffer];
  r.dtype = view.dtype;
  r.sizes = view.sizes;
  r.strides = view.strides;
  r.offset = slot(out.view.offset);
  view_offset(out.view, view);
  const Buffer& b = plan_.buffers[owner];
  r.index = b.kind != BufferKind::Output ? b.index : late_buffer_[owner] ? owner : output_index_[owner];
  r.source = late_buffer_[owner]           ? BoundResult::Source::Late
             : b.kind == BufferKind::Output  ? BoundResult::Source::Fresh
             : b.kind == BufferKind::Input ? BoundResult::Source::Input
                                           : BoundResult::Source::Constant;
  return r;
}

void Binding::bind_results() {
  results.clear();
  for (const Output& out : plan_.outputs) {
    results.push_back(is_late(out) ? BoundResult() : bind_result(out));
    if (out.kind != Output::Kind::Tensor) continue;
    if (const Buffer& b = plan_.buffers[memory_of_[out.view.buffer]]; b.kind == BufferKind::Input) inputs[b.index].aliased = true;
  }
}

void Binding::run_steps(const MemoryHooks& hooks) {
  if (!parts_) return run_directly(hooks);
  state();
  parts_->begin(std::span(state_).first(state_sizes_));
  try {
    run_directly(hooks);
    flush_parts();
  } catch (...) {
    parts_->drop();
    throw;
  }
}

void Binding::flush_parts() {
  if (!parts_ || !parts_->pending()) return;
  parts_->flush([this](std::int64_t step) -> std::vector<Touch> {
    if (step < 0) return {{0, std::numeric_limits<std::uintptr_t>::max(), true}};  // one whose memory the run alone tells
    return touches(static_cast<std::size_t>(step));
  });
  if (!queue_.runs_ahead()) check_failures();
}

void Binding::run_directly(const MemoryHooks& hooks) {
  if (walks()) {
    for (std::uint32_t k = 0; k < outputs.size() && hooks.output_needed; ++k) hooks.output_needed(k);
    return walk_steps(hooks.allocate);
  }
  const std::size_t count = steps_.size();
  std::size_t needed = hooks.output_needed ? 0 : by_first_use_.size(), done = hooks.inputs_done ? 0 : by_last_use_.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (; needed < by_first_use_.size() && outputs[by_first_use_[needed]].first <= i; ++needed) hooks.output_needed(by_first_use_[needed]);
    step_now_ = static_cast<std::int64_t>(i);
    run_bound(steps_[i]);
    const std::size_t from = done;
    while (done < by_last_use_.size() && inputs[by_last_use_[done]].last <= i) ++done;
    if (done > from) hooks.inputs_done(std::span(by_last_use_).subspan(from, done - from));
  }
  for (; needed < by_first_use_.size(); ++needed) hooks.output_needed(by_first_use_[needed]);  // there are no steps
}

void Binding::record_steps() {
  if (late_) {  // one after another, as the walk comes to them
    queue_.begin_step({});
    walk_steps({});
    queue_.end_step({});
    return;
  }
  std::vector<std::vector<Touch>> touched;
  for (std::size_t i = 0; i < steps_.size(); ++i) touched.push_back(touches(i));
  const std::vector<StepOrder> orders = order_steps(touched, queue_.lanes());
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    queue_.begin_step(orders[i]);
    run_bound(steps_[i]);
    queue_.end_step(orders[i]);
  }
}

/// Of memory that steps use: where it is in this run.
std::uintptr_t Binding::base_of(BufferId owner) const {
  const Buffer& b = plan_.buffers[owner];
  const auto patched = [&](const std::vector<Patch>& patches) {
    return patches.empty() ? 0 : reinterpret_cast<std::uintptr_t>(words_[patches.front().word]) - patches.front().offset;
  };
  if (b.kind == BufferKind::Input) return patched(inputs[b.index].patches);
  if (b.kind == BufferKind::Output) return patched(outputs[output_index_[owner]].patches);
  return reinterpret_cast<std::uintptr_t>(buffer_base_[owner]);
}

/// What a kernel or library call reads and writes.
std::vector<Touch> Binding::touches(std::size_t bound) const {
  std::vector<Touch> out;
  const Step& step = plan_.steps[plan_step_[bound]];
  if (const auto* call = std::get_if<KernelCall>(&step)) {
    for (std::uint32_t k = 0; k < call->buffers.size(); ++k) {
      const BufferId owner = memory_of_[call->buffers[k]];
      const bool writes = call->written.empty() || std::ranges::find(call->written, k) != call->written.end();  // older plans do not tell
      out.push_back({base_of(owner), base_of(owner) + buffer_bytes_[owner], writes});
    }
    return out;
  }
  const auto& call = std::get<ExternStep>(steps_[bound]);
  const auto& views = std::get<ExternCall>(step);
  auto add = [&](const std::vector<View>& of, std::uint32_t words, bool writes) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      const BoundView v = bind_view(of[i]);
      const auto begin = reinterpret_cast<std::uintptr_t>(words_[words + i]);
      out.push_back({begin, begin + static_cast<std::uintptr_t>(layout_span(v.sizes, v.strides)) * size_of(v.dtype), writes});
    }
  };
  add(views.inputs, call.inputs, false);
  add(views.outputs, call.outputs, true);
  const auto scratch = reinterpret_cast<std::uintptr_t>(workspace_.data.get());
  out.push_back({scratch, scratch + call.op->workspace_bytes(), true});
  return out;
}

void Binding::run_bound(const BoundStep& step) {
  if (const auto* k = std::get_if<KernelStep>(&step)) run_bound(*k, words_.data());
  else if (const auto* h = std::get_if<HostStep>(&step)) run_bound(*h);
  else run_bound(std::get<ExternStep>(step));
}

void Binding::run_bound(const KernelStep& k, void* const* words) {
  if (parts_) {
    parts_->launch(k.launch, words, words == words_.data() ? step_now_ : -1);
    if (parts_->full()) flush_parts();
    return;
  }
  queue_.launch(k.launch, words);
  if (k.failure && !queue_.runs_ahead() && *failures_[k.failure].status) fail_run(failures_[k.failure]);
}

void Binding::run_bound(const HostStep& h) {
  settle(static_cast<std::size_t>(step_now_));
  flush_parts();
  void* const* words = words_.data();
  h.op->run({words + h.inputs, h.input_count}, {words + h.outputs, h.output_count});
}

void Binding::run_bound(const ExternStep& e) {
  settle(static_cast<std::size_t>(step_now_));
  void* const* words = words_.data();
  if (parts_ && !e.op->runs_on_host()) {
    parts_->call(*e.op, {words + e.inputs, std::size_t{e.input_count} + e.output_count}, e.input_count, workspace_.data.get(), {}, step_now_);
    if (parts_->full()) flush_parts();
    return;
  }
  flush_parts();
  e.op->run({words + e.inputs, e.input_count}, {words + e.outputs, e.output_count}, workspace_.data.get());
}

void Binding::check_failures() {
  for (std::size_t i = 1; i < failures_.size(); ++i)
    if (*static_cast<volatile std::int64_t*>(failures_[i].status)) fail_run(failures_[i]);
}

void Binding::fail_run(const Failure& failure) {
  for (Failure& f : failures_) *f.status = 0;
  if (statuses_.storage.data) queue_.copy(statuses_, clear_statuses_);
  fail("{}", *failure.message);
}

std::span<const std::uint64_t> Binding::state() {
  if (state_sizes_ == 0) {
    state_.assign(1, last_.size());
    for (const Seen& s : last_) {
      state_.push_back(s.sizes.size());
      state_.insert(state_.end(), s.sizes.begin(), s.sizes.end());
      state_.insert(state_.end(), s.strides.begin(), s.strides.end());
      state_.push_back(static_cast<std::uint64_t>(s.value));
    }
    state_sizes_ = state_.size();
  }
  state_.resize(state_sizes_ + words_.size() + 2);
  static_assert(sizeof(void*) == sizeof(std::uint64_t));
  std::memcpy(state_.data() + state_sizes_, words_.data(), words_.size() * sizeof(void*));
  state_[state_.size() - 2] = reinterpret_cast<std::uint64_t>(arena_.data.get());  // where late steps find temporaries
  state_.back() = reinterpret_cast<std::uint64_t>(workspace_.data.get());
  return state_;
}

MemoryUse Binding::memory() const {
  MemoryUse use;
  use.arena_bytes = arena_bytes_ + late_peak_;
  use.workspace_bytes = workspace_bytes_;
  for (const BoundOutputBuffer& out : outputs) use.output_bytes += out.bytes;
  return use;
}

}  // namespace coil::runtime
