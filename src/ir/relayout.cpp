#include "ir/relayout.h"

#include <algorithm>

namespace coil::ir {

bool is_whole(const BufferView& v, const Layout& layout) {
  return v.sizes == layout.sizes && v.strides == layout.strides && v.offset.is_constant(0);
}

BufferViews views_in_calls(Graph& graph, std::span<Operation> list) {
  BufferViews views;
  for (GraphOutput& out : graph.outputs)
    if (auto* v = std::get_if<BufferView>(&out.value)) views[v->buffer].push_back(v);
  for (Operation& op : list)
    if (auto* call = std::get_if<Extern>(&op.node))
      for (auto* of : {&call->inputs, &call->outputs})
        for (BufferView& v : *of) views[v.buffer].push_back(&v);
  return views;
}

bool relayout(Graph& graph, BufferId id, const Exprs& strides, const std::vector<BufferView*>& views) {
  Layout& layout = graph.buffer(id).layout;
  if (layout.strides == strides) return true;
  const Buffer& buffer = graph.buffer(id);
  if (layout.fixed || buffer.kind != BufferKind::Computed) return false;
  // Whoever takes a result of open layout is told its strides once, whatever the sizes of a call.
  if (buffer.is_output && !std::all_of(strides.begin(), strides.end(), [](Expr e) { return e.constant().has_value(); }))
    return false;
  for (const BufferView* v : views)
    if (!is_whole(*v, layout)) return false;
  for (BufferView* v : views) v->strides = strides;
  layout.strides = strides;
  return true;
}

bool relayout(Graph& graph, BufferId id, const Exprs& strides) {
  std::vector<BufferView*> views;
  for (GraphOutput& out : graph.outputs)
    if (auto* v = std::get_if<BufferView>(&out.value); v && v->buffer == id) views.push_back(v);
  for (Operation& op : graph.operations())
    if (auto* call = std::get_if<Extern>(&op.node))
      for (auto* of : {&call->inputs, &call->outputs})
        for (BufferView& v : *of)
          if (v.buffer == id) views.push_back(&v);
  return relayout(graph, id, strides, views);
}

std::optional<std::size_t> innermost(const Exprs& sizes, const Exprs& strides) {
  for (std::size_t d = sizes.size(); d-- > 0;)
    if (strides[d].is_constant(1) && !sizes[d].is_constant(1)) return d;
  return std::nullopt;
}

Exprs channels_last(const Exprs& sizes) {
  Exprs strides(sizes.size());
  Expr next = 1;
  strides[1] = next;
  next *= sizes[1];
  for (std::size_t d = sizes.size(); d-- > 2;) {
    strides[d] = next;
    next *= sizes[d];
  }
  strides[0] = next;
  return strides;
}

}  // namespace coil::ir
