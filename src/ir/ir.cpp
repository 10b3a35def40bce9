#include "ir/ir.h"

#include <algorithm>
#include <unordered_set>

#include "library_ops/table.h"
#include "support/error.h"
#include "support/overloaded.h"

namespace coil::ir {

namespace {

/// Calls `f` on the roots of an operation's scalar expressions.
template <class F>
void for_each_root(const Operation& op, F&& f) {
  std::visit(Overloaded{[&](const Scatter& s) {
                          f(s.body);
                          for (Scalar x : s.indirect) f(x);
                        },
                        [](const Extern&) {}, [](const Assertion&) {}, [](const ReadSymbol&) {},
                        [](const SetSymbol&) {}, [](const Control&) {}, [](const Fallback&) {}, [](const UserCall&) {},
                        [&](const auto& loop) { f(loop.body); }},
             op.node);
}

}  // namespace

Scalar Operation::body() const {
  return std::visit(
      [](const auto& n) -> Scalar {
        if constexpr (requires { n.body; })
          return n.body;
        else
          return nullptr;
      },
      node);
}

const Exprs& Operation::sizes() const {
  static const Exprs none;
  return std::visit(
      [](const auto& n) -> const Exprs& {
        if constexpr (requires { n.sizes; })
          return n.sizes;
        else
          return none;
      },
      node);
}

std::optional<Expr> Operation::defined_symbol() const {
  if (auto* read = std::get_if<ReadSymbol>(&node)) return read->symbol;
  if (auto* set = std::get_if<SetSymbol>(&node)) return set->symbol;
  if (auto* control = std::get_if<Control>(&node); control && control->kind == Control::Kind::Loop)
    return control->counter;
  return std::nullopt;
}

const Exprs& Operation::reduced() const {
  static const Exprs none;
  auto* r = std::get_if<Reduction>(&node);
  return r ? r->reduced : none;
}

std::set<std::string> Provenance::of(Scalar body) const {
  std::set<std::string> result = origins;
  if (!body || absorbed.empty()) return result;
  const auto below = topological({&body, 1});
  const std::unordered_set<Scalar> present(below.begin(), below.end());
  for (auto& [scalar, names] : absorbed)
    if (present.contains(scalar)) result.insert(names.begin(), names.end());
  return result;
}

Buffer& Graph::add_buffer(std::string name, BufferKind kind, Layout layout) {
  COIL_CHECK(layout.sizes.size() == layout.strides.size(), "layout of {}", name);
  Buffer buffer;
  buffer.id = static_cast<BufferId>(buffers_.size());
  buffer.name = name.empty() ? fmt::format("buf{}", buffer.id) : std::move(name);
  buffer.kind = kind;
  buffer.layout = std::move(layout);
  return buffers_.emplace_back(std::move(buffer));
}

namespace {

/// The loop's dimension in which the channels of an operand lie; none where no operand has any.
std::optional<std::size_t> channels_through(Graph& graph, const Operation& op) {
  for (Scalar l : loads(op.body())) {
    const auto from = l->op == ScalarOp::Load ? graph.buffer(l->buffer).channels : std::nullopt;
    if (!from || *from >= l->index.size()) continue;
    for (std::size_t d = 0; d < op.sizes().size(); ++d)
      if (sym::contains(l->index[*from], graph.ivar(d))) return d;
  }
  return std::nullopt;
}

}  // namespace

void Graph::follow_channels(const Operation& op) {
  if (const auto* call = std::get_if<Extern>(&op.node)) {
    if (!library_ops::has(call->op, library_ops::Trait::ChannelsLast)) return;
    for (BufferId out : op.outs) made_channels(out, 1);
  } else if (has_convolutions_ && op.is_loop()) {
    const auto channels = channels_through(*this, op);
    for (BufferId out : op.outs)
      if (channels && buffers_[out].layout.sizes.size() == op.sizes().size()) buffers_[out].channels = channels;
  }
}

Operation& Graph::add_operation(Operation op) {
  op.id = static_cast<OperationId>(operations_.size());
  for (BufferId out : op.outs) {
    auto& writers = buffers_[out].writers;
    if (std::find(writers.begin(), writers.end(), op.id) == writers.end()) writers.push_back(op.id);
    if (buffers_[out].kind != BufferKind::Computed) mutated.insert(out);
  }
  if (auto symbol = op.defined_symbol()) defined_symbols.emplace(symbol->name());
  follow_channels(op);
  return operations_.emplace_back(std::move(op));
}

void Graph::drop_operations(std::size_t first, const std::function<bool(const Operation&)>& unwanted) {
  const auto from = operations_.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<Operation> tail(std::make_move_iterator(from), std::make_move_iterator(operations_.end()));
  operations_.erase(from, operations_.end());
  for (const Operation& op : tail)
    for (BufferId out : op.outs) std::erase(buffers_[out].writers, op.id);
  for (Operation& op : tail)
    if (!unwanted(op)) add_operation(std::move(op));
}

void Graph::replace_operations(std::vector<Operation> list) {
  for (Buffer& b : buffers_) b.writers.clear();
  operations_.clear();
  defined_symbols.clear();
  for (Operation& op : list) add_operation(std::move(op));
}

Expr Graph::variable(Exprs& made, char letter, std::size_t d) {
  while (made.size() <= d) made.push_back(env_->loop_var(fmt::format("{}{}", letter, made.size())));
  return made[d];
}

Exprs Graph::ivars(std::size_t n) {
  Exprs vars;
  for (std::size_t d = 0; d < n; ++d) vars.push_back(ivar(d));
  return vars;
}

Exprs Graph::rvars(std::size_t n) {
  Exprs vars;
  for (std::size_t d = 0; d < n; ++d) vars.push_back(rvar(d));
  return vars;
}

Scalar Graph::seed() {
  if (!seed_buffer_) {
    std::string name = "random.seed";
    while (std::any_of(buffers_.begin(), buffers_.end(), [&](const Buffer& b) { return b.name == name; })) name += "_";
    Tensor value = Tensor::empty(DType::I64, {1});
    *value.data<std::int64_t>() = 0;
    seed_buffer_ =
        add_buffer(name, BufferKind::Constant, {.dtype = DType::I64, .sizes = {1}, .strides = {1}, .fixed = true}).id;
    constants.emplace(*seed_buffer_, std::move(value));
  }
  Scalar seed = pool_.load(*seed_buffer_, DType::I64, {0});
  for (const Turn& turn : turns_) {
    auto half = [&](std::int64_t k) { return pool_.cast(pool_.random(seed, turn.salt + k, turn.counter), DType::I64); };
    seed = pool_.op(ScalarOp::Xor, pool_.op(ScalarOp::Shl, half(0), pool_.constant_int(DType::I64, 32)), half(1));
  }
  return seed;
}

Device device_of(const Graph& graph, const Operation& op) {
  if (graph.on_several_devices) {
    if (!op.outs.empty()) return graph.buffer(op.outs.front()).layout.device;
    const std::vector<BufferId> read = reads(op);
    if (!read.empty()) return graph.buffer(read.front()).layout.device;
  }
  return graph.target().device;
}

std::vector<BufferId> reads(const Operation& op) {
  std::vector<BufferId> result;
  auto add = [&](BufferId id) {
    if (std::find(result.begin(), result.end(), id) == result.end()) result.push_back(id);
  };
  for_each_root(op, [&](Scalar root) {
    for (Scalar load : loads(root)) add(load->buffer);
  });
  if (auto* call = std::get_if<Extern>(&op.node))
    for (auto& view : call->inputs) add(view.buffer);
  if (auto* call = std::get_if<Fallback>(&op.node))
    for (auto& view : call->inputs) add(view.buffer);
  if (auto* call = std::get_if<UserCall>(&op.node))
    for (auto& view : call->tensors)
      if (std::find(op.outs.begin(), op.outs.end(), view.buffer) == op.outs.end()) add(view.buffer);
  if (auto* read = std::get_if<ReadSymbol>(&op.node)) add(read->source);
  return result;
}

void for_each_expr(const Operation& op, const std::function<void(const Expr&)>& f) {
  const auto all = [&](const Exprs& list) {
    for (const Expr& e : list) f(e);
  };
  const auto body = [&](Scalar root) {
    for (Scalar s : topological({&root, 1})) all(s->index);
  };
  const auto view = [&](const BufferView& v) {
    all(v.sizes);
    all(v.strides);
    f(v.offset);
  };
  all(op.store_index);
  std::visit(
      Overloaded{[&](const Pointwise& p) { all(p.sizes), body(p.body); },
                 [&](const Reduction& r) { all(r.sizes), all(r.reduced), body(r.body); },
                 [&](const Scan& s) { all(s.sizes), body(s.body); },
                 [&](const Scatter& s) {
                   all(s.sizes), all(s.index), body(s.body);
                   for (Scalar x : s.indirect) body(x);
                 },
                 [&](const Extern& e) {
                   for (const auto* views : {&e.inputs, &e.outputs})
                     for (const BufferView& v : *views) view(v);
                 },
                 [&](const Fallback& h) {
                   for (const BufferView& v : h.inputs) view(v);
                   for (const auto& v : h.outputs)
                     if (v) view(*v);
                   for (const auto& a : h.arguments) ops::for_each_integer(a.value, f);
                 },
                 [&](const UserCall& u) {
                   for (const BufferView& v : u.tensors) view(v);
                   all(u.numbers), all(u.grid);
                 },
                 [&](const Assertion& a) { f(a.condition); }, [](const ReadSymbol&) {},
                 [&](const SetSymbol& s) { f(s.value); }, [&](const Control& c) { f(c.condition), f(c.extent); }},
      op.node);
}

std::set<std::string> free_symbols(const Graph& graph, const Operation& op) {
  std::set<std::string> names;
  std::unordered_set<Expr> seen;
  const auto add = [&](const Expr& e) {
    if (e.is_constant() || !seen.insert(e).second) return;
    for (Expr s : sym::free_symbols(e))
      if (s.symbol_kind() != sym::SymbolKind::Loop) names.insert(std::string(s.name()));
  };
  for_each_expr(op, add);
  const auto add_layout = [&](BufferId id) {
    for (const Exprs* list : {&graph.buffer(id).layout.sizes, &graph.buffer(id).layout.strides})
      for (const Expr& e : *list) add(e);
  };
  for (BufferId id : reads(op)) add_layout(id);
  for (BufferId id : op.outs) add_layout(id);
  return names;
}

Expr linear_index(const Layout& layout, std::span<const Expr> index) {
  COIL_CHECK(index.size() == layout.strides.size(), "{} indices into {} dimensions", index.size(),
             layout.strides.size());
  Expr result = 0;
  for (std::size_t d = 0; d < index.size(); ++d) result += index[d] * layout.strides[d];
  return result;
}

}  // namespace coil::ir
