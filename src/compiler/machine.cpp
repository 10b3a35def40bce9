#include "compiler/machine.h"

#include <algorithm>
#include <thread>

#include "codegen/backends.h"
#include "codegen/triton/backend.h"
#include "runtime/device/library.h"
#include "support/cpu.h"

namespace coil {
namespace {

/// With `fuse` off: every operation alone.
class NoFusion : public scheduler::Choices {
 public:
  std::size_t max_members() const override { return 1; }
};

Machine make_machine(Device device, const Settings& settings, codegen::Toolchain toolchain) {
  Machine out{.toolchain = std::move(toolchain)};
  std::unique_ptr<scheduler::Choices> choices;
  if (!settings.fuse) choices = std::make_unique<NoFusion>();
  out.backend =
      codegen::with_triton(codegen::make_backend({device, settings, out.toolchain, std::move(choices)}), settings);
  return out;
}

}  // namespace

Machine make_machine(Device device, const Settings& settings) {
  Machine out = make_machine(device, settings, codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa));
  if (device.is_host()) return out;
  Settings plain = settings;
  plain.cuda_kernels = "cuda";
  out.others.push_back(make_machine({}, plain, out.toolchain).backend);
  return out;
}

std::vector<const codegen::Backend*> Machine::backends() const {
  std::vector<const codegen::Backend*> all{backend.get()};
  for (const auto& other : others) all.push_back(other.get());
  return all;
}

const codegen::Backend& Machine::backend_of(Device device) const {
  for (const auto& other : others)
    if (other->device() == device) return *other;
  return *backend;
}

bool Machine::carries_out(const ir::Extern& call, Device device) const {
  const codegen::Backend& there = backend_of(device);
  const DType type = call.outputs.empty() ? call.inputs.at(0).dtype : call.outputs.front().dtype;
  return there.has_template(call.op) ||
         (runtime::has_library_op(call.op, there.device().type) && there.target().takes(call.op, type));
}

Machine make_constants_machine(const Machine& machine, const Settings& settings) {
  // Constants are computed here, whatever machine the program is for.
  codegen::Toolchain toolchain =
      machine_runs(machine.toolchain.isa) ? machine.toolchain : codegen::find_toolchain(settings.cpu_compiler);
  codegen::optimize_less(toolchain);
  Settings plain = settings;
  plain.cuda_kernels = "cuda";
  return make_machine({}, plain, std::move(toolchain));
}

int jobs_of(const CompileOptions& options) {
  return options.threads > 0 ? options.threads
                             : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
}

}  // namespace coil
