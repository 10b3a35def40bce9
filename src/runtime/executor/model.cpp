#include "runtime/executor/model.h"

#include <fmt/ranges.h>

#include <set>

#include "library_ops/collectives.h"
#include "library_ops/table.h"
#include "runtime/device/messages.h"
#include "runtime/executor/constant_memory.h"
#include "runtime/groups/groups.h"
#include "runtime/host/operators.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_check.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

void check_constants(const Plan& plan, const std::vector<Tensor>& constants) {
  if (constants.size() != plan.constants.size())
    fail("the plan has {} constants, but {} were given", plan.constants.size(), constants.size());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const Constant& expected = plan.constants[i];
    const Tensor& given = constants[i];
    if (given.dtype != expected.dtype || given.sizes != expected.sizes || given.strides != expected.strides)
      fail("constant '{}' is not what the plan says", expected.name);
    if (layout_span(given.sizes, given.strides) > 0 && !given.storage.data)
      fail("constant '{}' has no memory", expected.name);
    given.check_bounds();
  }
}

/// Everything left to the host is there.
void check_host(const Plan& plan, const Host& host) {
  std::set<std::string> missing;
  for (const Step& step : plan.steps)
    if (auto* call = std::get_if<HostCall>(&step); call && !(host && host(*call)))
      missing.insert(call->schema.empty() ? call->op : fmt::format("{} (`{}`)", call->op, call->schema));
  if (!missing.empty()) fail("the program leaves {} to its host, which has no such operator", fmt::join(missing, ", "));
}

/// This process is one of each group that the program exchanges values in.
void check_groups(const Plan& plan) {
  namespace names = library_ops::collectives;
  for (const Step& step : plan.steps)
    if (auto* call = std::get_if<ExternCall>(&step); call && library_ops::has(call->op, library_ops::Trait::Collective))
      groups::require_group(read(call->attributes, names::kGroup), find(call->attributes, names::kRanks).value_or(0),
                            plan.device);
  for (const CommPool& pool : plan.comm_pools) groups::require_member(pool.group);
}

bool exchanges(const Plan& plan) {
  return !plan.comm_pools.empty() || std::ranges::any_of(plan.steps, [](const Step& step) {
    const auto* call = std::get_if<ExternCall>(&step);
    return call && library_ops::has(call->op, library_ops::Trait::Collective);
  });
}

std::vector<const void*> resolve(const Plan& plan, const LoadedKernels& loaded) {
  std::vector<const void*> kernels;
  for (const Kernel& kernel : plan.kernels) {
    kernels.push_back(loaded.find(kernel.symbol));
    if (!kernels.back())
      fail("kernel '{}'{} is in none of the program's kernel libraries that {} can load", kernel.symbol,
           kernel.description.empty() ? "" : ", " + kernel.description + ",", to_string(plan.device));
  }
  return kernels;
}

}  // namespace

std::shared_ptr<const Model> Model::load(Program program, Host host) {
  if (exchanges(program.plan)) program.plan.device = groups::device_of_rank(program.plan.device);
  auto device = open_device(program.plan.device);
  return load(std::move(program), std::move(device), std::move(host));
}

std::shared_ptr<const Model> Model::load(Program program, std::shared_ptr<DeviceRuntime> device, Host host) {
  if (const std::filesystem::path file = std::exchange(program.file, {}); !file.empty()) {
    try {
      return load(std::move(program), std::move(device), std::move(host));
    } catch (const Error& e) {
      fail("cannot load package '{}': {}", file.string(), e.what());
    }
  }
  if (!host && program.plan.device == Device{}) host = registered_operators();  // they take memory of the CPU
  check_plan(program.plan, carries_out);
  check_host(program.plan, host);
  check_groups(program.plan);
  check_constants(program.plan, program.constants);
  auto impl = std::make_shared<Impl>();
  impl->loaded = device->load(program.plan.isa, program.libraries);
  impl->kernels = resolve(program.plan, *impl->loaded);
  impl->plan = std::move(program.plan);
  impl->host = std::move(host);
  impl->provenance = std::move(program.provenance);
  for (const Constant& c : impl->plan.constants) impl->weight_bytes += c.bytes;
  impl->constants = std::move(program.constants);
  if (device->device() != Device{}) move_constants(impl->constants, *device->make_queue());
  impl->device = std::move(device);
  tell(MessageLevel::Info, "loaded {}: {} kernels, {} steps, {} bytes of weights, for {}",
       impl->plan.model_name.empty() ? "a program" : impl->plan.model_name, impl->kernels.size(),
       impl->plan.steps.size(), impl->weight_bytes, to_string(impl->plan.device));
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}

std::shared_ptr<const Model> Model::with_constants(const std::map<std::string, Tensor>& values) const {
  auto impl = std::make_shared<Impl>(*impl_);
  std::map<std::size_t, const Tensor*> given;
  for (const auto& [name, value] : values) {
    const auto found = std::find_if(impl->plan.constants.begin(), impl->plan.constants.end(),
                                    [&, &name = name](const Constant& c) { return c.name == name; });
    if (found == impl->plan.constants.end()) fail("the program has no weight '{}'", name);
    if (found->dtype != value.dtype || found->sizes != value.sizes)
      fail("weight '{}' is {}[{}], but {}[{}] was given{}", name, torch_name(found->dtype),
           fmt::join(found->sizes, ", "), torch_name(value.dtype), fmt::join(value.sizes, ", "),
           found->dtype == DType::U8 && value.dtype != DType::U8
               ? "; it is stored packed for the library: compile with --set pack_weights=false to exchange it"
               : "");
    value.check_bounds();
    given[static_cast<std::size_t>(found - impl->plan.constants.begin())] = &value;
  }
  const auto queue = impl->device->make_queue();
  const QueueScope scope(*queue);
  for (const ConstantPiece& piece : constant_pieces(impl->constants))
    if (std::any_of(piece.constants.begin(), piece.constants.end(), [&](std::size_t i) { return given.contains(i); }))
      move_piece(piece, queue->allocate(piece.bytes()), 0, impl->constants, *queue);
  for (const auto& [i, value] : given)
    if (value->numel() > 0) queue->copy(impl->constants[i], *value);
  queue->wait();
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}

std::shared_ptr<const Model> Model::over_memory(std::vector<Tensor> constants) const {
  auto impl = std::make_shared<Impl>(*impl_);
  check_constants(impl->plan, constants);
  const bool on_host = impl->plan.device.is_host();
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const Tensor& t = constants[i];
    const std::string& name = impl->plan.constants[i].name;
    if (t.numel() == 0) continue;
    if (t.device() != impl->plan.device)
      fail("constant '{}' lies on {}, but the program runs on {}", name, to_string(t.device()),
           to_string(impl->plan.device));
    const std::size_t alignment = on_host ? size_of(t.dtype) : kDeviceAlignment;
    if (reinterpret_cast<std::uintptr_t>(t.bytes()) % alignment != 0)
      fail("constant '{}' lies at an address that is no multiple of {} bytes", name, alignment);
  }
  impl->constants = std::move(constants);
  impl->states_in_place = true;
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}

const std::vector<Tensor>& Model::constants() const { return impl_->constants; }

void Model::seed(std::uint64_t seed) const { impl_->seeds->seed(seed); }

const Plan& Model::plan() const { return impl_->plan; }

const std::string& Model::provenance() const { return impl_->provenance; }

std::shared_ptr<const Model> Model::load_package(const std::filesystem::path& path) { return load(load_program(path)); }

}  // namespace coil::runtime
