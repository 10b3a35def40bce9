#include "ir/ir.h"

#include <algorithm>
#include <unordered_set>

#include "support/error.h"
#include "support/overloaded.h"
#include "sym/print.h"

namespace coil::ir {

namespace {

/// Calls `f` on the roots of an operation's scalar expressions.
template <class F>
void for_each_root(const Operation& op, F&& f) {
  std::visit(
      Overloaded{[&](const Scatter& s) {
                   f(s.body);
                   for (Scalar x : s.indirect) f(x);
                 },
                 [](const Extern&) {}, [](const Assertion&) {}, [](const ReadSymbol&) {}, [](const SetSymbol&) {},
                 [](const Control&) {}, [](const Fallback&) {}, [&](const auto& loop) { f(loop.body); }},
      op.node);
}

}  // namespace

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

std::int64_t Extern::integer(const std::string& attribute) const {
  auto found = attributes.find(attribute);
  return found == attributes.end() ? 0 : std::get<std::int64_t>(found->second);
}

bool Extern::computed_by(std::string_view algorithm) const {
  auto found = attributes.find("algorithm");
  return found != attributes.end() && std::get<std::string>(found->second) == algorithm;
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

Operation& Graph::add_operation(Operation op) {
  op.id = static_cast<OperationId>(operations_.size());
  for (BufferId out : op.outs) {
    auto& writers = buffers_[out].writers;
    if (std::find(writers.begin(), writers.end(), op.id) == writers.end()) writers.push_back(op.id);
    if (buffers_[out].kind != BufferKind::Computed) mutated.insert(out);
  }
  if (auto symbol = op.defined_symbol()) defined_symbols.emplace(symbol->name());
  if (const auto* call = std::get_if<Extern>(&op.node))
    has_convolutions_ = has_convolutions_ || call->op == "convolution" || call->op == "convolution_weights";
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
  if (auto* read = std::get_if<ReadSymbol>(&op.node)) add(read->source);
  return result;
}

std::set<std::string> free_symbols(const Graph& graph, const Operation& op) {
  std::set<std::string> names;
  std::unordered_set<Expr> seen;
  auto add = [&](const Expr& e) {
    if (e.is_constant() || !seen.insert(e).second) return;
    for (Expr s : sym::free_symbols(e))
      if (s.symbol_kind() != sym::SymbolKind::Loop) names.insert(std::string(s.name()));
  };
  auto add_all = [&](const Exprs& list) {
    for (const Expr& e : list) add(e);
  };
  auto add_layout = [&](BufferId id) {
    add_all(graph.buffer(id).layout.sizes);
    add_all(graph.buffer(id).layout.strides);
  };
  add_all(op.sizes());
  add_all(op.reduced());
  add_all(op.store_index);
  for_each_root(op, [&](Scalar root) {
    for (Scalar s : topological({&root, 1})) add_all(s->index);
  });
  for (BufferId id : reads(op)) add_layout(id);
  for (BufferId id : op.outs) add_layout(id);
  if (auto* scatter = std::get_if<Scatter>(&op.node)) add_all(scatter->index);
  if (auto* assertion = std::get_if<Assertion>(&op.node)) add(assertion->condition);
  if (auto* set = std::get_if<SetSymbol>(&op.node)) add(set->value);
  if (auto* control = std::get_if<Control>(&op.node)) add(control->condition), add(control->extent);
  if (auto* call = std::get_if<Extern>(&op.node))
    for (auto* views : {&call->inputs, &call->outputs})
      for (auto& v : *views) {
        add_all(v.sizes);
        add_all(v.strides);
        add(v.offset);
      }
  if (auto* call = std::get_if<Fallback>(&op.node)) {
    for (auto& v : call->inputs) {
      add_all(v.sizes);
      add_all(v.strides);
      add(v.offset);
    }
    for (auto& a : call->arguments) ops::for_each_integer(a.value, add);
  }
  return names;
}

Expr linear_index(const Layout& layout, std::span<const Expr> index) {
  COIL_CHECK(index.size() == layout.strides.size(), "{} indices into {} dimensions", index.size(),
             layout.strides.size());
  Expr result = 0;
  for (std::size_t d = 0; d < index.size(); ++d) result += index[d] * layout.strides[d];
  return result;
}

namespace {

std::string join(const Exprs& list) {
  std::string text;
  for (const Expr& e : list) text += (text.empty() ? "" : ", ") + sym::to_string(e);
  return text;
}

std::string loops(char letter, const Exprs& sizes) {
  std::string text;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    text += fmt::format("{}{}{} < {}", d ? ", " : "", letter, d, sym::to_string(sizes[d]));
  return text;
}

std::string print(const BufferView& v) {
  return fmt::format(
      "buf{} as {}", v.buffer,
      sym::to_string(sym::TensorMeta{.dtype = v.dtype, .sizes = v.sizes, .strides = v.strides, .offset = v.offset}));
}

std::string print(const ExternAttribute& a) {
  return std::visit(
      Overloaded{[](const std::string& s) { return fmt::format("\"{}\"", s); },
                 [](const std::vector<std::string>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const std::vector<std::int64_t>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const std::vector<double>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); },
                 [](const auto& v) { return fmt::format("{}", v); }},
      a);
}

constexpr std::string_view kReductions[] = {"sum", "prod", "max", "min", "any", "all", "xor", "argmax", "argmin"};
constexpr std::string_view kScans[] = {"sum", "prod", "max", "min", "logsumexp"};
constexpr std::string_view kStores[] = {"assign", "add", "prod", "max", "min"};

std::string print(const Control& c) {
  switch (c.kind) {
    case Control::Kind::If: return fmt::format("if {}", sym::to_string(c.condition));
    case Control::Kind::Else: return "else";
    case Control::Kind::EndIf: return "end if";
    case Control::Kind::Loop:
      return fmt::format("loop {}{}", sym::to_string(c.counter),
                         c.extent.is_constant(sym::Range::kMax) ? "" : " < " + sym::to_string(c.extent));
    case Control::Kind::BreakUnless: return fmt::format("break unless {}", sym::to_string(c.condition));
    case Control::Kind::EndLoop: return "end loop";
  }
  return {};
}

std::string print(const Operation& op) {
  return std::visit(
      Overloaded{
          [&](const Pointwise& p) { return fmt::format("pointwise[{}] {}", loops('i', p.sizes), to_string(p.body)); },
          [&](const Reduction& r) {
            return fmt::format("reduce.{}[{}; {}] {}", kReductions[static_cast<int>(r.kind)], loops('i', r.sizes),
                               loops('r', r.reduced), to_string(r.body));
          },
          [&](const Scan& s) {
            return fmt::format("scan.{}[{}; dim {}] {}", kScans[static_cast<int>(s.kind)], loops('i', s.sizes), s.dim,
                               to_string(s.body));
          },
          [&](const Scatter& s) {
            std::string where = join(s.index);
            for (std::size_t k = 0; k < s.indirect.size(); ++k)
              where += fmt::format(", x{} = {}", k, to_string(s.indirect[k]));
            return fmt::format("scatter.{}[{}{}] at [{}] {}", kStores[static_cast<int>(s.mode)], loops('i', s.sizes),
                               s.sorted ? fmt::format("; sorted along i{}", *s.sorted) : "", where, to_string(s.body));
          },
          [&](const Extern& e) {
            std::string text = "extern " + e.op + "(";
            for (std::size_t k = 0; k < e.inputs.size(); ++k) text += (k ? ", " : "") + print(e.inputs[k]);
            text += ")";
            for (auto& [name, value] : e.attributes) text += fmt::format(" {}={}", name, print(value));
            text += " ->";
            for (auto& v : e.outputs) text += fmt::format(" {}", print(v));
            return text;
          },
          [&](const Fallback& f) {
            std::string text = fmt::format("fallback {}({})", f.op, ops::to_string(f.arguments));
            for (std::size_t k = 0; k < f.writes.size(); ++k)
              text += fmt::format("{}%{}", k ? ", " : " writes ", f.writes[k]);
            for (std::size_t k = 0; k < f.inputs.size(); ++k)
              text += fmt::format("{}%{} = {}", k ? ", " : " where ", k, print(f.inputs[k]));
            text += " ->";
            for (auto& v : f.outputs) text += " " + (v ? print(*v) : "None");
            return text;
          },
          [&](const Assertion& a) { return fmt::format("assert {} \"{}\"", sym::to_string(a.condition), a.message); },
          [&](const ReadSymbol& r) {
            return fmt::format("symbol {} = read(buf{})", sym::to_string(r.symbol), r.source);
          },
          [&](const SetSymbol& s) {
            return fmt::format("symbol {} = number({})", sym::to_string(s.symbol), sym::to_string(s.value));
          },
          [&](const Control& c) { return print(c); }},
      op.node);
}

}  // namespace

std::string to_string(const Graph& graph) {
  std::string text;
  for (auto& b : graph.buffers()) {
    const auto& l = b.layout;
    text += fmt::format(
        "buf{}: {}{}", b.id,
        sym::to_string(sym::TensorMeta{.dtype = l.dtype, .device = l.device, .sizes = l.sizes, .strides = l.strides}),
        b.kind == BufferKind::Input      ? " input"
        : b.kind == BufferKind::Constant ? " constant"
        : l.fixed                        ? " fixed"
                                         : "");
    if (b.name != fmt::format("buf{}", b.id)) text += fmt::format(" {}", b.name);
    if (b.is_output) text += " output";
    text += "\n";
  }
  for (auto& op : graph.operations()) {
    text += fmt::format("op{}: ", op.id);
    for (BufferId out : op.outs) text += fmt::format("buf{} ", out);
    if (!op.store_index.empty()) text += fmt::format("at [{}] ", join(op.store_index));
    text += (op.outs.empty() ? "" : "= ") + print(op);
    if (!op.origins.empty()) text += fmt::format("  # {}", fmt::join(op.origins, ", "));
    text += "\n";
  }
  text += "return";
  for (auto& out : graph.outputs) {
    text += fmt::format(" {}=", out.name);
    text += std::visit(
        Overloaded{[](const BufferView& v) { return print(v); }, [](const Expr& e) { return sym::to_string(e); },
                   [](double v) { return fmt::format("{}", v); }},
        out.value);
  }
  return text + "\n";
}

}  // namespace coil::ir
