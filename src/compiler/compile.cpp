#include <chrono>

#include "coil/coil.h"
#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude.h"
#include "codegen/cpp/toolchain.h"
#include "compiler/options.h"
#include "compiler/pack_weights.h"
#include "compiler/report.h"
#include "frontend/pt2.h"
#include "fx/text.h"
#include "ir/fuse_post_ops.h"
#include "ir/layout_choice.h"
#include "lowering/lowering.h"
#include "passes/passes.h"
#include "runtime/executor.h"
#include "scheduler/schedule.h"
#include "support/error.h"
#include "support/log.h"
#include "sym/print.h"
#include "wrapper/build.h"
#include "wrapper/plan.h"

namespace coil {
namespace {

using Clock = std::chrono::steady_clock;

/// Times stages and logs what each made.
class Stages {
 public:
  Stages(CompileReport& report, const CompileOptions& options) : report_(report), log_(LogOptions{.stages = {options.log.begin(), options.log.end()}}) {}

  template <class F>
  auto operator()(const char* name, F&& f) {
    const auto start = Clock::now();
    auto record = [&] { report_.stages.emplace_back(name, std::chrono::duration<double>(Clock::now() - start).count()); };
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      record();
    } else {
      auto result = f();
      record();
      return result;
    }
  }

  /// `text` is only called when the stage is logged.
  template <class F>
  void show(const char* stage, F&& text) {
    if (log_.enabled(stage)) log_.write(stage, text());
  }

 private:
  CompileReport& report_;
  Log log_;
};

/// Kernels as translation units of about equal size, one for each compiler that may run at once.
std::vector<std::string> translation_units(const wrapper::Program& program, int lanes, int jobs) {
  std::vector<std::string> bodies(static_cast<std::size_t>(std::max(1, jobs)));
  for (const wrapper::Kernel& k : program.kernels)
    *std::min_element(bodies.begin(), bodies.end(), [](auto& a, auto& b) { return a.size() < b.size(); }) += k.text + "\n";
  std::vector<std::string> units;
  for (const std::string& body : bodies)
    if (!body.empty()) units.push_back(codegen::prelude(lanes, codegen::prelude_names(body)) + codegen::kernel_support() + body);
  return units;
}

void run_pass(std::string_view name, fx::GraphModule& module) {
  const auto& all = passes::all();
  auto pass = std::find_if(all.begin(), all.end(), [&](const passes::Pass& p) { return p.name == name; });
  COIL_CHECK(pass != all.end(), "no pass {}", name);
  pass->run(module);
}

/// Graph-to-graph passes in order: each is named as `coil opt --pass` names it.
constexpr const char* kPasses[] = {"remove-noops", "functionalize", "eliminate-dead-code", "fold-batch-norm", "fuse-attention", "decompose",
                                   "eliminate-common-subexpressions", "eliminate-dead-code", "propagate"};

}  // namespace

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  const Settings settings = parse_settings(options.settings);
  if (parse_device(options.device).type != DeviceType::CPU) fail("this build compiles for the cpu only, not for {}", options.device);
  Compiled out;
  const auto start = Clock::now();
  Stages stage(out.report, options);

  auto program = stage("read", [&] { return frontend::read_pt2(pt2); });
  fx::GraphModule& module = *program.module;
  const SourceLines lines_of_nodes = source_lines(module);
  stage.show("graph", [&] { return fx::to_string(module, {.locations = true}); });
  for (const char* name : kPasses) {
    stage(name, [&] { run_pass(name, module); });
    stage.show(name, [&] { return fx::to_string(module); });
  }
  auto graph = stage("lower", [&] { return lowering::lower(module); });
  stage.show("lower", [&] { return ir::to_string(*graph); });
  stage("post-ops", [&] {
    ir::fuse_post_ops(*graph);
    ir::eliminate_dead_operations(*graph);
  });
  stage("layouts", [&] { ir::choose_layouts(*graph); });
  stage.show("ir", [&] { return ir::to_string(*graph); });
  if (settings.pack_weights) stage("pack", [&] { pack_weights(*graph); });
  scheduler::Schedule schedule = stage("schedule", [&] { return scheduler::schedule(*graph); });
  stage.show("schedule", [&] { return scheduler::to_string(*graph, schedule); });
  const codegen::Toolchain toolchain = codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa);
  wrapper::Program lines = stage("wrapper", [&] { return wrapper::build(module, *graph, schedule, toolchain); });
  stage.show("wrapper", [&] { return wrapper::to_string(lines); });
  if (settings.verify) wrapper::verify(lines);

  out.program = std::make_shared<runtime::Program>();
  out.program->plan = stage("plan", [&] { return wrapper::make_plan(lines); });
  out.program->plan.isa = toolchain.isa;
  if (program.sample_inputs) out.program->sample_inputs = std::move(*program.sample_inputs);
  for (wrapper::Constant& c : lines.constants) out.program->constants.push_back(std::move(c.value));
  const std::vector<std::string> units = translation_units(lines, toolchain.lanes, options.threads > 0 ? options.threads : 2);
  for (const std::string& u : units) out.program->kernel_source += u;
  stage.show("kernels", [&] { return out.program->kernel_source; });
  out.program->libraries = stage("kernels", [&] { return codegen::compile_shared(toolchain, units, {.cache_folder = options.cache}); });

  out.report.kernels = static_cast<int>(lines.kernels.size());
  for (const runtime::Step& s : out.program->plan.steps) out.report.extern_calls += std::holds_alternative<runtime::ExternCall>(s);
  for (const runtime::Constant& c : out.program->plan.constants) out.report.weight_bytes += c.bytes;
  out.report.text = report_text(lines_of_nodes, *graph, schedule, lines, *out.program);
  out.report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

}  // namespace coil
