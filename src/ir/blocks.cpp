// What the order of operations must respect: blocks, symbols that the program defines as it runs, and what is needed at
// all.
#include <algorithm>
#include <iterator>

#include "ir/ir.h"
#include "library_ops/check.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil::ir {

namespace {

const Control* control_of(const Operation& op) { return std::get_if<Control>(&op.node); }

/// Other processes wait for it, used here or not; or it waits for one, whose memory is in use until then.
bool is_collective(const Operation& op) {
  using enum library_ops::Trait;
  const auto* call = std::get_if<Extern>(&op.node);
  return call && (library_ops::has(call->op, Collective) || library_ops::has(call->op, Exchange) ||
                  library_ops::has(call->op, Wait));
}

}  // namespace

std::vector<Expr> runtime_symbols(const Graph& graph, const Operation& op) {
  std::vector<Expr> found;
  if (graph.defined_symbols.empty()) return found;
  for (const std::string& name : free_symbols(graph, op))
    if (graph.defined_symbols.contains(name)) found.push_back(*graph.env_ptr()->context().find(name));
  return found;
}

std::vector<bool> live_operations(const Graph& graph) {
  auto& operations = graph.operations();
  std::vector<bool> live(operations.size(), false);
  std::set<BufferId> buffers;
  std::set<std::string> symbols;
  auto want = [&](Expr e) {
    for (Expr s : sym::free_symbols(e)) symbols.emplace(s.name());
  };
  for (const GraphOutput& o : graph.outputs) {
    if (auto* e = std::get_if<Expr>(&o.value)) want(*e);
    auto* view = std::get_if<BufferView>(&o.value);
    if (!view) continue;
    buffers.insert(view->buffer);
    for (auto* list : {&view->sizes, &view->strides, &graph.buffer(view->buffer).layout.sizes,
                       &graph.buffer(view->buffer).layout.strides})
      for (Expr e : *list) want(e);
    want(view->offset);
  }
  // A turn of a loop reads what the turn before wrote, later in the list: so again, until nothing new is wanted.
  const bool loops = std::any_of(operations.begin(), operations.end(), [](const Operation& op) {
    return control_of(op) && control_of(op)->kind == Control::Kind::Loop;
  });
  for (bool more = true; more;) {
    more = false;
    for (std::size_t k = operations.size(); k-- > 0;) {
      const Operation& op = operations[k];
      if (live[k]) continue;
      auto symbol = op.defined_symbol();
      bool needed = op.has_effect() || is_collective(op) || (symbol && symbols.contains(std::string(symbol->name())));
      for (BufferId out : op.outs)
        needed = needed || buffers.contains(out) || graph.buffer(out).kind != BufferKind::Computed;
      if (!needed) continue;
      live[k] = true;
      more = loops;
      for (BufferId b : reads(op)) buffers.insert(b);
      // What others wrote there before it: a user's kernel works in place, and so does a scan on its second buffer.
      buffers.insert(op.outs.begin(), op.outs.end());
      for (Expr s : runtime_symbols(graph, op)) symbols.emplace(s.name());
    }
  }
  return live;
}

std::vector<std::size_t> blocks(const Graph& graph) {
  std::vector<std::size_t> result, open{0};
  std::size_t next = 1;
  for (const Operation& op : graph.operations()) {
    const Control* c = control_of(op);
    if (c && c->closes()) open.pop_back();
    COIL_CHECK(!open.empty(), "op{} closes a block that is not open", op.id);
    result.push_back(open.back());
    if (c && c->opens()) open.push_back(next++);
    // The last turn of a loop ends there: what follows must not join what came before.
    if (c && c->kind == Control::Kind::BreakUnless) open.back() = next++;
  }
  COIL_CHECK(open.size() == 1, "a block is not closed");
  return result;
}

void KnownSymbols::border(const Control& c) {
  Names first_side;
  if (c.closes()) {
    COIL_CHECK(!open_.empty(), "a block is closed that is not open");
    Names inside = std::exchange(known_, open_.back().before);
    if (c.kind == Control::Kind::EndIf)
      std::set_intersection(inside.begin(), inside.end(), open_.back().first_side.begin(),
                            open_.back().first_side.end(), std::inserter(known_, known_.end()));
    else
      first_side = std::move(inside);
    open_.pop_back();
  }
  if (c.opens()) open_.push_back({known_, std::move(first_side)});
  if (c.kind == Control::Kind::Loop) define(c.counter);
}

void verify(const Graph& graph) {
  KnownSymbols known;
  for (const Operation& op : graph.operations()) {
    if (const Control* c = control_of(op)) known.border(*c);
    if (const auto* call = std::get_if<Extern>(&op.node)) library_ops::check_call(*call);
    for (Expr s : runtime_symbols(graph, op))
      COIL_CHECK(known.contains(s), "op{} needs the symbol {}, which is not defined there", op.id, s.name());
    if (auto symbol = op.defined_symbol()) known.define(*symbol);
  }
  COIL_CHECK(known.all_closed(), "a block is not closed");
}

}  // namespace coil::ir
