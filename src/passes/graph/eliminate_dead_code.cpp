#include "passes/graph/passes.h"

namespace coil::passes {

void eliminate_dead_code(fx::GraphModule& m) {
  m.graph.eliminate_dead_code();
  for (auto& [name, sub] : m.subgraphs) eliminate_dead_code(*sub);
}

}  // namespace coil::passes
