#include "compiler/machine.h"

#include <algorithm>
#include <charconv>
#include <thread>

#include "codegen/cpp/backend.h"
#include "codegen/cuda/backend.h"
#include "codegen/triton/backend.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil {
namespace {

/// With `fuse` off: every operation alone.
class NoFusion : public scheduler::Choices {
 public:
  std::size_t max_members() const override { return 1; }
};

/// The number of a launch config.
int launch_config(const std::string& text) {
  int number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (status != std::errc() || end != text.data() + text.size() || number < 0))
    fail("cuda.launch_config is {}: it is a number from 0 on", text);
  return number;
}

std::unique_ptr<codegen::Backend> make_native_backend(Device device, const Settings& settings,
                                                      const codegen::Toolchain& toolchain) {
  std::unique_ptr<scheduler::Choices> choices;
  if (!settings.fuse) choices = std::make_unique<NoFusion>();
  if (device.is_host()) {
    if (settings.emulated_gpu)
      return codegen::make_emulated_cuda_backend(toolchain, std::move(choices),
                                                 launch_config(settings.cuda_launch_config));
    return codegen::make_cpp_backend(toolchain, choices ? std::move(choices) : std::make_unique<scheduler::Choices>());
  }
  if (target::emitted_language(device.type) != "cuda")
    fail("programs compile for cpu and cuda, not for {}", to_string(device));
  return codegen::make_cuda_backend({.device = device.index,
                                     .arch = settings.cuda_arch,
                                     .nvrtc = settings.cuda_nvrtc,
                                     .dependent_launch = settings.cuda_dependent_launch,
                                     .launch_config = launch_config(settings.cuda_launch_config),
                                     .cluster = settings.cuda_cluster},
                                    std::move(choices));
}

/// The device's own backend, or around it one that writes Triton.
std::unique_ptr<codegen::Backend> make_backend(Device device, const Settings& settings,
                                               const codegen::Toolchain& toolchain) {
  auto native = make_native_backend(device, settings, toolchain);
  if (settings.cuda_kernels == "cuda") return native;
  if (settings.cuda_kernels != "triton") fail("cuda.kernels is {}: it may be cuda or triton", settings.cuda_kernels);
  if (!native->target().has(target::Feature::ThreadGrids)) return native;
  return codegen::make_triton_backend(std::move(native), launch_config(settings.cuda_launch_config));
}

Machine make_machine(Device device, const Settings& settings, codegen::Toolchain toolchain) {
  Machine out{.toolchain = std::move(toolchain)};
  out.backend = make_backend(device, settings, out.toolchain);
  return out;
}

}  // namespace

Machine make_machine(Device device, const Settings& settings) {
  return make_machine(device, settings, codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa));
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
