#include "compiler/pipeline.h"

#include "compiler/pack_weights.h"
#include "fx/text.h"
#include "ir/fuse_post_ops.h"
#include "ir/layout_choice.h"
#include "lowering/lowering.h"
#include "passes/passes.h"
#include "support/error.h"
#include "wrapper/build.h"

namespace coil {
namespace {

void run_pass(std::string_view name, fx::GraphModule& module) {
  const auto& all = passes::all();
  auto pass = std::find_if(all.begin(), all.end(), [&](const passes::Pass& p) { return p.name == name; });
  COIL_CHECK(pass != all.end(), "no pass {}", name);
  pass->run(module);
}

/// Graph-to-graph passes in order: each is named as `coil opt --pass` names it.
constexpr const char* kPasses[] = {"remove-noops", "functionalize", "eliminate-dead-code", "fold-batch-norm", "fuse-attention", "fuse-linear", "decompose",
                                   "eliminate-common-subexpressions", "eliminate-dead-code", "propagate"};

/// Throws Error when a name is none of what is shown: the graph after each pass, and the stages below.
void check_stage_names(const std::vector<std::string>& names) {
  std::set<std::string, std::less<>> known = {"graph", "lower", "ir", "schedule", "wrapper", "kernels"};
  known.insert(std::begin(kPasses), std::end(kPasses));
  parse_stages(fmt::format("{}", fmt::join(names, ",")), known);
}

}  // namespace

Lowered lower_archive(const std::filesystem::path& pt2, const CompileOptions& options, Stages& stage) {
  const Settings settings = parse_settings(options.settings);
  check_stage_names(options.log);
  if (parse_device(options.device).type != DeviceType::CPU) fail("this build compiles for the cpu only, not for {}", options.device);
  Lowered out;
  out.source = stage("read", [&] { return frontend::read_pt2(pt2); });
  fx::GraphModule& module = *out.source.module;
  out.source_lines = source_lines(module);
  stage.show("graph", [&] { return fx::to_string(module, {.locations = true}); });
  for (const char* name : kPasses) {
    stage(name, [&] { run_pass(name, module); });
    stage.show(name, [&] { return fx::to_string(module); });
  }
  out.graph = stage("lower", [&] { return lowering::lower(module); });
  ir::Graph& graph = *out.graph;
  stage.show("lower", [&] { return ir::to_string(graph); });
  stage("post-ops", [&] {
    ir::fuse_post_ops(graph);
    ir::eliminate_dead_operations(graph);
  });
  stage("layouts", [&] { ir::choose_layouts(graph); });
  stage.show("ir", [&] { return ir::to_string(graph); });
  if (settings.pack_weights) stage("pack", [&] { pack_weights(graph); });
  out.schedule = stage("schedule", [&] { return scheduler::schedule(graph); });
  stage.show("schedule", [&] { return scheduler::to_string(graph, out.schedule); });
  out.toolchain = codegen::find_toolchain(settings.cpu_compiler, settings.cpu_isa);
  out.lines = stage("wrapper", [&] { return wrapper::build(module, graph, out.schedule, out.toolchain); });
  stage.show("wrapper", [&] { return wrapper::to_string(out.lines); });
  if (settings.verify) wrapper::verify(out.lines);
  return out;
}

}  // namespace coil
