#include "runtime/model.h"

#include <fmt/ranges.h>

#include <set>

#include "runtime/constant_memory.h"
#include "runtime/plan_check.h"
#include "runtime/strided_copy.h"
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
    if (layout_span(given.sizes, given.strides) > 0 && !given.storage.data) fail("constant '{}' has no memory", expected.name);
    given.check_bounds();
  }
}

/// Everything left to the host is there.
void check_host(const Plan& plan, const Host& host) {
  std::set<std::string> missing;
  for (const Step& step : plan.steps)
    if (auto* call = std::get_if<HostCall>(&step); call && !(host && host(*call))) missing.insert(call->op);
  if (!missing.empty()) fail("the program leaves {} to its host, which has no such operator", fmt::join(missing, ", "));
}

std::vector<const void*> resolve(const Plan& plan, const LoadedKernels& loaded) {
  std::vector<const void*> kernels;
  for (const Kernel& kernel : plan.kernels) {
    kernels.push_back(loaded.find(kernel.symbol));
    if (!kernels.back()) fail("kernel '{}' is in none of the program's kernel libraries", kernel.symbol);
  }
  return kernels;
}

}  // namespace

std::shared_ptr<const Model> Model::load(Program program, Host host) {
  auto device = open_device(program.plan.device);
  return load(std::move(program), std::move(device), std::move(host));
}

std::shared_ptr<const Model> Model::load(Program program, std::shared_ptr<DeviceRuntime> device, Host host) {
  check_plan(program.plan);
  check_host(program.plan, host);
  check_constants(program.plan, program.constants);
  auto impl = std::make_shared<Impl>();
  impl->loaded = device->load(program.plan.isa, program.libraries);
  impl->kernels = resolve(program.plan, *impl->loaded);
  impl->plan = std::move(program.plan);
  impl->host = std::move(host);
  for (const Constant& c : impl->plan.constants) impl->weight_bytes += c.bytes;
  impl->constants = std::move(program.constants);
  if (device->device() != Device{}) move_constants(impl->constants, *device->make_queue());
  impl->device = std::move(device);
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}

const Plan& Model::plan() const { return impl_->plan; }

}  // namespace coil::runtime
