#include "ir/layout_choice.h"

namespace coil::ir {

namespace {

bool is_whole(const BufferView& v, const Layout& layout) { return v.sizes == layout.sizes && v.strides == layout.strides && v.offset.is_constant(0); }

/// Calls `f` on each view of the buffer in a library call.
template <class F>
void for_each_view(Graph& graph, BufferId id, F&& f) {
  for (Operation& op : graph.operations())
    if (auto* call = std::get_if<Extern>(&op.node))
      for (auto* views : {&call->inputs, &call->outputs})
        for (BufferView& v : *views)
          if (v.buffer == id) f(v);
}

}  // namespace

bool relayout(Graph& graph, BufferId id, const Exprs& strides) {
  Layout& layout = graph.buffer(id).layout;
  if (layout.strides == strides) return true;
  if (layout.fixed || graph.buffer(id).kind != BufferKind::Computed) return false;
  bool whole = true;
  for_each_view(graph, id, [&](const BufferView& v) { whole &= is_whole(v, layout); });
  if (!whole) return false;
  for_each_view(graph, id, [&](BufferView& v) { v.strides = strides; });
  layout.strides = strides;
  return true;
}

void choose_layouts(Graph& graph) {
  for (Buffer& buffer : graph.buffers()) buffer.layout.fixed = true;
}

}  // namespace coil::ir
