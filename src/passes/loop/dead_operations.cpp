#include "passes/loop/dead_operations.h"

#include <vector>

namespace coil::ir {

std::size_t eliminate_dead_operations(Graph& graph) {
  const std::vector<bool> live = live_operations(graph);
  std::vector<Operation> kept;
  for (const Operation& op : graph.operations())
    if (live[op.id]) kept.push_back(op);
  const std::size_t removed = live.size() - kept.size();
  if (removed) graph.replace_operations(std::move(kept));
  return removed;
}

}  // namespace coil::ir
