#include "fx/infer.h"
#include "passes/graph/passes.h"

namespace coil::passes {

void check_calls(fx::GraphModule& module) {
  for (fx::Node* n = module.graph.first(); n; n = n->next()) fx::check_call(*n, *module.env);
  for (auto& [name, subgraph] : module.subgraphs) check_calls(*subgraph);
}

}  // namespace coil::passes
