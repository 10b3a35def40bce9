#include "passes/loop/pack_weights.h"

#include <cstring>
#include <map>
#include <utility>

#include "library_ops/convolutions.h"
#include "library_ops/table.h"
#include "runtime/device/library.h"
#include "runtime/views/strided_copy.h"
#include "support/error.h"

namespace coil {
namespace {

/// A view as some call has it: libraries look at all sizes of a call, and ask that they fit together.
runtime::BoundView bind(const sym::ShapeEnv& env, const ir::BufferView& v) {
  constexpr std::int64_t kUnknown = 64;
  runtime::BoundView out;
  out.dtype = v.dtype;
  for (sym::Expr e : v.sizes) out.sizes.push_back(env.hint_with(e, kUnknown).value_or(kUnknown));
  for (sym::Expr e : v.strides) out.strides.push_back(env.hint_with(e, kUnknown).value_or(1));
  return out;
}

/// A dense copy with dimension 1 innermost, the order that engines of matrix units read; nothing when it lies so.
std::optional<Tensor> channels_last(const Tensor& t) {
  Tensor made{{}, t.dtype, t.sizes, Sizes(t.sizes.size()), 0};
  std::int64_t next = made.strides[1] = 1;
  next *= t.sizes[1];
  for (std::size_t d = t.sizes.size(); d-- > 2; next *= t.sizes[d]) made.strides[d] = next;
  made.strides[0] = next;
  if (runtime::same_layout(t.sizes, t.strides, made.strides)) return std::nullopt;
  made.storage = Storage::allocate(static_cast<std::size_t>(t.numel()) * size_of(t.dtype));
  runtime::copy_strided(made, t);
  return made;
}

/// A form that a constant was brought into, for all calls that want it so.
struct Made {
  ir::BufferView weight;
  runtime::Attributes attributes;  ///< that say how it lies
};
using MadeOf = std::map<ir::BufferId, std::vector<Made>>;

/// Compares tensors by their bytes: calls read one view of a weight in several ways (`weight_transposed`). Both are
/// dense.
bool are_same(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.strides == b.strides &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<std::size_t>(a.numel()) * size_of(a.dtype)) == 0;
}

/// The constant, written.
const Tensor& written(ir::Graph& graph, ir::BufferId constant) {
  if (auto fill = graph.fills.extract(constant)) fill.mapped()();
  return graph.constants.at(constant);
}

/// The weight gives way to what was made of it, or to an equal form that an earlier call has.
void replace_weight(ir::Graph& graph, ir::BufferView& weight, runtime::Packed packed, Device device, MadeOf& made_of) {
  std::vector<Made>& made = made_of[weight.buffer];
  for (const Made& m : made)
    if (m.attributes == packed.attributes && are_same(written(graph, m.weight.buffer), packed.written())) {
      weight = m.weight;
      return;
    }
  Tensor& value = packed.bytes;
  ir::Layout layout{.dtype = value.dtype, .device = device, .sizes = {}, .strides = {}, .fixed = true};
  layout.sizes.assign(value.sizes.begin(), value.sizes.end());
  layout.strides.assign(value.strides.begin(), value.strides.end());
  std::string name = graph.buffer(weight.buffer).name + ".packed";
  if (!made.empty()) name += fmt::format(".{}", made.size() + 1);
  const ir::BufferId id = graph.add_buffer(name, ir::BufferKind::Constant, layout).id;
  weight = {id, layout.dtype, layout.sizes, layout.strides, 0};
  graph.constants.emplace(id, std::move(value));
  if (packed.fill) graph.fills.emplace(id, std::move(packed.fill));
  made.push_back({weight, std::move(packed.attributes)});
}

}  // namespace

std::optional<Tensor> constant_operand(const ir::Graph& graph, const ir::BufferView& v) {
  if (!graph.is_known(v.buffer)) return std::nullopt;
  Tensor t = graph.constants.at(v.buffer);
  t.sizes.clear();
  t.strides.clear();
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (!v.sizes[d].is_constant() || !v.strides[d].is_constant()) return std::nullopt;
    t.sizes.push_back(*v.sizes[d].constant());
    t.strides.push_back(*v.strides[d].constant());
  }
  if (!v.offset.is_constant() || v.dtype != t.dtype) return std::nullopt;
  t.offset += *v.offset.constant();
  return t;
}

namespace {

/// Whether a value that is made of constants may be a constant itself. What ranks share is what they read: it is made
/// in every run.
bool may_be_constant(const ir::Graph& graph, const ir::Buffer& out) {
  return out.kind == ir::BufferKind::Computed && !out.is_output && !out.layout.comm && out.writers.size() == 1 &&
         !graph.mutated.contains(out.id);
}

/// What an operation copies, where it does nothing else: a constant to another device, or a strided window on one.
std::optional<Tensor> copied_constant(ir::Graph& graph, const ir::Operation& op) {
  if (op.outs.size() != 1 || !may_be_constant(graph, graph.buffer(op.outs[0]))) return std::nullopt;
  if (const auto* call = std::get_if<ir::Extern>(&op.node))
    return library_ops::has(call->op, library_ops::Trait::DeviceCopy) ? constant_operand(graph, call->inputs.at(0))
                                                                      : std::nullopt;
  const auto* loop = std::get_if<ir::Pointwise>(&op.node);
  if (!loop || !op.store_index.empty() || !loop->body->args.empty() || loop->body->mask ||
      (loop->body->op != ir::ScalarOp::Load && loop->body->op != ir::ScalarOp::LinearLoad))
    return std::nullopt;
  const ir::Buffer& out = graph.buffer(op.outs[0]);
  const ir::Layout& from = graph.buffer(loop->body->buffer).layout;
  if (from.dtype != out.layout.dtype || out.layout.sizes != loop->sizes) return std::nullopt;
  ir::BufferView view{loop->body->buffer, from.dtype, loop->sizes, {}, 0};
  sym::Expr rest =
      loop->body->op == ir::ScalarOp::Load ? ir::linear_index(from, loop->body->index) : loop->body->index[0];
  for (std::size_t d = 0; d < loop->sizes.size(); ++d) {
    const auto parts = sym::linear_in(rest, graph.ivar(d));
    if (!parts) return std::nullopt;
    view.strides.push_back(parts->coefficient);
    rest = parts->rest;
  }
  view.offset = rest;
  auto value = constant_operand(graph, view);
  if (value && value->numel() > graph.constants.at(view.buffer).numel())
    return std::nullopt;  // what repeats stays small
  return value;
}

}  // namespace

void copy_constants(ir::Graph& graph) {
  std::vector<ir::Operation> kept;
  for (ir::Operation& op : graph.operations()) {
    const auto value = copied_constant(graph, op);
    ir::Buffer& out = graph.buffer(op.outs.empty() ? 0 : op.outs[0]);
    Tensor made;
    if (value) {
      made = {{}, value->dtype, value->sizes, {}, 0};
      for (const sym::Expr& e : out.layout.strides)
        if (e.constant()) made.strides.push_back(*e.constant());
    }
    if (!value || made.strides.size() != value->sizes.size()) {
      kept.push_back(std::move(op));
      continue;
    }
    made.storage = Storage::allocate(static_cast<std::size_t>(value->numel()) * size_of(value->dtype));
    runtime::copy_strided(made, *value);
    out.kind = ir::BufferKind::Constant;
    out.layout.fixed = true;
    if (out.name.empty()) out.name = fmt::format("copied{}", out.id);
    graph.constants.emplace(out.id, std::move(made));
  }
  graph.replace_operations(std::move(kept));
}

void relayout_weights(ir::Graph& graph) {
  MadeOf made;
  for (ir::Operation& op : graph.operations()) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    if (!call || !library_ops::has(call->op, library_ops::Trait::Convolution)) continue;
    ir::BufferView& weight = library_ops::ConvolutionCall(*call).weight();
    const auto value = constant_operand(graph, weight);
    auto relaid = value && value->numel() > 0 ? channels_last(*value) : std::nullopt;
    if (!relaid) continue;
    const Device device = graph.buffer(weight.buffer).layout.device;
    replace_weight(graph, weight, {.attributes = {}, .bytes = std::move(*relaid), .fill = {}}, device, made);
  }
}

void pack_weights(ir::Graph& graph, std::string_view isa) {
  MadeOf made;
  for (ir::Operation& op : graph.operations()) {
    auto* call = std::get_if<ir::Extern>(&op.node);
    const auto operand = call ? library_ops::get(call->op).packable() : std::nullopt;
    if (!operand) continue;
    ir::BufferView& weight = call->inputs.at(*operand);
    auto value = constant_operand(graph, weight);
    if (!value) continue;
    std::vector<runtime::BoundView> inputs, outputs;
    for (const ir::BufferView& v : call->inputs) inputs.push_back(bind(graph.env(), v));
    for (const ir::BufferView& v : call->outputs) outputs.push_back(bind(graph.env(), v));
    auto packed = runtime::pack_operand(call->op, call->attributes, inputs, outputs, *operand, *value, isa);
    if (!packed) continue;
    for (const auto& [key, v] : packed->attributes) call->attributes.insert_or_assign(key, v);
    replace_weight(graph, weight, std::move(*packed), {}, made);
  }
}

}  // namespace coil
