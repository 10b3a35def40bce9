// `coil opt` on a graph.
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "frontend/pt2.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "opt.h"

namespace coil::cli {
namespace {

void run(fx::GraphModule& module, const std::vector<const passes::GraphPass*>& passes, const CompileOptions& options) {
  const Settings settings = parse_settings(options.settings);
  const Machine machine = make_machine(parse_device(options.device), settings);
  const passes::GraphContext context = graph_context(machine, settings, run_here(machine, settings, options));
  for (const passes::GraphPass* pass : passes) {
    pass->run(module, context);
    module.graph.lint();
  }
}

}  // namespace

std::string opt_graph(const std::string& text, const OptOptions& options) {
  std::vector<const passes::GraphPass*> passes;
  for (const std::string& name : options.passes) passes.push_back(&find_pass(graph_pipeline(), name));
  const auto module = text.empty() ? frontend::read_pt2(options.file).module : fx::parse(text);
  fx::infer_missing(*module);
  if (!passes.empty()) run(*module, passes, options.compile);
  return fx::to_string(*module, {.locations = options.locations, .origins = options.origins});
}

}  // namespace coil::cli
