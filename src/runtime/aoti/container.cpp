#include "runtime/aoti/container.h"

#include <algorithm>
#include <limits>

#include "runtime/aoti/memory.h"
#include "runtime/device/threads.h"
#include "runtime/plan/package.h"
#include "support/error.h"
#include "support/file.h"

namespace coil::runtime::aoti {
namespace {

TorchInterface read_interface(const std::filesystem::path& file) {
  try {
    return torch_interface_from_json(read_file(file));
  } catch (const Error& e) {
    fail("cannot load {}: {}", file.string(), e.what());
  }
}

/// `text` with the index of the current device where it names none.
Device device_named(const std::string& text) {
  Device device = parse_device(text);
  if (device.is_host() || text.find(':') != std::string::npos) return device;
  std::int32_t index = 0;
  torch().get_current_device_index(&index);
  device.index = index;
  return device;
}

/// Torch allocates on a stream of the caller's while this lives; does nothing where that is its current one.
class StreamGuard {
 public:
  StreamGuard(Device device, void* stream) {
    if (device.is_host() || !stream) return;
    const std::string kind = device.type.name();
    void* current = nullptr;
    const auto get = torch().find<std::int32_t(std::int32_t, void**)>("aoti_torch_get_current_" + kind + "_stream");
    if (get && get(device.index, &current) == 0 && current == stream) return;
    const auto create =
        torch().find<std::int32_t(void*, std::int32_t, void**)>("aoti_torch_create_" + kind + "_stream_guard");
    end_ = torch().find<std::int32_t(void*)>("aoti_torch_delete_" + kind + "_stream_guard");
    if (!create || !end_ || create(stream, device.index, &guard_) != 0)
      fail("torch cannot make a stream of {} its current one", to_string(device));
  }
  ~StreamGuard() {
    if (guard_) end_(guard_);
  }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  void* guard_ = nullptr;
  std::int32_t (*end_)(void*) = nullptr;
};

}  // namespace

/// A runner for one call, waited for where all are in use.
class Container::Turn {
 public:
  Turn(Container& c, bool alone) : c_(c), alone_(alone) {
    if (alone) {
      runner_ = c.runners_.front().get();
      return;
    }
    std::unique_lock lock(c.free_mutex_);
    c.freed_.wait(lock, [&] { return !c.free_.empty(); });
    runner_ = c.free_.back();
    c.free_.pop_back();
  }
  ~Turn() {
    if (alone_) return;
    const std::lock_guard lock(c_.free_mutex_);
    c_.free_.push_back(runner_);
    c_.freed_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Runner& runner() const { return *runner_; }

 private:
  Container& c_;
  const bool alone_;
  Runner* runner_ = nullptr;
};

Container::Container(std::size_t runners, const std::string& device, const std::filesystem::path& folder)
    : interface_(read_interface(folder / kTorchInterface)) {
  StoredProgram program = load_program(folder / kTorchProgram);
  if (const std::string kind = program.plan.device.type.name(); device.substr(0, device.find(':')) != kind)
    fail("the package is for {}, but torch wants it on {}", kind, device);
  program.plan.device = device_named(device);
  weights_ = std::make_unique<Weights>(Model::load(std::move(program)), interface_);
  name_ports();
  const auto& constants = weights_->model()->plan().constants;
  draws_ = std::ranges::any_of(constants, [](const Constant& c) { return c.seed; });
  const std::size_t count = weights_->has_states() ? 1 : std::max<std::size_t>(runners, 1);
  for (std::size_t i = 0; i < count; ++i) {
    runners_.push_back(std::make_unique<Runner>());
    free_.push_back(runners_.back().get());
  }
}

void Container::name_ports() {
  const Plan& plan = weights_->model()->plan();
  input_of_.assign(plan.inputs.size(), -1);
  for (std::size_t i = 0; i < interface_.inputs.size(); ++i) {
    const std::int64_t input = interface_.inputs[i];
    if (input < 0 || static_cast<std::size_t>(input) >= plan.inputs.size())
      fail("the package's {} names an input {}, which the program does not have", kTorchInterface, input);
    input_of_[static_cast<std::size_t>(input)] = static_cast<std::int64_t>(i);
    input_names_.push_back(plan.inputs[static_cast<std::size_t>(input)].name);
  }
  for (const std::int64_t leaf : interface_.leaves) {
    if (leaf >= static_cast<std::int64_t>(plan.outputs.size()))
      fail("the package's {} names an output {}, which the program does not have", kTorchInterface, leaf);
    output_names_.push_back(leaf < 0 ? "None" : plan.outputs[static_cast<std::size_t>(leaf)].name);
  }
}

void Container::take_inputs(Runner& runner, std::vector<TensorHandle> given) const {
  const Plan& plan = runner.model->plan();
  const bool all_leaves = given.size() == plan.inputs.size();
  if (!all_leaves && given.size() != interface_.inputs.size())
    fail("the program takes {} tensors, but {} were given", interface_.inputs.size(), given.size());
  runner.inputs.resize(plan.inputs.size());
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    Tensor& t = runner.inputs[i];
    if (input_of_[i] < 0) {  // export fixed it, so that it is not read
      t = Tensor::empty(plan.inputs[i].dtype, {});
      continue;
    }
    const std::size_t place = all_leaves ? i : static_cast<std::size_t>(input_of_[i]);
    const std::string& name = plan.inputs[i].name;
    if (!given[place]) fail("input '{}' is no tensor", name);
    t = from_torch(as_it_lies(std::move(given[place]), name, plan.inputs[i].mutated), name);
  }
}

std::uint64_t Container::new_seed() const {
  const Storage memory = allocate(sizeof(std::int64_t), Device{});
  const Tensor seed{memory, DType::I64, {1}, {1}, 0};
  const TensorHandle out = to_torch(seed);
  const std::int64_t size = 1;
  torch().cpu_randint_low_out(out.get(), 0, std::numeric_limits<std::int64_t>::max(), &size, 1);
  return static_cast<std::uint64_t>(*seed.data<std::int64_t>());
}

void Container::run_on(Runner& runner, std::vector<TensorHandle> inputs, AtenTensorHandle* outputs, void* stream) {
  const std::shared_ptr<const Model>& model = weights_->model();
  if (runner.model != model) {
    runner.context.reset();
    runner.context = std::make_unique<Context>(model);
    runner.model = model;
    const Device device = model->plan().device;
    runner.context->set_output_allocator([device](std::size_t bytes) { return allocate(bytes, device); });
  }
  take_inputs(runner, std::move(inputs));
  const Device device = model->plan().device;
  const StreamGuard guard(device, stream);
  if (!device.is_host()) runner.context->set_stream(stream);
  if (draws_) runner.context->set_seed(new_seed());
  runner.context->run_into(runner.inputs, runner.outputs);
  std::vector<TensorHandle> results;
  for (const std::int64_t leaf : interface_.leaves)
    results.push_back(leaf < 0 ? nullptr : to_torch(runner.outputs[static_cast<std::size_t>(leaf)]));
  for (std::size_t i = 0; i < results.size(); ++i) outputs[i] = results[i].release();
}

void Container::run(AtenTensorHandle* inputs, std::size_t input_count, AtenTensorHandle* outputs,
                    std::size_t output_count, void* stream, bool alone) {
  std::vector<TensorHandle> given;
  for (std::size_t i = 0; i < input_count; ++i) given.emplace_back(inputs[i]);
  if (output_count != this->output_count())
    fail("the program gives {} results, but there is room for {}", this->output_count(), output_count);
  if (const int threads = torch().threads(); threads > 0 && threads != thread_count()) set_threads(threads);
  std::shared_lock running(runs_, std::defer_lock);
  if (!alone) running.lock();
  const Turn turn(*this, alone);
  Runner& runner = turn.runner();
  const auto let_go = [&] {
    for (auto* tensors : {&runner.inputs, &runner.outputs})
      for (Tensor& t : *tensors) t.storage = {};
  };
  try {
    run_on(runner, std::move(given), outputs, stream);
  } catch (...) {
    let_go();
    throw;
  }
  let_go();
}

void Container::wait_for_runs() {
  for (const auto& runner : runners_)
    if (runner->context) runner->context->wait();
}

}  // namespace coil::runtime::aoti
