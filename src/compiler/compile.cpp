#include "codegen/cpp/kernel.h"
#include "codegen/cpp/prelude.h"
#include "coil/coil.h"
#include "compiler/pipeline.h"
#include "compiler/report.h"
#include "runtime/executor.h"
#include "wrapper/plan.h"

namespace coil {
namespace {

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

}  // namespace

Compiled compile(const std::filesystem::path& pt2, const CompileOptions& options) {
  Compiled out;
  const auto start = std::chrono::steady_clock::now();
  Stages stage(out.report, options);
  Lowered lowered = lower_archive(pt2, options, stage);
  wrapper::Program& lines = lowered.lines;

  out.program = std::make_shared<runtime::Program>();
  out.program->plan = stage("plan", [&] { return wrapper::make_plan(lines); });
  out.program->plan.isa = lowered.toolchain.isa;
  if (lowered.source.sample_inputs) out.program->sample_inputs = std::move(*lowered.source.sample_inputs);
  const std::vector<std::string> units = translation_units(lines, lowered.toolchain.lanes, options.threads > 0 ? options.threads : 2);
  for (const std::string& u : units) out.program->kernel_source += u;
  stage.show("kernels", [&] { return out.program->kernel_source; });
  out.program->libraries = stage("kernels", [&] { return codegen::compile_shared(lowered.toolchain, units, {.cache_folder = options.cache}); });

  out.report.kernels = static_cast<int>(lines.kernels.size());
  for (const runtime::Step& s : out.program->plan.steps) out.report.extern_calls += std::holds_alternative<runtime::ExternCall>(s);
  for (const runtime::Constant& c : out.program->plan.constants) out.report.weight_bytes += c.bytes;
  out.report.text = report_text(lowered.source_lines, *lowered.graph, lowered.schedule, lines, *out.program);
  for (wrapper::Constant& c : lines.constants) out.program->constants.push_back(std::move(c.value));
  out.report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace coil
