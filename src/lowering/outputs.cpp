#include "lowering/outputs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "ir/relayout.h"
#include "lowering/common.h"
#include "support/error.h"

namespace coil::lowering {

namespace {

double widen_half(std::uint16_t bits) {
  const int sign = bits >> 15, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                           : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                          : std::ldexp(fraction, -24);
  return sign ? -magnitude : magnitude;
}

/// The first element as a scalar; null for dtypes that have none here.
Scalar first_element(ir::ScalarPool& pool, const Tensor& t) {
  const DType reg = register_type(t.dtype);
  switch (t.dtype) {
    case DType::U8: return pool.constant_int(reg, *t.data<std::uint8_t>());
    case DType::I8: return pool.constant_int(reg, *t.data<std::int8_t>());
    case DType::I16: return pool.constant_int(reg, *t.data<std::int16_t>());
    case DType::I32: return pool.constant_int(reg, *t.data<std::int32_t>());
    case DType::I64: return pool.constant_int(reg, *t.data<std::int64_t>());
    case DType::U16: return pool.constant_int(reg, *t.data<std::uint16_t>());
    case DType::U32: return pool.constant_int(reg, *t.data<std::uint32_t>());
    case DType::U64: return pool.constant_int(reg, *t.data<std::int64_t>());
    case DType::Bool: return pool.constant_int(reg, *t.data<std::uint8_t>() != 0);
    case DType::F32: return pool.constant(reg, *t.data<float>());
    case DType::F64: return pool.constant(reg, *t.data<double>());
    case DType::F16: return pool.constant(reg, widen_half(*t.data<std::uint16_t>()));
    case DType::BF16:
      return pool.constant(reg, std::bit_cast<float>(static_cast<std::uint32_t>(*t.data<std::uint16_t>()) << 16));
    default: return nullptr;
  }
}

/// The node whose memory a value lies in: through view operators to what made the memory.
const fx::Node* base_of(const fx::Node* n) {
  // By schema these return their argument or a copy; decomposition has settled which, so what is left of them copies.
  constexpr std::string_view kMayCopy[] = {"aten.reshape.default", "aten.contiguous.default", "aten.to.dtype",
                                           "aten.to.device",       "aten.to.other",           "aten.to.dtype_layout"};
  for (;;) {
    if (n->opcode != fx::Opcode::CallFunction) return n;
    const fx::Node* call = n->is_call("_operator.getitem") ? n->args[0].as_node() : n;
    const bool view = call->is_call("aten._unsafe_view.default") || (call->op && call->op->schema.is_view());
    if (!view || std::find(std::begin(kMayCopy), std::end(kMayCopy), call->target) != std::end(kMayCopy)) return n;
    n = call->args[0].as_node();
  }
}

}  // namespace

std::set<const fx::Node*> results_in_16_bits(const fx::GraphModule& module) {
  std::set<const fx::Node*> found;
  const auto note = [&](const ops::Value& arg) {
    auto* node = arg.get_if<fx::Node*>();
    if (!node || !(*node)->is_tensor()) return;
    const fx::Node* base = base_of(*node);
    if (!base->is_tensor()) return;
    if (const DType t = base->tensor().dtype; t == DType::F16 || t == DType::BF16) found.insert(base);
  };
  for (const fx::Node* n = module.graph.first(); n; n = n->next())
    if (n->opcode == fx::Opcode::Output) std::ranges::for_each(n->args, note);
  return found;
}

ProgramStorage::ProgramStorage(const fx::GraphModule& module, ir::Graph& graph) : module_(module), graph_(graph) {}

TensorBox ProgramStorage::input(const fx::Input& input, const fx::Node& placeholder) {
  ir::Layout layout{.fixed = true};
  if (graph_.on_several_devices) layout.device = graph_.target().device;
  if (auto* meta = placeholder.meta.value.get_if<sym::TensorMeta>()) {
    layout.dtype = meta->dtype;
    layout.device = meta->device;
    layout.sizes = meta->sizes;
    layout.strides = input.strides.value_or(meta->strides);
    if (input.strides) anew_.insert(input.placeholder);
  } else {
    // A number comes as a tensor of no dimensions.
    const ops::Value& value = input.constant ? *input.constant : placeholder.meta.value;
    layout.dtype = value.is<ops::Bool>()                             ? DType::Bool
                   : value.is<double>() || value.is<ops::SymFloat>() ? DType::F64
                                                                     : DType::I64;
  }
  const ir::BufferId id = graph_.add_buffer(input.placeholder, ir::BufferKind::Input, std::move(layout)).id;
  graph_.inputs.push_back(id);
  inputs_[input.placeholder] = id;
  return ir::whole(graph_, id);
}

/// The device of an attribute. In a program on one device constants have no device of their own, since they go where it
/// runs.
Device ProgramStorage::attribute_device(const std::string& name) const {
  if (!graph_.on_several_devices) return {};
  for (const fx::Node* n = module_.graph.first(); n; n = n->next())
    if (n->opcode == fx::Opcode::GetAttr && n->target == name && n->is_tensor()) return n->tensor().device;
  return graph_.target().device;
}

ir::BufferId ProgramStorage::attribute_buffer(const std::string& name) {
  if (auto found = attributes_.find(name); found != attributes_.end()) return found->second;
  const Tensor& value = module_.attributes.at(name);
  ir::Layout layout{.dtype = value.dtype, .device = attribute_device(name), .fixed = true};
  layout.sizes.assign(value.sizes.begin(), value.sizes.end());
  layout.strides.assign(value.strides.begin(), value.strides.end());
  const ir::BufferId id = graph_.add_buffer(name, ir::BufferKind::Constant, std::move(layout)).id;
  graph_.constants.emplace(id, value);
  if (module_.exchanged.contains(name)) graph_.exchanged.insert(id);
  return attributes_[name] = id;
}

TensorBox ProgramStorage::attribute(const fx::Node& node) {
  auto found = module_.attributes.find(node.target);
  if (found == module_.attributes.end()) fail("the program has no attribute {}", node.target);
  const Tensor& value = found->second;
  if (value.numel() == 1 && module_.is_constant(node.target))
    if (Scalar body = first_element(graph_.pool(), value)) {
      Exprs sizes(value.sizes.begin(), value.sizes.end());
      return ir::make_pointwise(graph_, value.dtype, node.tensor().device, std::move(sizes), body);
    }
  return ir::whole(graph_, attribute_buffer(node.target));
}

ir::BufferId ProgramStorage::buffer(const fx::Node& node) {
  return node.opcode == fx::Opcode::GetAttr ? attribute_buffer(node.target) : inputs_.at(node.name);
}

ir::BufferId ProgramStorage::target(const fx::Mutation& m) {
  return m.kind == fx::Mutation::Target::Attribute ? attribute_buffer(m.target) : inputs_.at(m.target);
}

namespace {

class Outputs {
 public:
  Outputs(Context& ctx, const fx::Node& output, ProgramStorage& storage)
      : ctx_(ctx), graph_(ctx.graph), output_(output), storage_(storage) {
    for (auto& m : ctx.module.mutations) {
      auto* node = output.args.at(m.output).get_if<fx::Node*>();
      if (node && matches(graph_.buffer(storage.target(m)).layout.strides, (*node)->tensor()))
        written_.emplace(*node, storage.target(m));
      targets_.insert(storage.target(m));
    }
  }

  void run() {
    for (std::size_t i = 0; i < ctx_.module.outputs.size(); ++i)
      if (auto* node = output_.args.at(i).get_if<fx::Node*>(); node && (*node)->is_tensor())
        ++outputs_on_[base_of(*node)];
    find_kept();
    for (std::size_t i = 0; i < ctx_.module.outputs.size(); ++i) add(ctx_.module.outputs[i], output_.args[i]);
    write_back();
  }

 private:
  void add(const fx::Output& output, const ops::Value& arg) {
    const ops::Value* value = &arg;
    if (auto* node = arg.get_if<fx::Node*>()) value = &(*node)->meta.value;
    ir::GraphOutput out{.name = output.path, .value = Expr(0)};
    if (value->is<sym::TensorMeta>()) {
      out.value = output.any_strides ? tensor_of_any_strides(arg.as_node()) : tensor(arg.as_node());
    } else if (auto* e = value->get_if<Expr>()) {
      out.value = *e;
    } else if (auto* b = value->get_if<ops::Bool>()) {
      out.value = b->condition;
      out.is_bool = true;
    } else if (auto* d = value->get_if<double>()) {
      out.value = *d;
    } else if (value->is<ops::SymFloat>()) {
      out.value = number(arg.as_node());
    } else if (value->is_none()) {
      return;  // None has no value to give
    } else {
      fail("output {} is {}, which has no form at run time", output.path, ops::to_string(*value));
    }
    graph_.outputs.push_back(std::move(out));
  }

  /// A float that the run computes: a tensor of no dimensions.
  BufferView number(const fx::Node* node) {
    const TensorBox& box = std::get<TensorBox>(ctx_.values.at(node));
    TensorBox copy = ir::make_pointwise(graph_, DType::F64, box.device(), {}, element(ctx_, box, {}).cast(DType::F64));
    ir::Buffer& buffer = graph_.buffer(copy.realize());
    buffer.layout.fixed = true;
    buffer.is_output = true;
    return {buffer.id, DType::F64, {}, {}, 0};
  }

  BufferView tensor(const fx::Node* node) {
    const sym::TensorMeta& meta = node->tensor();
    const fx::Node* base = base_of(node);
    auto window = [&](ir::BufferId id) {
      // Offsets count elements, of the type in which the memory is seen.
      Expr begin = base->tensor().offset;
      if (const auto from = size_of(base->tensor().dtype), to = size_of(meta.dtype); from != to)
        begin = sym::floor_div(begin * static_cast<std::int64_t>(from), static_cast<std::int64_t>(to));
      return BufferView{id, meta.dtype, meta.sizes, meta.strides, meta.offset - begin};
    };
    if (base->opcode != fx::Opcode::CallFunction && !storage_.is_laid_out_anew(*base))
      return window(storage_.buffer(*base));
    if (auto found = written_.find(base); found != written_.end()) return window(found->second);
    if (node == base) return window(own_memory(node));
    // A view that shares memory with no other output gets memory of its own size, not that of its base.
    const TensorBox& whole = std::get<TensorBox>(ctx_.values.at(base));
    if (outputs_on_[base] == 1 && !whole.storage->realized() &&
        ir::dense_strides(graph_.env(), meta.sizes, meta.strides) == meta.strides)
      return {own_memory(node), meta.dtype, meta.sizes, meta.strides, 0};
    return window(own_memory(base));
  }

  /// The memory that whole outputs of any strides have, whose caller asks for no memory of their own either.
  void find_kept() {
    for (std::size_t i = 0; i < ctx_.module.outputs.size(); ++i) {
      auto* node = output_.args.at(i).get_if<fx::Node*>();
      if (!ctx_.module.outputs[i].any_strides || !node || !(*node)->is_tensor()) continue;
      if ((*node)->opcode != fx::Opcode::CallFunction || base_of(*node) != *node) continue;
      const auto* box = std::get_if<TensorBox>(&ctx_.values.at(*node));
      if (!box || !box->storage->realized() || !box->is_whole() || written_.contains(*node)) continue;
      const ir::Buffer& buffer = graph_.buffer(*box->storage->buffer);
      if (buffer.kind == ir::BufferKind::Computed && !buffer.layout.comm) kept_.insert(buffer.id);
    }
  }

  /// All of such memory as the value of another output of any strides, which is nothing but a copy of it and lies as
  /// that output is recorded: a GPU's attention may give its result in the order in which it is then copied.
  std::optional<BufferView> same_as_kept(const fx::Node* node) {
    const auto* box = std::get_if<TensorBox>(&ctx_.values.at(node));
    if (!box || is_complex(node->tensor().dtype)) return std::nullopt;
    const auto suits = [&](const BufferView& view) {
      const ir::Buffer& buffer = graph_.buffer(view.buffer);
      return kept_.contains(view.buffer) && buffer.layout.dtype == view.dtype &&
             graph_.env().statically_known_equal(sym::product(view.sizes), sym::product(buffer.layout.sizes)) &&
             matches(view.strides, node->tensor()) &&
             std::ranges::all_of(view.strides, [](Expr e) { return e.constant().has_value(); });
    };
    if (!box->storage->realized()) return box->copied(suits);
    std::optional<BufferView> view = box->strided();
    return view && suits(*view) ? view : std::nullopt;
  }

  /// An output whose strides the caller leaves open: its layout is chosen later, as is best for the operations that
  /// make it. An output that shares memory with others, or whose strides are unknown, has the recorded layout.
  BufferView tensor_of_any_strides(const fx::Node* node) {
    const fx::Node* base = base_of(node);
    if (outputs_on_[base] == 1 && !written_.contains(base)) {
      if (const auto view = same_as_kept(node); view && !is_own(node, *view)) {
        graph_.buffer(view->buffer).layout.fixed = true;
        return *view;
      }
    }
    if (node != base || base->opcode != fx::Opcode::CallFunction || outputs_on_[base] != 1 || written_.contains(base) ||
        memory_.contains(node))
      return tensor(node);
    const sym::TensorMeta& meta = node->tensor();
    TensorBox box = std::get<TensorBox>(ctx_.values.at(node));
    ir::StorageBox& storage = *box.storage;
    if (!box.is_whole()) return tensor(node);
    if (!storage.realized()) storage.strides = meta.strides;
    ir::Buffer& buffer = graph_.buffer(box.realize());
    const Exprs& strides = buffer.layout.strides;
    if (buffer.kind != ir::BufferKind::Computed || buffer.is_output || buffer.layout.comm ||
        !std::all_of(strides.begin(), strides.end(), [](Expr e) { return e.constant().has_value(); }))
      return tensor(node);
    buffer.is_output = true;
    memory_[node] = buffer.id;
    return {buffer.id, meta.dtype, buffer.layout.sizes, strides, 0};
  }

  /// Whether the memory is the node's own, and not that of another output.
  bool is_own(const fx::Node* node, const BufferView& view) const {
    const TensorBox& box = std::get<TensorBox>(ctx_.values.at(node));
    return base_of(node) == node && box.storage->buffer == view.buffer && box.is_whole();
  }

  bool matches(const Exprs& strides, const sym::TensorMeta& meta) const {
    if (strides.size() != meta.rank()) return false;
    for (std::size_t d = 0; d < meta.rank(); ++d)
      if (!meta.sizes[d].is_constant(1) && !graph_.env().statically_known_equal(strides[d], meta.strides[d]))
        return false;
    return true;
  }

  /// A buffer that holds the node's value alone, laid out as recorded.
  ir::BufferId own_memory(const fx::Node* node) {
    const sym::TensorMeta& meta = node->tensor();
    if (auto found = memory_.find(node); found != memory_.end()) return found->second;
    TensorBox box = std::get<TensorBox>(ctx_.values.at(node));
    ir::StorageBox& storage = *box.storage;
    const bool is_whole = box.is_whole();
    bool fits = is_whole;
    if (is_whole && !storage.realized()) {
      storage.strides = meta.strides;
    } else if (is_whole) {
      const ir::Buffer& buffer = graph_.buffer(*storage.buffer);
      fits = buffer.kind == ir::BufferKind::Computed && !buffer.is_output && !buffer.layout.comm &&
             (matches(buffer.layout.strides, meta) || ir::relayout(graph_, buffer.id, meta.strides));
    }
    if (!fits && is_complex(meta.dtype)) {
      box = library_copy(ctx_, box, meta.strides);
    } else if (!fits) {
      box =
          ir::make_pointwise(graph_, meta.dtype, meta.device, meta.sizes, element(ctx_, box, meta.sizes), meta.strides);
      box.storage->strides = meta.strides;
    }
    ir::Buffer& buffer = graph_.buffer(box.realize());
    buffer.layout.fixed = true;
    buffer.is_output = true;
    return memory_[node] = buffer.id;
  }

  /// All values are computed before the first is stored, so that an exchange of two inputs sees both old ones.
  void write_back() {
    std::vector<std::pair<ir::BufferId, ir::Operation>> writes;
    for (auto& m : ctx_.module.mutations) {
      const ir::BufferId to = storage_.target(m);
      TensorBox box = ctx_.tensor(output_.args.at(m.output));
      const ir::Layout layout = graph_.buffer(to).layout;
      if (is_complex(layout.dtype)) {
        if (auto store = complex_store(box, to, layout)) writes.emplace_back(to, std::move(*store));
        continue;
      }
      graph_.provenance.absorbed.clear();
      Element body = element(ctx_, box, layout.sizes).cast(register_type(layout.dtype));
      // If the computation may fail half way, it writes to memory of the program, and a copy moves it to the caller's.
      if (reads_written_elsewhere(body, to) || ir::may_fail(body.scalar)) {
        box = ir::make_pointwise(graph_, layout.dtype, layout.device, layout.sizes, body, layout.strides);
        box.realize();
        graph_.provenance.absorbed.clear();
        body = element(ctx_, box, layout.sizes);
      }
      const bool unchanged = body.scalar->op == ScalarOp::Load && body.scalar->buffer == to &&
                             body.scalar->index == graph_.ivars(layout.sizes.size());
      if (unchanged) continue;
      ir::Operation store{.node = ir::Pointwise{layout.sizes, body},
                          .outs = {to},
                          .origins = graph_.provenance.of(body),
                          .where = box.storage->where};
      writes.emplace_back(to, std::move(store));
    }
    for (auto& [to, store] : writes) graph_.add_operation(std::move(store));
  }

  /// The library call that moves complex numbers, which kernels do not have; nothing if they are in that memory
  /// already.
  std::optional<ir::Operation> complex_store(const TensorBox& box, ir::BufferId to, const ir::Layout& layout) {
    BufferView from = library_operand(box);
    const BufferView into{to, layout.dtype, layout.sizes, layout.strides, 0};
    if (from == into) return {};
    if (targets_.contains(from.buffer)) from = library_operand(library_copy(ctx_, box, layout.strides));
    return ir::Operation{.node = library_move(from, into),
                         .outs = {to},
                         .origins = graph_.provenance.origins,
                         .where = box.storage->where};
  }

  bool reads_written_elsewhere(Scalar body, ir::BufferId to) {
    for (Scalar load : ir::loads(body))
      if (targets_.contains(load->buffer) &&
          (load->buffer != to || load->op != ScalarOp::Load || load->index != graph_.ivars(load->index.size())))
        return true;
    return false;
  }

  Context& ctx_;
  ir::Graph& graph_;
  const fx::Node& output_;
  ProgramStorage& storage_;
  std::map<const fx::Node*, ir::BufferId>
      written_;  ///< values that inputs and attributes receive: what returns them returns those
  std::map<const fx::Node*, ir::BufferId> memory_;
  std::map<const fx::Node*, int> outputs_on_;
  std::set<ir::BufferId> targets_, kept_;
};

}  // namespace

void lower_outputs(Context& ctx, const fx::Node& output, ProgramStorage& storage) {
  Outputs(ctx, output, storage).run();
}

}  // namespace coil::lowering
