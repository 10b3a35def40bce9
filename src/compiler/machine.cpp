#include "compiler/machine.h"

#include <algorithm>
#include <thread>

#include "codegen/backends.h"
#include "codegen/triton/backend.h"
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
  return make_machine(device, settings, codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa));
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

void add_host(Machine& machine, const Settings& settings) {
  Settings plain = settings;
  plain.cuda_kernels = "cuda";
  machine.others.push_back(make_machine({}, plain, machine.toolchain).backend);
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
