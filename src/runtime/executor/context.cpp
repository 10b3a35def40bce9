#include <algorithm>
#include <cstring>

#include "runtime/device/output_pool.h"
#include "runtime/executor/binding.h"
#include "runtime/executor/model.h"
#include "runtime/executor/recorded_parts.h"
#include "runtime/executor/shared_inputs.h"
#include "runtime/groups/in_flight.h"
#include "runtime/plan/arena_planner.h"
#include "runtime/views/strided_copy.h"
#include "support/out_of_memory.h"

namespace coil::runtime {

struct Context::Impl {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Queue> queue;
  OtherQueues others;
  Binding binding;
  OutputAllocator allocate;
  InputsDone inputs_done;
  MayGo may_take;
  std::vector<std::uint32_t> done;  ///< inputs that nothing reads any more, while their owner is told
  std::vector<Storage> fresh;       ///< memory of this call's output buffers
  std::vector<Tensor> relaid;  ///< inputs that came in another layout or from elsewhere, or share memory with one that
                               ///< is written to, as kernels assume them
  struct Spot {                ///< an input that steps read where it lies
    std::uint32_t input;
    std::int64_t skipped;       ///< bytes of the storage before the input's first element
    std::uintptr_t misaligned;  ///< bits of an address that kernels cannot read from
  };
  std::vector<Spot> spots;  ///< all of them, where the last run took every input from where it lay: inputs that look
                            ///< the same need no other look than at their addresses
  bool all_direct = false;
  std::vector<Tensor> readable;  ///< inputs whose values the plan reads, on the host
  SharedInputs shared;
  RecordedParts parts;
  bool recording = false, borrows_memory = false, writes_as_eager = false;
  bool in_steps = false;  ///< the last run came to its steps
  bool writes_for_good;   ///< a run that fails half way for want of memory would leave inputs or states half written
  std::optional<std::uint32_t> seed;       ///< of constants: what random operators draw from
  std::optional<std::uint64_t> next_seed;  ///< told by the caller
  bool on_host;                            ///< the program runs on the CPU
  std::shared_ptr<OutputPool> numbers;     ///< memory of results that are numbers, where outputs are not on the host

  explicit Impl(std::shared_ptr<const Model> m)
      : model(std::move(m)),
        queue(model->impl().device->make_queue()),
        others(model->impl().others),
        binding(model->impl(), *queue, others),
        relaid(model->plan().inputs.size()),
        shared(mutated_inputs(model->plan())),
        parts(*queue),
        writes_for_good(writes_to_inputs_or_states(model->plan())),
        on_host(queue->device() == Device{}) {
    if (!on_host) numbers = OutputPool::make();
    for (std::uint32_t i = 0; i < plan().constants.size(); ++i)
      if (plan().constants[i].seed) seed = i;
  }
  ~Impl() { parts.clear(); }

  const Plan& plan() const { return model->plan(); }

  static std::vector<std::size_t> mutated_inputs(const Plan& plan) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < plan.inputs.size(); ++i)
      if (plan.inputs[i].mutated) found.push_back(i);
    return found;
  }

  static bool writes_to_inputs_or_states(const Plan& plan) {
    return std::ranges::any_of(plan.inputs, [](const Input& in) { return in.mutated; }) ||
           std::ranges::any_of(plan.constants, [](const Constant& c) { return c.state && !c.seed; });
  }

  bool takes_memory_late() const { return !writes_for_good || writes_as_eager; }
  /// Where inputs go and outputs come while a run lasts, from the allocator that temporaries have as well.
  void allow_pieces() {
    const bool shares = borrows_memory || (queue->lends() && writes_as_eager);
    binding.allow_pieces(shares && !recording && takes_memory_late());
  }

  Queue& queue_of(std::uint32_t place) { return place == 0 ? *queue : others.at(place); }

  Storage new_output(std::size_t bytes) {
    if (!allocate) return queue->allocate(bytes);
    Storage s = allocate(bytes);
    if (!s.data) fail_out_of_memory("out of memory: the output allocator returned no {} bytes", bytes);
    if (s.bytes < bytes || reinterpret_cast<std::uintptr_t>(s.data.get()) % 64 != 0)
      fail("the output allocator returned no {} bytes aligned to 64", bytes);
    s.device = queue->device();
    return s;
  }

  /// The inputs, those whose values the plan reads copied to the host.
  std::span<const Tensor> with_values(std::span<const Tensor> inputs) {
    if (!binding.reads_values()) return inputs;
    auto unreadable = [&](std::size_t i) {
      return i < plan().inputs.size() && binding.reads_value(i) && inputs[i].device() != Device{};
    };
    bool any = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) any = any || unreadable(i);
    if (!any) return inputs;
    readable.assign(inputs.begin(), inputs.end());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (unreadable(i)) readable[i] = to_host(inputs[i]);
    return readable;
  }

  Tensor to_host(const Tensor& t) {
    if (t.device() == Device{}) return t;
    Tensor copy = Tensor::empty(t.dtype, t.sizes);
    copy.strides = strides_of_copy(t);
    if (copy.numel() > 0) queue->copy(copy, t);
    queue->wait();
    return copy;
  }

  /// Whether memory of the host was read.
  bool place_inputs(std::span<const Tensor> inputs) {
    bool from_host = false;
    bool direct = true;
    all_direct = false;
    spots.clear();
    const std::vector<char>& overlaps = shared.find(inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const BoundInput& bound = binding.inputs()[i];
      if (bound.patches.empty() && !bound.aliased) continue;
      const Tensor& given = inputs[i];
      const Device device = queue_of(binding.place_of_input(i)).device();
      const bool here = given.device() == device;
      if (!here && given.device() != Device{})
        fail("input '{}' is on {}, but the program {} {}; move it there", plan().inputs[i].name,
             to_string(given.device()), others.size() > 0 ? "takes it on" : "runs on", to_string(device));
      const bool as_bound = same_numbers(given.strides, bound.strides);
      const std::size_t item = size_of(given.dtype);
      if (bound.span > 0)
        check_input_memory(i, given, as_bound ? bound.span : layout_span(given.sizes, given.strides), item);
      const std::int64_t skipped = given.offset * static_cast<std::int64_t>(item);
      std::byte* const at = given.storage.data.get() + skipped;
      // Kernels of a GPU read in pieces of kDeviceAlignment bytes from the start of each tensor; on the CPU elements
      // must lie where their type may. (Their sizes are powers of two.)
      const std::uintptr_t misaligned = (device.is_host() ? item : static_cast<std::size_t>(kDeviceAlignment)) - 1;
      const bool aligned = (reinterpret_cast<std::uintptr_t>(at) & misaligned) == 0;
      const bool is_ours = !plan().inputs[i].taken || (may_take && may_take(static_cast<std::uint32_t>(i)));
      if (here && aligned && is_ours && !overlaps[i] &&
          (as_bound || same_layout(bound.sizes, given.strides, bound.strides))) {
        if (relaid[i].storage.data) relaid[i].storage = {};
        binding.place_input(i, at);
        if (!bound.patches.empty()) spots.push_back({static_cast<std::uint32_t>(i), skipped, misaligned});
      } else {
        direct = false;
        relay(i, given);
        binding.place_input(i, relaid[i].bytes());
        from_host = from_host || !here;
      }
    }
    all_direct = direct;
    return from_host;
  }

  /// Places inputs that differ from the last run's in nothing but their memory. False where that is not enough to know.
  bool place_alike(std::span<const Tensor> inputs) {
    if (!all_direct || writes_for_good)
      return false;  // (of inputs that are written to it matters where all others lie)
    for (const Spot& s : spots) {
      std::byte* const at = inputs[s.input].storage.data.get() + s.skipped;
      if (reinterpret_cast<std::uintptr_t>(at) & s.misaligned) return false;
      if (plan().inputs[s.input].taken && !(may_take && may_take(s.input))) return false;
      binding.place_input(s.input, at);
    }
    return true;
  }

  void check_input_memory(std::size_t i, const Tensor& given, std::int64_t span, std::size_t item) const {
    // (Spans are below 2^59, so that neither sum nor product overflows.)
    constexpr std::int64_t kFurthest = std::int64_t{1} << 58;
    if (!given.storage.data || given.offset < 0 || given.offset > kFurthest ||
        static_cast<std::uint64_t>(given.offset + span) * item > given.storage.bytes)
      fail("input '{}' reaches outside of its memory", plan().inputs[i].name);
  }

  void relay(std::size_t i, const Tensor& given) {
    const BoundInput& bound = binding.inputs()[i];
    Tensor& t = relaid[i];
    t.dtype = given.dtype;
    t.sizes = bound.sizes;
    t.strides = bound.strides;
    t.offset = 0;
    Queue& there = queue_of(binding.place_of_input(i));
    t.storage = there.allocate(static_cast<std::size_t>(bound.span) * size_of(given.dtype));
    if (bound.span > 0) there.copy(t, given);
  }

  /// In order with the work that is queued: what was queued before reads the old one.
  void renew_seed() {
    Tensor fresh = Tensor::empty(DType::I64, {1});
    *fresh.data<std::int64_t>() = static_cast<std::int64_t>(next_seed ? *next_seed : model->impl().seeds->next());
    next_seed.reset();
    queue_of(model->impl().constant_place[*seed]).copy(binding.constant(*seed), fresh);
  }

  void place_output(std::size_t k) {
    const std::uint32_t place = binding.place_of_output(k);
    const std::size_t bytes = binding.outputs()[k].bytes;
    fresh[k] = place == 0 ? new_output(bytes) : binding.allocate_on(place, bytes);
    binding.place_output(k, fresh[k].data.get());
  }

  /// Lets go of inputs that no later step uses: of those laid out anew, and by telling the caller, of the caller's.
  /// Memory of the host may be being read until the run has been waited for.
  void let_go(std::span<const std::uint32_t> used, std::span<const Tensor> inputs) {
    done.clear();
    for (std::uint32_t i : used) {
      if (binding.inputs()[i].aliased || plan().inputs[i].mutated ||
          inputs[i].device() != queue_of(binding.place_of_input(i)).device())
        continue;
      relaid[i].storage = {};
      done.push_back(i);
    }
    if (inputs_done && !done.empty()) inputs_done(done);
  }

  /// Outputs get their memory when the first step needs it, and inputs go after the last, so that the two need not be
  /// there together.
  void run_steps(std::span<const Tensor> inputs) {
    MemoryHooks hooks{[this](std::size_t bytes) { return new_output(bytes); }, {}, {}};
    if (takes_memory_late())
      hooks.output_needed = [this](std::uint32_t k) { place_output(k); };
    else
      for (std::size_t k = 0; k < fresh.size(); ++k) place_output(k);
    if (inputs_done && !recording)
      hooks.inputs_done = [this, inputs](std::span<const std::uint32_t> used) { let_go(used, inputs); };
    binding.run_steps(hooks);
  }

  void write_back(std::span<const Tensor> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (relaid[i].storage.data && plan().inputs[i].mutated && binding.inputs()[i].span > 0)
        queue_of(binding.place_of_input(i)).copy(inputs[i], relaid[i]);
  }

  void result(std::size_t k, std::span<const Tensor> inputs, Tensor& to) {
    const BoundResult& bound = binding.results()[k];
    to.dtype = bound.dtype;
    to.sizes = bound.sizes;
    to.strides = bound.strides;
    to.offset = bound.offset;
    switch (bound.source) {
      case BoundResult::Source::None: to.storage = {}; return;
      case BoundResult::Source::Number:
        to.storage = on_host ? new_output(sizeof bound.number) : numbers->allocate(sizeof bound.number);
        std::memcpy(to.storage.data.get(), bound.number, size_of(bound.dtype));
        return;
      case BoundResult::Source::Fresh: to.storage = fresh[bound.index]; return;
      case BoundResult::Source::Late: to.storage = binding.late_memory(bound.index); return;
      case BoundResult::Source::Constant: {
        const Tensor& c = binding.constant(bound.index);
        to.storage = c.storage;
        to.offset += byte_offset_in(c, bound.dtype);
        return;
      }
      case BoundResult::Source::Input: {
        const Tensor& in = relaid[bound.index].storage.data ? relaid[bound.index] : inputs[bound.index];
        to.storage = in.storage;
        to.offset += byte_offset_in(in, bound.dtype);
        return;
      }
    }
  }

  /// Where a tensor's data begin in its storage, in elements of another dtype.
  static std::int64_t byte_offset_in(const Tensor& t, DType dtype) {
    const std::int64_t bytes = t.offset * static_cast<std::int64_t>(size_of(t.dtype));
    const auto item = static_cast<std::int64_t>(size_of(dtype));
    if (bytes % item != 0) fail("an output views memory as {} that is not aligned to it", torch_name(dtype));
    return bytes / item;
  }

  /// `alike`: as run_alike_into has it.
  void run(std::span<const Tensor> inputs, std::vector<Tensor>& outputs, bool alike = false) try {
    const QueueScope scope(*queue);
    const OtherQueuesScope other_scope(others);
    in_steps = false;
    binding.begin_call();
    if (queue->runs_ahead()) binding.check_failures();
    alike = alike && binding.is_bound_alike();
    if (!alike) binding.bind(with_values(inputs));
    if (binding.takes_memory_for_each_run()) binding.take_memory();
    outputs.resize(plan().outputs.size());
    for (Tensor& t : outputs) t.storage = {};
    const bool from_host = !(alike && place_alike(inputs)) && place_inputs(inputs);
    fresh.resize(binding.outputs().size());
    if (seed) renew_seed();
    binding.run_in_parts(recording ? &parts : nullptr);
    in_steps = true;
    run_steps(inputs);
    binding.await_copies();
    if (writes_for_good) write_back(inputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) result(k, inputs, outputs[k]);
    fresh.clear();
    binding.release();
    if (from_host) wait();
  } catch (const OutOfMemory& e) {
    clean_up();
    throw binding.with_needs(e);
  } catch (...) {
    clean_up();
    throw;
  }

  void clean_up() {
    groups::settle();
    if (in_steps) binding.abandon_exchanges();
    fresh.clear();
    binding.release();
  }

  void wait() {
    queue->wait();
    others.wait();
    binding.check_failures();
  }
};

Context::Context(std::shared_ptr<const Model> model) : impl_(std::make_unique<Impl>(std::move(model))) {}
Context::~Context() = default;

RunResult Context::run(std::span<const Tensor> inputs) {
  RunResult result;
  impl_->run(inputs, result.outputs);
  return result;
}

void Context::run_into(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) { impl_->run(inputs, outputs); }

void Context::run_alike_into(std::span<const Tensor> inputs, std::vector<Tensor>& outputs) {
  impl_->run(inputs, outputs, true);
}

std::vector<double> Context::time_steps(std::span<const Tensor> inputs) {
  std::vector<double> seconds;
  std::vector<Tensor> outputs;
  impl_->binding.time_steps(&seconds);
  try {
    impl_->run(inputs, outputs);
  } catch (...) {
    impl_->binding.time_steps(nullptr);
    throw;
  }
  impl_->binding.time_steps(nullptr);
  return seconds;
}

void Context::begin_measuring() { impl_->queue->begin_measuring(); }

std::uint64_t Context::measured_bytes() const { return impl_->queue->measured_bytes(); }

void Context::set_output_allocator(OutputAllocator allocate) { impl_->allocate = std::move(allocate); }

void Context::set_inputs_done(InputsDone done, MayGo may_go, MayGo may_take) {
  impl_->inputs_done = std::move(done);
  impl_->may_take = std::move(may_take);
  impl_->binding.set_may_go(std::move(may_go));
}

void Context::set_writes_as_eager(bool on) {
  impl_->writes_as_eager = on;
  impl_->allow_pieces();
}

void Context::borrow_memory(OutputAllocator allocate) {
  impl_->borrows_memory = static_cast<bool>(allocate);
  impl_->binding.set_borrows_memory(impl_->borrows_memory);
  impl_->allow_pieces();
  impl_->queue->set_allocator(std::move(allocate));
}

void Context::wait() {
  const QueueScope scope(*impl_->queue);
  impl_->wait();
}

void Context::set_stream(void* stream) {
  const QueueScope scope(*impl_->queue);
  impl_->queue->set_stream(stream);
}

void Context::set_stop(std::function<bool()> asked) { impl_->binding.set_stop(std::move(asked)); }

void Context::set_seed(std::uint64_t seed) { impl_->next_seed = seed; }

void Context::set_recording(bool on, std::size_t most) {
  impl_->recording = on;
  impl_->allow_pieces();
  impl_->parts.keep_at_most(most);
}

Tensor Context::to_host(const Tensor& t) {
  const QueueScope scope(*impl_->queue);
  Tensor copy = impl_->to_host(t);
  impl_->binding.check_failures();
  return copy;
}

void Context::copy_to_host(const Tensor& to, const Tensor& from) {
  const QueueScope scope(*impl_->queue);
  impl_->queue->copy(to, from);
}

MemoryUse Context::memory() const {
  MemoryUse use = impl_->binding.memory();
  use.weight_bytes = impl_->model->impl().weight_bytes;
  return use;
}

}  // namespace coil::runtime
