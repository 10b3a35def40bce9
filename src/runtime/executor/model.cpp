#include "runtime/executor/model.h"

#include <fmt/ranges.h>

#include <set>

#include "library_ops/collectives.h"
#include "library_ops/table.h"
#include "runtime/device/messages.h"
#include "runtime/executor/constant_memory.h"
#include "runtime/executor/exchanges.h"
#include "runtime/executor/other_queues.h"
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

/// This process is one of each group that the program exchanges values in. (Groups from outside are made later.)
void check_groups(const Plan& plan) {
  namespace names = library_ops::collectives;
  for (const Step& step : plan.steps)
    if (auto* call = std::get_if<ExternCall>(&step); call && library_ops::has(call->op, library_ops::Trait::Collective))
      if (const std::string& group = read(call->attributes, names::kGroup); !groups::is_outside(group))
        groups::require_group(group, find(call->attributes, names::kRanks).value_or(0), plan.device);
  for (const CommPool& pool : plan.comm_pools)
    if (!groups::is_outside(pool.group)) groups::require_member(pool.group);
}

/// Whether a program was compiled for the processes that the environment tells of, which all name one device.
bool is_for_any_rank(const Plan& plan) {
  const std::vector<std::string> groups = exchanges_of(plan).groups;
  return !groups.empty() && std::ranges::none_of(groups, groups::is_outside);
}

std::vector<const void*> resolve(const Model::Impl& model) {
  std::vector<const void*> kernels;
  for (const PlanKernel& kernel : model.plan.kernels) {
    const auto& loaded = kernel.place == 0 ? model.loaded : model.loaded_others[kernel.place - 1];
    kernels.push_back(loaded->find(kernel.symbol));
    if (!kernels.back())
      fail("kernel '{}'{} is in none of the program's kernel libraries that {} can load", kernel.symbol,
           kernel.description.empty() ? "" : ", " + kernel.description + ",",
           to_string(model.plan.device_of(kernel.place)));
  }
  return kernels;
}

/// Constants that no buffer holds lie on the program's device.
std::vector<std::uint32_t> places_of_constants(const Plan& plan) {
  std::vector<std::uint32_t> places(plan.constants.size(), 0);
  for (const Buffer& b : plan.buffers)
    if (b.kind == BufferKind::Constant) places[b.index] = b.place;
  return places;
}

/// Moves the constants of one device to memory of that device.
void move_constants_to(DeviceRuntime& device, std::uint32_t place, Model::Impl& model) {
  if (device.device().is_host()) return;
  std::vector<Tensor> moved;
  for (std::size_t i = 0; i < model.constants.size(); ++i)
    if (model.constant_place[i] == place) moved.push_back(model.constants[i]);
  move_constants(moved, *device.make_queue());
  auto next = moved.begin();
  for (std::size_t i = 0; i < model.constants.size(); ++i)
    if (model.constant_place[i] == place) model.constants[i] = std::move(*next++);
}

}  // namespace

std::shared_ptr<const Model> Model::load(StoredProgram program, Host host) {
  if (is_for_any_rank(program.plan)) program.plan.device = groups::device_of_rank(program.plan.device);
  auto device = open_device(program.plan.device);
  return load(std::move(program), std::move(device), std::move(host));
}

std::shared_ptr<const Model> Model::load(StoredProgram program, std::shared_ptr<DeviceRuntime> device, Host host) {
  if (const std::filesystem::path file = std::exchange(program.file, {}); !file.empty()) {
    try {
      return load(std::move(program), std::move(device), std::move(host));
    } catch (const Error& e) {
      fail("cannot load package '{}': {}", file.string(), e.what());
    }
  }
  // Registered operators take memory of the CPU.
  if (!host && (program.plan.device.is_host() || !program.plan.others.empty())) host = registered_operators();
  check_plan(program.plan, carries_out);
  check_host(program.plan, host);
  check_groups(program.plan);
  check_constants(program.plan, program.constants);
  auto impl = std::make_shared<Impl>();
  impl->loaded = device->load(program.plan.isa, program.libraries);
  for (std::size_t k = 0; k < program.plan.others.size(); ++k) {
    const OtherDevice& other = program.plan.others[k];
    impl->others.push_back(open_device(other.device));
    const std::vector<std::vector<std::byte>> none;
    impl->loaded_others.push_back(
        impl->others.back()->load(other.isa, k < program.other_libraries.size() ? program.other_libraries[k] : none));
  }
  impl->plan = std::move(program.plan);
  impl->kernels = resolve(*impl);
  impl->constant_place = places_of_constants(impl->plan);
  impl->host = std::move(host);
  impl->provenance = std::move(program.provenance);
  for (const Constant& c : impl->plan.constants) impl->weight_bytes += c.bytes;
  impl->constants = std::move(program.constants);
  move_constants_to(*device, 0, *impl);
  for (std::uint32_t k = 0; k < impl->others.size(); ++k) move_constants_to(*impl->others[k], k + 1, *impl);
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
  const OtherQueues others(impl->others);
  const QueueScope scope(*queue);
  const OtherQueuesScope other_scope(others);
  const auto queue_of = [&](std::size_t constant) -> Queue& {
    const std::uint32_t place = impl->constant_place[constant];
    return place == 0 ? *queue : others.at(place);
  };
  for (const ConstantPiece& piece : constant_pieces(impl->constants))
    if (std::any_of(piece.constants.begin(), piece.constants.end(), [&](std::size_t i) { return given.contains(i); })) {
      Queue& there = queue_of(piece.constants.front());
      move_piece(piece, there.allocate(piece.bytes()), 0, impl->constants, there);
    }
  for (const auto& [i, value] : given)
    if (value->numel() > 0) queue_of(i).copy(impl->constants[i], *value);
  queue->wait();
  others.wait();
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}

std::shared_ptr<const Model> Model::over_memory(std::vector<Tensor> constants) const {
  auto impl = std::make_shared<Impl>(*impl_);
  check_constants(impl->plan, constants);
  for (std::size_t i = 0; i < constants.size(); ++i) {
    const Tensor& t = constants[i];
    const std::string& name = impl->plan.constants[i].name;
    if (t.numel() == 0) continue;
    const Device device = impl->plan.device_of(impl->constant_place[i]);
    if (t.device() != device)
      fail("constant '{}' lies on {}, but the program runs on {}", name, to_string(t.device()), to_string(device));
    const std::size_t alignment = device.is_host() ? size_of(t.dtype) : kDeviceAlignment;
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
