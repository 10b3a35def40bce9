#include "ir/relayout.h"

#include <algorithm>
#include <functional>

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

namespace {

/// Where in each dimension a view begins that is a range of each dimension of a dense buffer; nothing for other views,
/// and where the strides of dimensions that do not begin at 0 are not known.
std::optional<Exprs> start_of(const BufferView& v, const Layout& layout) {
  const auto offset = v.offset.constant();
  if (v.sizes.size() != layout.sizes.size() || !offset) return std::nullopt;
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (!(v.strides[d] == layout.strides[d]) && !v.sizes[d].is_constant(1)) return std::nullopt;
  Exprs start(v.sizes.size(), 0);
  std::vector<std::pair<std::int64_t, std::size_t>> outermost_first;
  for (std::size_t d = 0; d < v.strides.size(); ++d)
    if (const auto stride = v.strides[d].constant(); stride && *stride > 0) outermost_first.emplace_back(*stride, d);
  std::ranges::sort(outermost_first, std::greater());
  std::int64_t left = *offset;
  for (const auto& [stride, d] : outermost_first) {
    const auto of_view = v.sizes[d].constant(), of_buffer = layout.sizes[d].constant();
    if (!of_view || !of_buffer || *of_view == *of_buffer) continue;
    start[d] = left / stride;
    left %= stride;
    if (*start[d].constant() + *of_view > *of_buffer) return std::nullopt;
  }
  return left == 0 ? std::optional(start) : std::nullopt;
}

}  // namespace

bool relayout(Graph& graph, BufferId id, const Exprs& strides, const std::vector<BufferView*>& views) {
  Layout& layout = graph.buffer(id).layout;
  if (layout.strides == strides) return true;
  const Buffer& buffer = graph.buffer(id);
  if (layout.fixed || buffer.kind != BufferKind::Computed) return false;
  // Whoever takes a result of open layout is told its strides once, whatever the sizes of a call.
  if (buffer.is_output && !std::all_of(strides.begin(), strides.end(), [](Expr e) { return e.constant().has_value(); }))
    return false;
  std::vector<Exprs> starts;
  for (const BufferView* v : views) {
    auto start = start_of(*v, layout);
    if (!start || (buffer.is_output && !is_whole(*v, layout))) return false;
    starts.push_back(std::move(*start));
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    views[i]->strides = strides;
    views[i]->offset = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) views[i]->offset += starts[i][d] * strides[d];
  }
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

Exprs channels_last(const Exprs& sizes, std::size_t channel) {
  Exprs strides(sizes.size(), 1);
  Expr next = sizes[channel];
  for (std::size_t d = sizes.size(); d-- > 0;) {
    if (d == channel) continue;
    strides[d] = next;
    next *= sizes[d];
  }
  return strides;
}

bool lies_channels_last(const BufferView& v) {
  const Exprs wanted = channels_last(v.sizes);
  for (std::size_t d = 0; d < v.sizes.size(); ++d)
    if (!v.sizes[d].is_constant(1) && !(v.strides[d] == wanted[d])) return false;
  return true;
}

}  // namespace coil::ir
