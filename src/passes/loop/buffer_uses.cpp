#include "passes/loop/buffer_uses.h"

namespace coil::ir {

BufferUses::BufferUses(const Graph& graph, std::span<const Operation> list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (BufferId b : reads(list[i])) readers[b].push_back(i);
    for (BufferId b : list[i].outs) writers[b].push_back(i);
  }
  for (const GraphOutput& out : graph.outputs)
    if (const auto* view = std::get_if<BufferView>(&out.value)) returned.insert(view->buffer);
}

}  // namespace coil::ir
