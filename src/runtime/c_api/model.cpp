// The C interface to packages: load, look at, run.
#include <algorithm>
#include <atomic>
#include <optional>

#include "runtime/c_api/interface.h"
#include "runtime/device/messages.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/signature_json.h"
#include "runtime/views/strided_copy.h"
#include "support/out_of_memory.h"

using namespace coil;
using namespace coil::runtime;

namespace {

/// The value of each slot that is the same in every call.
std::vector<std::optional<std::int64_t>> fixed_slots(const Plan& plan) {
  std::vector<std::optional<std::int64_t>> values;
  for (const ShapeInstruction& in : plan.shape_program)
    values.push_back(in.op == ShapeOp::Constant ? std::optional(in.a) : std::nullopt);
  return values;
}

DType dtype_of(const Output& out) {
  switch (out.kind) {
    case Output::Kind::Int: return DType::I64;
    case Output::Kind::Bool: return DType::Bool;
    case Output::Kind::Float: return DType::F64;
    default: return out.view.dtype;
  }
}

}  // namespace

struct coil_model {
  std::shared_ptr<const Model> model;
  std::vector<coil_port> inputs, outputs, weights;
  std::vector<std::size_t> weight_index;  ///< of each weight, among the plan's constants
  std::vector<std::optional<std::int64_t>> slots;
  std::string signature;

  explicit coil_model(std::shared_ptr<const Model> m) : model(std::move(m)), slots(fixed_slots(model->plan())) {
    for (const Input& in : model->plan().inputs)
      inputs.push_back(
          {in.name.c_str(), to_c(in.dtype), static_cast<std::int32_t>(in.sizes.size()), in.mutated, in.unused});
    for (const Constant& c : model->plan().constants)
      if (!c.seed)
        weight_index.push_back(static_cast<std::size_t>(&c - model->plan().constants.data())),
            weights.push_back({c.name.c_str(), to_c(c.dtype), static_cast<std::int32_t>(c.sizes.size()), c.state, 0});
    for (const Output& out : model->plan().outputs)
      outputs.push_back({out.name.c_str(), to_c(dtype_of(out)), static_cast<std::int32_t>(out.view.sizes.size()), 0});
    if (model->plan().signature) signature = signature_to_json(*model->plan().signature).dump();
  }

  void sizes(const std::vector<Slot>& from, std::int64_t* to) const {
    std::transform(from.begin(), from.end(), to, [&](Slot s) { return slots[s].value_or(-1); });
  }
};

struct coil_context {
  Context context;
  std::vector<Tensor> inputs, outputs;
  std::vector<void*> blocks;  ///< that this run allocated
  void* (*allocate)(size_t, void*) = nullptr;
  void (*release)(void*, void*) = nullptr;
  void* user = nullptr;

  std::atomic<bool> interrupted = false;

  Device device;
  bool stays = false;  ///< results of a program for a GPU are left there; else they are copied to the host

  explicit coil_context(std::shared_ptr<const Model> model) : context(model), device(model->plan().device) {
    context.set_stop([this] { return interrupted.load(std::memory_order_relaxed); });
    place_outputs();
  }

  bool on_host() const { return device == Device{}; }

  /// Where outputs get their memory: the caller's and the host's is counted in `blocks`, a device's own comes from its
  /// pool.
  void place_outputs() {
    if (on_host() || (stays && allocate))
      context.set_output_allocator([this](std::size_t bytes) { return new_block(bytes); });
    else
      context.set_output_allocator({});
  }

  void stay_on_device(void* stream) {
    if (on_host())
      fail(
          "the program runs on the cpu, whose memory is the host's: its outputs have no other place to stay in, and "
          "its runs no stream");
    context.set_stream(stream);
    stays = true;
    place_outputs();
  }

  void bring_outputs() {
    context.wait();
    for (Tensor& t : outputs) {
      if (!t.storage.data) continue;
      Tensor block{new_block(static_cast<std::size_t>(t.numel()) * size_of(t.dtype)), t.dtype, t.sizes,
                   strides_of_copy(t), 0};
      context.copy_to_host(block, t);
      t = std::move(block);
    }
  }

  Storage new_block(std::size_t bytes) {
    void* block = allocate ? allocate(std::max<std::size_t>(bytes, 1), user) : coil_alloc(bytes);
    if (!block) fail_out_of_memory("out of memory: cannot allocate {} bytes", bytes);
    blocks.push_back(block);
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(block), [](std::byte*) {}), bytes};
  }

  void give_back_blocks() {
    if (stays && allocate && !blocks.empty()) guarded([this] { context.wait(); });  // work on them may be queued
    for (void* block : blocks) allocate ? release(block, user) : coil_free(block);
  }

  bool is_new(void* block) const { return std::find(blocks.begin(), blocks.end(), block) != blocks.end(); }

  bool views_an_input(const Tensor& t) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& in) {
      return !in.storage.data.owner_before(t.storage.data) && !t.storage.data.owner_before(in.storage.data);
    });
  }

  /// What an output holds a share of; null where it borrows its memory, or the caller's allocator gave it.
  void* owner_of(const Tensor& t) const {
    void* data = t.storage.data.get();
    if (!data) return nullptr;
    if (stays && (!allocate || t.device() == Device{})) return views_an_input(t) ? nullptr : own(t.storage);
    return !allocate && is_new(data) ? coil_retain(data) : nullptr;
  }

  void run(const coil_tensor* given, size_t input_count, coil_tensor* results, size_t output_count) {
    inputs.clear();
    for (size_t i = 0; i < input_count; ++i) inputs.push_back(borrow(given[i], device));
    blocks.clear();
    size_t set = 0;
    try {
      context.run_into(inputs, outputs);
      if (!on_host() && !stays) bring_outputs();
      if (outputs.size() != output_count)
        fail("the program gives {} outputs, but there is room for {}", outputs.size(), output_count);
      for (; set < output_count; ++set) {
        const coil_tensor made = to_c(outputs[set]);
        void* owner = owner_of(outputs[set]);
        results[set] = made;
        results[set].owner = owner;
      }
    } catch (...) {
      while (set > 0) coil_tensor_release(&results[--set]);
      give_back_blocks();
      throw;
    }
    if (stays)
      for (Tensor& t : outputs) t.storage = {};  // it goes when the caller lets go of it
    if (allocate) return;
    for (void* block : blocks) coil_free(block);  // each output now holds its own share
  }
};

namespace {

const coil_port* ports(const std::vector<coil_port>& all, size_t* count) {
  if (count) *count = all.size();
  return all.data();
}

const coil_port* no_ports(size_t* count) {
  keep_error("no model was given");
  if (count) *count = 0;
  return nullptr;
}

}  // namespace

extern "C" {

coil_model* coil_model_load(const char* path) {
  return guarded_pointer([&] {
    if (!path) fail("no path was given");
    return new coil_model(Model::load_package(path));
  });
}

void coil_model_free(coil_model* model) { delete model; }

const coil_port* coil_model_inputs(const coil_model* model, size_t* count) {
  return model ? ports(model->inputs, count) : no_ports(count);
}

const coil_port* coil_model_outputs(const coil_model* model, size_t* count) {
  return model ? ports(model->outputs, count) : no_ports(count);
}

int coil_model_input_sizes(const coil_model* model, size_t index, int64_t* sizes) {
  return guarded([&] {
    if (!model || !sizes) fail("no model or no place for its sizes was given");
    if (index >= model->inputs.size()) fail("the program has no input {}", index);
    model->sizes(model->model->plan().inputs[index].sizes, sizes);
  });
}

int coil_model_output_sizes(const coil_model* model, size_t index, int64_t* sizes) {
  return guarded([&] {
    if (!model || !sizes) fail("no model or no place for its sizes was given");
    if (index >= model->outputs.size()) fail("the program has no output {}", index);
    model->sizes(model->model->plan().outputs[index].view.sizes, sizes);
  });
}

const char* coil_model_signature(const coil_model* model) {
  return model ? model->signature.c_str() : (keep_error("no model was given"), nullptr);
}

const char* coil_model_provenance(const coil_model* model) {
  return model ? model->model->provenance().c_str() : (keep_error("no model was given"), nullptr);
}

int coil_model_seed(const coil_model* model, uint64_t seed) {
  return guarded([&] {
    if (!model) fail("no model was given");
    model->model->seed(seed);
  });
}

const coil_port* coil_model_weights(const coil_model* model, size_t* count) {
  return model ? ports(model->weights, count) : no_ports(count);
}

int coil_model_weight_sizes(const coil_model* model, size_t index, int64_t* sizes) {
  return guarded([&] {
    if (!model || !sizes) fail("no model or no place for its sizes was given");
    if (index >= model->weights.size()) fail("the program has no weight {}", index);
    const Sizes& known = model->model->plan().constants[model->weight_index[index]].sizes;
    std::copy(known.begin(), known.end(), sizes);
  });
}

coil_model* coil_model_with_weights(const coil_model* model, const char* const* names, const coil_tensor* weights,
                                    size_t count) {
  return guarded_pointer([&] {
    if (!model || (count > 0 && (!names || !weights))) fail("no model, no names or no weights were given");
    std::map<std::string, Tensor> values;
    for (size_t i = 0; i < count; ++i) {
      if (!names[i]) fail("weight {} has no name", i);
      values.insert_or_assign(names[i], borrow(weights[i], model->model->plan().device));
    }
    return new coil_model(model->model->with_constants(values));
  });
}

void coil_set_log(void (*log)(int, const char*, void*), void* user) {
  if (log)
    set_listener([log, user](MessageLevel level, const std::string& message) {
      log(static_cast<int>(level), message.c_str(), user);
    });
  else
    set_listener({});
}

coil_context* coil_context_create(const coil_model* model) {
  return guarded_pointer([&] {
    if (!model) fail("no model was given");
    return new coil_context(model->model);
  });
}

void coil_context_free(coil_context* context) { delete context; }

int coil_context_run(coil_context* context, const coil_tensor* inputs, size_t input_count, coil_tensor* outputs,
                     size_t output_count) {
  return guarded([&] {
    if (!context || (input_count > 0 && !inputs) || (output_count > 0 && !outputs))
      fail("no context, no inputs or no outputs were given");
    context->interrupted = false;
    context->run(inputs, input_count, outputs, output_count);
  });
}

int coil_context_set_allocator(coil_context* context, void* (*allocate)(size_t, void*), void (*release)(void*, void*),
                               void* user) {
  return guarded([&] {
    if (!context) fail("no context was given");
    if (allocate && !release) fail("an allocator needs a function that releases");
    context->allocate = allocate;
    context->release = release;
    context->user = user;
    context->place_outputs();
  });
}

int coil_context_stay_on_device(coil_context* context, void* stream) {
  return guarded([&] {
    if (!context) fail("no context was given");
    context->stay_on_device(stream);
  });
}

int coil_context_wait(coil_context* context) {
  return guarded([&] {
    if (!context) fail("no context was given");
    context->context.wait();
  });
}

void coil_context_interrupt(coil_context* context) {
  if (context) context->interrupted = true;
}

coil_memory coil_context_memory(const coil_context* context) {
  if (!context) return {};
  const MemoryUse use = context->context.memory();
  return {use.arena_bytes, use.workspace_bytes, use.output_bytes, use.weight_bytes};
}

}  // extern "C"
