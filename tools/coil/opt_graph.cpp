// `coil opt` on a graph.
#include "compiler/options.h"
#include "compiler/pipeline.h"
#include "frontend/pt2.h"
#include "fx/infer.h"
#include "fx/text.h"
#include "opt.h"
#include "tensor/zeros.h"

namespace coil::cli {
namespace {

/// Attributes of a graph that came as text have no values: zeros stand for them.
void fill_attributes(fx::GraphModule& module) {
  for (fx::Node* n = module.graph.first(); n; n = n->next()) {
    if (n->opcode != fx::Opcode::GetAttr || !n->is_tensor() || module.attributes.contains(n->target)) continue;
    std::vector<std::int64_t> sizes, strides;
    for (sym::Expr e : n->tensor().sizes) sizes.push_back(e.constant().value_or(-1));
    for (sym::Expr e : n->tensor().strides) strides.push_back(e.constant().value_or(-1));
    if (auto value = zeros(n->tensor().dtype, sizes, strides)) module.attributes.emplace(n->target, std::move(*value));
  }
}

void run(fx::GraphModule& module, const std::vector<const passes::GraphPass*>& passes, const CompileOptions& options) {
  const Settings settings = parse_settings(options.settings);
  const Machine machine = make_machine(parse_device(options.device), settings);
  fill_attributes(module);
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
