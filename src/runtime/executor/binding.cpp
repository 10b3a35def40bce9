#include "runtime/executor/binding.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/device/messages.h"
#include "runtime/device/threads.h"
#include "runtime/executor/constant_memory.h"
#include "runtime/executor/exchanges.h"
#include "runtime/plan/arena_planner.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/shape_program.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

std::vector<BufferId> memory_owners(const Plan& plan) {
  std::vector<BufferId> owners;
  for (BufferId id = 0; id < plan.buffers.size(); ++id) owners.push_back(memory_of(plan, id));
  return owners;
}

}  // namespace

Binding::Binding(const Model::Impl& model, Queue& queue, const OtherQueues& others)
    : Binding(model, queue, others, QueueScope(queue), OtherQueuesScope(others)) {}

Binding::Binding(const Model::Impl& model, Queue& queue, const OtherQueues& others, const QueueScope&,
                 const OtherQueuesScope&)
    : model_(model),
      plan_(model.plan),
      queue_(queue),
      others_(others),
      constants_(model.constants),
      memory_of_(memory_owners(plan_)),
      guards_(plan_),
      failures_(plan_, memory_of_, queue),
      stages_(plan_.shape_program) {
  copy_states();
  for (const CommPool& pool : plan_.comm_pools)
    pools_.push_back(groups::allocate_symmetric({pool.group, plan_.device, pool.bytes, pool.plan}));
  groups_ = exchanges_of(plan_).groups;
  for (const std::string& group : groups_)
    if (groups::CallCount calls = groups::calls_of(group)) calls_.push_back(std::move(calls));
  output_index_.assign(plan_.buffers.size(), 0);
  for (BufferId id = 0; id < plan_.buffers.size(); ++id)
    if (memory_of_[id] == id && plan_.buffers[id].kind == BufferKind::Output && !is_late(plan_.buffers[id].bytes))
      output_index_[id] = output_count_++, output_buffers_.push_back(id);
  input_places_.assign(plan_.inputs.size(), 0);
  for (const Buffer& b : plan_.buffers)
    if (b.kind == BufferKind::Input) input_places_[b.index] = b.place;
  other_memory_.resize(plan_.others.size());
  for (const Step& step : plan_.steps) {
    if (const auto* call = std::get_if<ExternCall>(&step)) {
      ops_.push_back(make_op(*call));
      op_places_.push_back(plan_.place_of(*call));
      lands_ahead_ = lands_ahead_ || is_ahead(*call);
    }
    if (const auto* call = std::get_if<HostCall>(&step)) host_ops_.push_back(model_.host(*call));
  }
  make_room();
  find_late();
  find_parts();
  if (!plan_.check_lifetimes) return;
  if (queue_.device() != Device{})
    fail("lifetimes are checked on the cpu, not on {}; compile for the cpu, or without assert_lifetimes",
         to_string(queue_.device()));
  checker_ = std::make_unique<LifetimeChecker>(plan_);
}

void Binding::make_room() {
  now_.seen.resize(plan_.inputs.size());
  now_.slots.resize(plan_.shape_program.size());
  now_.inputs.resize(plan_.inputs.size());
  now_.outputs.resize(output_count_);
  now_.sites.resize(ops_.size());
  now_.others.resize(plan_.others.size());
  for (PreparedViews& site : now_.sites) site.prepared = false;
}

bool Binding::prepare(std::uint32_t site, std::vector<BoundView> in, std::vector<BoundView> out) {
  PreparedViews& views = now_.sites[site];
  if (views.prepared && views.inputs == in && views.outputs == out) return false;
  views.prepared = false;
  ops_[site]->prepare(in, out);
  views = {std::move(in), std::move(out), true};
  return true;
}

void Binding::copy_states() {
  for (const ConstantPiece& piece : constant_pieces(constants_)) {
    // Constants that share memory with a state see its writes: the piece moves whole.
    // The seed of random operators is each context's own, wherever other states lie.
    if (std::none_of(piece.constants.begin(), piece.constants.end(), [&](std::size_t i) {
          return plan_.constants[i].state && (!model_.states_in_place || plan_.constants[i].seed);
        }))
      continue;
    Queue& queue = queue_of(model_.constant_place[piece.constants.front()]);
    move_piece(piece, queue.allocate(piece.bytes()), 0, constants_, queue);
  }
}

void Binding::bind(std::span<const Tensor> given) {
  guards_.check_count(given.size());
  if (threads_ != thread_count()) {
    for (PreparedViews& site : now_.sites) site.prepared = false;
    shelf_.clear();
    is_bound_ = false;
  }
  if (is_bound_ && guards_.hold(now_.seen, given)) return;
  const bool bound = std::exchange(is_bound_, false);
  threads_ = thread_count();
  if (bound && !walks() && host_ops_.empty() && take_from_shelf(given)) {
    if (!takes_memory_for_each_run()) take_memory();
    is_bound_ = true;
    return;
  }
  guards_.check(given);
  run_shape_program(plan_.shape_program, stages_.after[0], given, now_.slots);
  guards_.bind(given, now_.slots, now_.inputs);
  check_conditions(given);
  bind_memory();
  bind_steps();
  bind_results();
  check_limit();
  bind_parts();
  if (!takes_memory_for_each_run()) take_memory();
  guards_.remember(given, now_.seen);
  state_sizes_ = 0;
  is_bound_ = true;
  if (has_listener()) {
    std::vector<std::string> shapes;
    for (const Tensor& t : given) shapes.push_back(describe(t));
    tell(MessageLevel::Debug, "bound for ({}): {} bytes of temporaries, {} of scratch memory", fmt::join(shapes, ", "),
         now_.arena_bytes, now_.workspace_bytes);
  }
}

bool Binding::take_from_shelf(std::span<const Tensor> given) {
  state_sizes_ = 0;
  for (auto found = shelf_.begin(); found != shelf_.end(); ++found) {
    if (!guards_.hold((*found)->seen, given)) continue;
    std::swap(now_, **found);
    std::rotate(shelf_.begin(), found, found + 1);
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (const PreparedViews& site = now_.sites[i]; site.prepared) ops_[i]->prepare(site.inputs, site.outputs);
    return true;
  }
  // Where sizes are mostly new there is little to keep: one in eight replaces the oldest.
  if (shelf_.size() == kShelved && ++misses_ % 8 != 0) return false;
  if (shelf_.size() < kShelved) shelf_.push_back(std::make_unique<BoundPlan>());
  std::rotate(shelf_.begin(), shelf_.end() - 1, shelf_.end());
  std::swap(now_, *shelf_.front());
  make_room();
  return false;
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
    if (early_assert_[k])
      check(std::get<AssertCall>(plan_.steps[k]).condition, std::get<AssertCall>(plan_.steps[k]).message);
}

std::size_t Binding::slot_bytes(Slot s, const std::string& buffer) const {
  if (now_.slots[s] < 0) fail("buffer {} would have {} bytes for these sizes", buffer, now_.slots[s]);
  return static_cast<std::size_t>(now_.slots[s]);
}

Sizes Binding::slots(const std::vector<Slot>& from) const {
  Sizes values;
  values.reserve(from.size());
  for (Slot s : from) values.push_back(now_.slots[s]);
  return values;
}

void Binding::bind_comm(const Buffer& b, BufferId owner) {
  const auto offset = static_cast<std::uint64_t>(b.arena_offset), bytes = pools_[b.index]->bytes();
  const bool is_table = !plan_.device.is_host() && offset == peer_table_offset(bytes);
  const std::uint64_t room = is_table ? offset + kPeerTableBytes : bytes;
  now_.buffer_bytes[owner] = is_late(b.bytes) && offset <= room ? room - offset : slot_bytes(b.bytes, b.name);
  if (offset > room || now_.buffer_bytes[owner] > room - offset)
    fail("communication buffer {} would have {} bytes for these sizes, more than was planned for", b.name,
         now_.buffer_bytes[owner]);
  now_.buffer_base[owner] = pools_[b.index]->data() + offset;
}

void Binding::bind_buffer(BufferId id) {
  const Buffer& b = plan_.buffers[id];
  const BufferId owner = memory_of_[id];
  const std::uint32_t index = plan_.buffers[owner].index;
  std::uint64_t& bytes = now_.buffer_bytes[owner];
  switch (plan_.buffers[owner].kind) {
    case BufferKind::Input:
      bytes = static_cast<std::uint64_t>(now_.inputs[index].span) * size_of(plan_.inputs[index].dtype);
      return;
    case BufferKind::Constant: {
      const Tensor& c = constants_[index];
      bytes = static_cast<std::uint64_t>(layout_span(c.sizes, c.strides)) * size_of(c.dtype);
      now_.buffer_base[owner] = c.bytes();
      return;
    }
    case BufferKind::Comm: return bind_comm(b, owner);
    case BufferKind::Output:
      bytes = std::max<std::uint64_t>(bytes, slot_bytes(b.bytes, b.name));
      now_.outputs[output_index_[owner]].bytes = bytes;
      return;
    case BufferKind::Temporary: bytes = std::max<std::uint64_t>(bytes, slot_bytes(b.bytes, b.name)); return;
  }
}

std::vector<std::uint64_t> Binding::offsets_in_arena(const std::vector<BufferId>& temporaries,
                                                     const std::vector<Interval>& intervals) {
  const auto in_arena = [&](BufferId id) { return plan_.buffers[id].place == 0; };
  const bool planned = std::ranges::all_of(  // by the compiler
      temporaries, [&](BufferId id) { return !in_arena(id) || plan_.buffers[id].arena_offset >= 0; });
  if (planned) {
    std::vector<std::uint64_t> offsets(intervals.size(), 0);
    now_.arena_bytes = plan_.static_arena_bytes;
    for (BufferId id : temporaries)
      if (in_arena(id)) offsets[id] = static_cast<std::uint64_t>(plan_.buffers[id].arena_offset);
    return offsets;
  }
  std::vector<Interval> here = intervals;
  for (BufferId id : temporaries)
    if (!in_arena(id)) here[id].bytes = 0;
  ArenaPlan arena = plan_arena(here, ArenaEffort::Call);
  now_.arena_bytes = arena.peak;
  return std::move(arena.offsets);
}

void Binding::bind_memory() {
  const std::size_t n = plan_.buffers.size();
  now_.buffer_bytes.assign(n, 0);
  now_.buffer_base.assign(n, nullptr);
  std::vector<BufferId> temporaries;
  for (BufferId id = 0; id < n; ++id) {
    const BufferId owner = memory_of_[id];
    if (late_buffer_[owner]) continue;
    bind_buffer(id);
    if (id == owner && plan_.buffers[id].kind == BufferKind::Temporary) temporaries.push_back(id);
  }
  std::vector<Interval> intervals = lives_in_plan();
  std::vector<std::uint64_t> offsets = offsets_in_arena(temporaries, intervals);
  place_in_outputs(temporaries, intervals, offsets);
  bind_other_arenas(intervals, offsets);
  if (checker_) {
    checker_->check_placement(temporaries, intervals, offsets);
    ArenaPlan apart = LifetimeChecker::apart(temporaries, intervals);
    offsets = std::move(apart.offsets);
    now_.arena_bytes = apart.peak;
  }
  for (BufferId id : temporaries)
    if (const std::uint32_t place = plan_.buffers[id].place;
        now_.buffer_bytes[id] > arena_bytes(place) || offsets[id] > arena_bytes(place) - now_.buffer_bytes[id])
      fail("the plan is broken: buffer {} lies outside of the arena", plan_.buffers[id].name);
  now_.temporaries = std::move(temporaries);
  now_.arena_offset = std::move(offsets);
}

std::vector<Interval> Binding::lives_in_plan() const {
  std::vector<Interval> lives(plan_.buffers.size(), Interval{0, UINT32_MAX, 0});
  for (BufferId id = 0; id < plan_.buffers.size(); ++id) {
    const Buffer& b = plan_.buffers[id];
    const BufferId owner = memory_of_[id];
    if (late_buffer_[owner] || plan_.buffers[owner].kind != BufferKind::Temporary) continue;
    Interval& life = lives[owner];
    life = {now_.buffer_bytes[owner], std::min(life.first, b.first), std::max(life.last, b.last)};
  }
  for (Interval& life : lives)
    if (life.bytes == 0) life = {};
  return lives;
}

MemoryNeed Binding::need() const {
  MemoryNeed need{now_.arena_bytes + now_.piece_bytes, now_.workspace_bytes, 0, model_.weight_bytes};
  for (const OtherArena& other : now_.others) need.temporaries += other.bytes, need.scratch += other.workspace_bytes;
  for (const BoundOutputBuffer& out : now_.outputs) need.outputs += out.bytes;
  return need;
}

OutOfMemory Binding::with_needs(const OutOfMemory& e) {
  is_bound_ = false;
  if (e.needed() > 0 || now_.buffer_bytes.size() != plan_.buffers.size()) return e;
  const std::string program = plan_.model_name.empty() ? "the program" : plan_.model_name;
  return OutOfMemory(fmt::format("{}; {} {}", e.what(), program, needs_and_buffers(plan_, need(), now_.buffer_bytes)),
                     need().total());
}

void Binding::check_limit() const {
  if (plan_.memory_limit) check_memory_limit(plan_, need(), now_.buffer_bytes);
}

void Binding::take_memory() {
  if (arena_.bytes < now_.arena_bytes) {
    arena_ = {};
    queue_.planned_bytes = need().total();
    arena_ = queue_.allocate(now_.arena_bytes);
  }
  grow_workspace();
  take_other_memory();
  if (arena_.data.get() == now_.arena_base) return;
  now_.arena_base = arena_.data.get();
  for (const Patch& p : now_.arena_patches) now_.words[p.word] = arena_.data.get() + p.offset;
  for (BufferId id : now_.temporaries)
    if (plan_.buffers[id].place == 0) now_.buffer_base[id] = arena_.data.get() + now_.arena_offset[id];
}

void Binding::point(BufferId buffer, std::uint64_t byte_offset) {
  use(memory_of_[buffer]);
  add_word(memory_of_[buffer], byte_offset);
}

/// The step that is bound next uses the memory.
void Binding::use(BufferId owner) {
  const Buffer& b = plan_.buffers[owner];
  const auto step = static_cast<std::uint32_t>(now_.steps.size());
  const auto needed = [&](BoundOutputBuffer& out) { out.first = std::min(out.first, step); };
  if (late_buffer_[owner]) return;
  if (!now_.in_outputs.empty() && now_.in_outputs[owner].output >= 0)
    needed(now_.outputs[static_cast<std::size_t>(now_.in_outputs[owner].output)]);
  if (b.kind == BufferKind::Input) now_.inputs[b.index].last = step;
  if (b.kind == BufferKind::Output) needed(now_.outputs[output_index_[owner]]);
}

void Binding::add_word(BufferId owner, std::uint64_t byte_offset) {
  const auto at = static_cast<std::uint32_t>(now_.words.size());
  const Buffer& b = plan_.buffers[owner];
  std::byte* base = now_.buffer_base[owner];
  now_.words.push_back(base ? base + byte_offset : nullptr);
  const auto step = static_cast<std::uint32_t>(now_.steps.size());
  const OutputPlace place = now_.in_outputs.empty() ? OutputPlace() : now_.in_outputs[owner];
  if (place.output >= 0) {
    now_.outputs[static_cast<std::size_t>(place.output)].patches.push_back({at, place.offset + byte_offset});
  } else if (b.kind == BufferKind::Temporary && !late_buffer_[owner]) {
    (b.place == 0 ? now_.arena_patches : now_.others[b.place - 1].patches)
        .push_back({at, now_.arena_offset[owner] + byte_offset});
    if (has_pieces() && b.place == 0) temporary_uses_.push_back({owner, step, {at, byte_offset}});
  }
  if (b.kind == BufferKind::Input) now_.inputs[b.index].patches.push_back({at, byte_offset});
  if (b.kind == BufferKind::Output) now_.outputs[output_index_[owner]].patches.push_back({at, byte_offset});
}

BoundView Binding::bind_view(const View& v) const {
  BoundView bound{v.dtype, slots(v.sizes), slots(v.strides)};
  bound.device = plan_.device_of(plan_.buffers[v.buffer].place);
  if (!bound.device.is_host())
    bound.alignment = std::gcd(kDeviceAlignment, slot(v.offset) * static_cast<std::int64_t>(size_of(v.dtype)));
  return bound;
}

std::int64_t Binding::view_offset(const View& v, const BoundView& bound) const {
  const std::int64_t span = layout_span(bound.sizes, bound.strides), offset = slot(v.offset);
  const auto items = static_cast<std::int64_t>(now_.buffer_bytes[memory_of_[v.buffer]] / size_of(v.dtype));
  if (span > 0 && (offset < 0 || span > items || offset > items - span))
    fail("the plan is broken: a view of buffer {} reaches outside of it", plan_.buffers[v.buffer].name);
  return span > 0 ? offset : 0;
}

void Binding::bind_steps() {
  now_.words.clear();
  now_.tensor_maps.clear();
  now_.steps.clear();
  now_.plan_step.clear();
  now_.arena_patches.clear();
  now_.arena_base = nullptr;
  temporary_uses_.clear();
  for (OtherArena& other : now_.others) other.patches.clear(), other.base = nullptr;
  for (BoundOutputBuffer& out : now_.outputs) out.patches.clear(), out.first = kNoStep, out.placed = nullptr;
  for (BoundInput& in : now_.inputs) in.last = kNoStep, in.placed = nullptr;
  if (late_ || checker_) add_late_words();
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
    if (late_ && is_late(step))
      bound = bind_late(step, host ? call_of_host : at, failure);
    else if (kernel)
      bound = bind_kernel(*kernel, failure, static_cast<std::size_t>(&step - plan_.steps.data()));
    else if (const auto* call = std::get_if<ExternCall>(&step))
      bound = bind_extern(*call, at);
    else if (host)
      bound = bind_host(*host, *host_ops_[call_of_host]);
    else
      bound = std::monostate();
    if (!walks() && std::holds_alternative<std::monostate>(bound)) continue;
    now_.steps.push_back(bound);
    now_.plan_step.push_back(static_cast<std::uint32_t>(&step - plan_.steps.data()));
  }
  find_first_and_last_uses();
  ask_calls();
  bind_pieces();
}

void Binding::find_first_and_last_uses() {
  now_.by_first_use.clear();
  now_.by_last_use.clear();
  for (std::uint32_t k = 0; k < now_.outputs.size(); ++k) now_.by_first_use.push_back(k);
  for (std::uint32_t i = 0; i < now_.inputs.size(); ++i)
    if (now_.inputs[i].last != kNoStep) now_.by_last_use.push_back(i);
  std::ranges::stable_sort(now_.by_first_use, {}, [&](std::uint32_t k) { return now_.outputs[k].first; });
  std::ranges::stable_sort(now_.by_last_use, {}, [&](std::uint32_t i) { return now_.inputs[i].last; });
}

bool Binding::settles(const KernelCall& call, std::size_t step) const {
  return !call.arguments.empty() && !has_status(call) && failures_.guards(step);
}

void Binding::ask_calls() {
  for (std::uint32_t place = 0; place <= others_.size(); ++place) workspace_bytes(place) = 0;
  for (std::size_t i = 0; i < ops_.size(); ++i)
    if (now_.sites[i].prepared) {
      std::size_t& bytes = workspace_bytes(op_places_[i]);
      bytes = std::max(bytes, ops_[i]->workspace_bytes());
    }
}

void Binding::grow_workspace() {
  for (std::uint32_t place = 0; place <= others_.size(); ++place)
    if (Storage& memory = workspace(place); memory.bytes < workspace_bytes(place)) {
      memory = {};
      memory = queue_of(place).allocate(workspace_bytes(place));
    }
}

std::optional<Launch> Binding::launch_of(const KernelCall& call) const {
  Launch l;
  l.kernel = model_.kernels[call.kernel];
  l.buffer_count = static_cast<std::uint32_t>(call.buffers.size());
  const bool gpu = !call.grid.empty();
  if (gpu == plan_.device_of(plan_.kernels[call.kernel].place).is_host())
    fail("the plan is broken: kernel '{}' is launched as on another device", plan_.kernels[call.kernel].symbol);
  if (gpu) {
    for (std::size_t d = 0; d < 3; ++d)
      if (!set_blocks(l, d, slot(call.grid[d]), plan_.kernels[call.kernel].symbol)) return std::nullopt;
    l.block = call.block;
    l.early = plan_.dependent_launches && call.arguments.empty();  // others do not wait for the kernel before them
    l.shared_bytes = static_cast<std::uint32_t>(std::max<std::int64_t>(0, slot(call.shared_bytes)));
  } else {
    l.extent = slot(call.extent);
    if (l.extent <= 0) return std::nullopt;
    l.chunks = chunk_count(l.extent, slot(call.grain), threads_);
  }
  return l;
}

BoundStep Binding::bind_kernel(const KernelCall& call, std::uint32_t failure, std::size_t step) {
  std::optional<Launch> l = launch_of(call);
  if (!l) return std::monostate();
  const bool gpu = !call.grid.empty();
  l->words = static_cast<std::uint32_t>(now_.words.size());
  KernelStep bound{*l, failure, plan_.kernels[call.kernel].place, settles(call, step)};
  if (!call.arguments.empty()) {
    argument_block(call, bound, now_.words, [&](BufferId b, std::uint64_t offset) { point(b, offset); });
    return bound;
  }
  for (BufferId b : call.buffers) point(b, 0);
  if (gpu) scalars(call, now_.words);
  now_.words.push_back(failures_.word_of(failure, step, !gpu));
  if (!gpu) scalars(call, now_.words);
  descriptors(call, bound, now_.words, [&](BufferId b, std::uint64_t offset) { point(b, offset); });
  return bound;
}

void Binding::scalars(const KernelCall& call, std::vector<void*>& words) const {
  for (Slot s : call.scalars) words.push_back(reinterpret_cast<void*>(slot(s)));
}

void Binding::descriptors(const KernelCall& call, KernelStep& bound, std::vector<void*>& words,
                          const std::function<void(BufferId, std::uint64_t)>& point) {
  bound.maps = static_cast<std::uint32_t>(now_.tensor_maps.size());
  for (const TensorMap& m : call.tensor_maps) {
    now_.tensor_maps.push_back(tensor_map(m, room_for_map(bound, words)));
    ++bound.map_count;
  }
  bound.launch.word_count = static_cast<std::uint32_t>(words.size()) - bound.launch.words;
  for (std::size_t k = 0; k < call.tensor_maps.size(); ++k) {
    const TensorMap& m = call.tensor_maps[k];
    now_.tensor_maps[bound.maps + k].from = static_cast<std::uint32_t>(words.size());
    point(call.buffers[m.buffer], static_cast<std::uint64_t>(slot(m.offset)));
  }
}

std::size_t Binding::room_for_map(const KernelStep& bound, std::vector<void*>& words) {
  constexpr std::size_t kAligned = kTensorMapAlignment / sizeof(void*), kMap = kTensorMapBytes / sizeof(void*);
  const std::size_t begun = words.size() - bound.launch.words;
  const std::size_t at = bound.launch.words + (begun + kAligned - 1) / kAligned * kAligned;
  words.resize(at + kMap);
  return at;
}

void Binding::argument_block(const KernelCall& call, KernelStep& bound, std::vector<void*>& words,
                             const std::function<void(BufferId, std::uint64_t)>& point) {
  bound.maps = static_cast<std::uint32_t>(now_.tensor_maps.size());
  std::uint32_t used = 8;  // bytes of the last word
  for (const KernelArgument& a : call.arguments) {
    if (a.bytes == kTensorMapBytes) {
      now_.tensor_maps.push_back(tensor_map(call.tensor_maps[bound.map_count++], room_for_map(bound, words)));
      used = 8;
      continue;
    }
    if (a.buffer >= 0) {
      point(call.buffers[static_cast<std::size_t>(a.buffer)], static_cast<std::uint64_t>(slot(a.value)));
      used = 8;
      continue;
    }
    if (a.buffer == kStatusArgument) {
      words.push_back(failures_.status_of(bound.failure));
      used = 8;
      continue;
    }
    used = (used + a.bytes - 1) / a.bytes * a.bytes;
    if (used >= 8) words.push_back(nullptr), used = 0;
    auto bits = static_cast<std::uint64_t>(slot(a.value));
    if (a.bytes < 8) bits &= (std::uint64_t{1} << 8 * a.bytes) - 1;
    words.back() = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(words.back()) | bits << 8 * used);
    used += a.bytes;
  }
  bound.launch.word_count = static_cast<std::uint32_t>(words.size()) - bound.launch.words;
  BoundTensorMap* map = now_.tensor_maps.data() + bound.maps;
  for (const KernelArgument& a : call.arguments)
    if (a.bytes == kTensorMapBytes) {
      map++->from = static_cast<std::uint32_t>(words.size());
      point(call.buffers[static_cast<std::size_t>(a.buffer)], static_cast<std::uint64_t>(slot(a.value)));
    }
}

BoundTensorMap Binding::tensor_map(const TensorMap& m, std::size_t word) const {
  BoundTensorMap out;
  out.to = static_cast<std::uint32_t>(word);
  TensorMapShape& s = out.shape;
  s.element = m.element, s.swizzle = m.swizzle, s.rank = static_cast<std::uint32_t>(m.box.size());
  for (std::uint32_t d = 0; d < s.rank; ++d) {
    const std::uint32_t from = s.rank - 1 - d;
    s.box[d] = m.box[from];
    s.sizes[d] = static_cast<std::uint64_t>(slot(m.sizes[from]));
    s.strides[d] = static_cast<std::uint64_t>(slot(m.strides[from]));
  }
  return out;
}

bool Binding::has_nothing_to_do(const LibraryOp& op, const std::vector<BoundView>& out) {
  const auto is_empty = [](const BoundView& v) { return numel(v.sizes) == 0; };
  return !out.empty() && !op.runs_when_empty() && std::ranges::all_of(out, is_empty);
}

BoundStep Binding::bind_extern(const ExternCall& call, std::uint32_t site) {
  std::vector<BoundView> in, out;
  for (const View& v : call.inputs) in.push_back(bind_view(v));
  for (const View& v : call.outputs) out.push_back(bind_view(v));
  if (has_nothing_to_do(*ops_[site], out)) {
    now_.sites[site].prepared = false;
    return std::monostate();
  }
  ExternStep bound{ops_[site].get(),
                   static_cast<std::uint32_t>(now_.words.size()),
                   0,
                   static_cast<std::uint32_t>(in.size()),
                   static_cast<std::uint32_t>(out.size()),
                   plan_.place_of(call)};
  for (std::size_t i = 0; i < in.size(); ++i)
    point(call.inputs[i].buffer, static_cast<std::uint64_t>(view_offset(call.inputs[i], in[i])) * size_of(in[i].dtype));
  bound.outputs = static_cast<std::uint32_t>(now_.words.size());
  for (std::size_t i = 0; i < out.size(); ++i)
    point(call.outputs[i].buffer,
          static_cast<std::uint64_t>(view_offset(call.outputs[i], out[i])) * size_of(out[i].dtype));
  prepare(site, std::move(in), std::move(out));
  return bound;
}

BoundStep Binding::bind_host(const HostCall& call, HostOp& op) {
  std::vector<BoundView> in, out;
  HostStep bound{&op, static_cast<std::uint32_t>(now_.words.size()), 0, static_cast<std::uint32_t>(call.inputs.size()),
                 0};
  for (const View& v : call.inputs) {
    in.push_back(bind_view(v));
    point(v.buffer, static_cast<std::uint64_t>(view_offset(v, in.back())) * size_of(v.dtype));
  }
  bound.outputs = static_cast<std::uint32_t>(now_.words.size());
  for (const auto& v : call.outputs) {
    if (!v) continue;
    out.push_back(bind_view(*v));
    point(v->buffer, static_cast<std::uint64_t>(view_offset(*v, out.back())) * size_of(v->dtype));
  }
  bound.output_count = static_cast<std::uint32_t>(out.size());
  op.prepare(in, out, now_.slots);
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
  r.source = late_buffer_[owner]            ? BoundResult::Source::Late
             : b.kind == BufferKind::Output ? BoundResult::Source::Fresh
             : b.kind == BufferKind::Input  ? BoundResult::Source::Input
                                            : BoundResult::Source::Constant;
  return r;
}

void Binding::bind_results() {
  now_.results.clear();
  for (const Output& out : plan_.outputs) {
    now_.results.push_back(is_late(out) ? BoundResult() : bind_result(out));
    if (out.kind != Output::Kind::Tensor) continue;
    if (const Buffer& b = plan_.buffers[memory_of_[out.view.buffer]]; b.kind == BufferKind::Input)
      now_.inputs[b.index].aliased = true;
  }
}

MemoryUse Binding::memory() const {
  MemoryUse use;
  use.arena_bytes = now_.arena_bytes + now_.piece_bytes + late_peak_;
  use.workspace_bytes = now_.workspace_bytes;
  for (const OtherArena& other : now_.others)
    use.arena_bytes += other.bytes, use.workspace_bytes += other.workspace_bytes;
  for (const BoundOutputBuffer& out : now_.outputs) use.output_bytes += out.bytes;
  return use;
}

}  // namespace coil::runtime
