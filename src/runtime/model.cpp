#include "runtime/model.h"

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

std::vector<KernelFunction> resolve(const Plan& plan, const std::vector<KernelLibrary>& libraries) {
  std::vector<KernelFunction> functions;
  for (const Kernel& kernel : plan.kernels) {
    void* address = nullptr;
    for (const KernelLibrary& library : libraries)
      if (!address) address = library.find(kernel.symbol);
    if (!address) fail("kernel '{}' is in none of the program's kernel libraries", kernel.symbol);
    functions.push_back(reinterpret_cast<KernelFunction>(address));
  }
  return functions;
}

}  // namespace

std::shared_ptr<const Model> Model::load(Program program) {
  if (program.plan.device.type != DeviceType::CPU) fail("this runtime runs programs for cpu, not {}", to_string(program.plan.device));
  require_isa(program.plan.isa);
  check_plan(program.plan);
  check_constants(program.plan, program.constants);
  auto impl = std::make_shared<Impl>();
  for (const auto& binary : program.libraries) impl->libraries.emplace_back(binary);
  impl->plan = std::move(program.plan);
  impl->constants = std::move(program.constants);
  impl->kernels = resolve(impl->plan, impl->libraries);
  impl->pool = OutputPool::make();
  for (const Constant& c : impl->plan.constants) impl->weight_bytes += c.bytes;
  std::shared_ptr<Model> model(new Model());
  model->impl_ = std::move(impl);
  return model;
}


const Plan& Model::plan() const { return impl_->plan; }

}  // namespace coil::runtime
