// `coil opt` on wrapper lines: passes, and the emitters alone.
#include "codegen/backends.h"
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "opt.h"
#include "runtime/plan/plan_json.h"
#include "support/error.h"
#include "wrapper/emitters.h"
#include "wrapper/plan.h"
#include "wrapper/text.h"

namespace coil::cli {
namespace {

/// The kernels of a program, compiled for the device that is there (of GPUs, for sm_90 where none is).
void add_binaries(const wrapper::Program& program, const codegen::Toolchain& toolchain, wrapper::EmitOptions& options) {
  const auto backend = codegen::make_backend({program.device, Settings{}, toolchain, nullptr});
  std::vector<std::string> texts;
  for (const wrapper::KernelEntry& k : program.kernels)
    if (k.place == 0) texts.push_back(k.text);
  options.isa = backend->isa();
  try {
    options.binaries = backend->compile(texts, {}).libraries;
  } catch (const Error& e) {
    fail("{} (coil opt has no settings: CUDA_HOME names a folder as well)", e.what());
  }
}

std::string written(const wrapper::Program& program, const std::string& language) {
  if (language.empty()) return wrapper::to_text(program);
  if (language == "plan") return runtime::plan_to_json(wrapper::make_plan(program)) + "\n";
  const codegen::Toolchain toolchain = codegen::find_toolchain();
  const auto emitter = wrapper::make_emitter(language);
  wrapper::EmitOptions options{.lanes = toolchain.lanes,
                               .isa = toolchain.isa,
                               .host_isa = toolchain.isa,
                               .flags = toolchain.flags,
                               .source_name = "program." + language};
  if (!emitter->writes_several_devices()) wrapper::require_one_device(program, language.c_str());
  if (emitter->needs_binaries(program)) add_binaries(program, toolchain, options);
  return emitter->emit(program, options);
}

}  // namespace

std::string opt_wrapper(const std::string& text, const OptOptions& options) {
  std::vector<const passes::WrapperPass*> passes;
  for (const std::string& name : options.passes) passes.push_back(&find_pass(wrapper_pipeline(), name));
  wrapper::Program program = wrapper::parse(text);
  if (!passes.empty()) {
    const Settings settings = parse_settings(options.compile.settings);
    const Machine machine = make_machine(program.device, settings);
    const passes::WrapperContext context{{machine.target(), settings}, *machine.backend};
    for (const passes::WrapperPass* pass : passes) pass->run(program, context);
  }
  return written(program, options.emit);
}

}  // namespace coil::cli
