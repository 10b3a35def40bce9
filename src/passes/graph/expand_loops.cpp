#include <algorithm>
#include <unordered_set>

#include "passes/graph/inline_subgraph.h"
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using fx::Opcode;
using ops::Value;
using ops::Values;
using sym::Expr;

constexpr std::string_view kStackingLoop = "higher_order.while_loop_stack_output",
                           kAssociativeScan = "higher_order.associative_scan";

fx::GraphModule& graph_of(fx::GraphModule& m, const Node& call, std::size_t argument) {
  fx::GraphModule* graph = subgraph_of(m, call.args.at(argument));
  if (!graph)
    throw Error(fmt::format("{} has no graph as argument {}", call.target, argument), call.target, call.where());
  return *graph;
}

std::string add_graph(fx::GraphModule& m, const std::string& wanted, std::unique_ptr<fx::GraphModule> graph) {
  std::string name = wanted;
  for (int k = 1; m.subgraphs.contains(name); ++k) name = fmt::format("{}_{}", wanted, k);
  m.subgraphs[name] = std::move(graph);
  return name;
}

/// Takes `call`'s place: results[k] for each of its items.
void replace_items(fx::GraphModule& m, Node* call, const std::function<Node*(std::size_t)>& result) {
  for (Node* user : std::vector<Node*>(call->users())) {
    COIL_CHECK(user->is_call("_operator.getitem"));
    Node* made = result(static_cast<std::size_t>(user->args.at(1).as_int().constant().value()));
    fx::Graph::inherit(made, user);
    made->meta.value = user->meta.value;
    user->replace_all_uses_with(made);
    m.graph.erase(user);
  }
  m.graph.erase(call);
}

Node* described(Node* made, const Node* from, Value meta) {
  fx::Graph::inherit(made, from);
  made->meta.value = std::move(meta);
  return made;
}

/// What some results of a graph are computed from.
std::unordered_set<const Node*> ancestors_of(const Values& results) {
  std::unordered_set<const Node*> needed;
  std::vector<const Node*> open;
  auto need = [&](const Node* n) {
    if (needed.insert(n).second) open.push_back(n);
  };
  for (const Value& v : results) ops::for_each_node(v, need);
  while (!open.empty()) {
    const Node* n = open.back();
    open.pop_back();
    for (const Value& v : n->args) ops::for_each_node(v, need);
    for (const auto& [key, v] : n->kwargs) ops::for_each_node(v, need);
  }
  return needed;
}

bool draws(const fx::GraphModule& m, const std::unordered_set<const Node*>& among) {
  for (const Node* n = m.graph.first(); n; n = n->next()) {
    if (!among.contains(n)) continue;
    if (n->op && n->op->random) return true;
    for (const Value& v : n->args)
      if (const fx::GraphModule* sub = subgraph_of(m, v)) {
        std::unordered_set<const Node*> all;
        for (const Node* inner = sub->graph.first(); inner; inner = inner->next()) all.insert(inner);
        if (draws(*sub, all)) return true;
      }
  }
  return false;
}

/// A training loop keeps every turn's values, so that its turns are counted first: by a loop over what its condition
/// depends on, which for most is a counter of its own. The values then come from a scan.
class StackingLoop {
 public:
  StackingLoop(fx::GraphModule& m, Node* call)
      : m_(m),
        call_(call),
        condition_(graph_of(m, *call, 0)),
        body_(graph_of(m, *call, 1)),
        carried_(call->args.at(2).as_list()),
        additional_(call->args.at(3).as_list()) {}

  void expand() {
    fx::InsertBefore here(call_);
    const Values metas = call_->meta.value.as_list();
    Node* count = counted();
    Node* turns = number(count, {0, sym::Range::kMax});
    const Expr n = turns->meta.value.as_int();
    Node* places = make_call(m_, call_, "aten.arange.default", {turns});
    Values scanned;
    for (const Value& v : carried_) scanned.push_back(meta_of(v));
    for (const Value& v : metas) {
      sym::TensorMeta t = v.as_tensor();
      t.sizes.at(0) = n;
      scanned.push_back(t);
    }
    Node* scan = described(
        m_.graph.call("higher_order.scan", {ops::GraphRef{stepping()}, carried_, Values{places}, additional_}), call_,
        scanned);
    // Of a loop of no turns torch stacks the first values.
    Node* none = number(make_call(m_, call_, "aten.sub.Tensor",
                                  {make_call(m_, call_, "aten.clamp.default", {count, Value(1), ops::None{}}), count}),
                        {0, 1});
    replace_items(m_, call_, [&](std::size_t k) {
      Node* rows =
          described(m_.graph.call("_operator.getitem", {scan, Value(static_cast<std::int64_t>(carried_.size() + k))}),
                    call_, scanned[carried_.size() + k]);
      Values sizes{none};
      const sym::TensorMeta meta = meta_of(carried_[k]).as_tensor();
      sizes.insert(sizes.end(), meta.sizes.begin(), meta.sizes.end());
      Node* first =
          make_call(m_, call_, "aten.expand.default",
                    {make_call(m_, call_, "aten.unsqueeze.default", {carried_[k], Value(0)}), sizes, Value(false)});
      return m_.graph.call("aten.cat.default", {Values{first, rows}, Value(0)});
    });
  }

 private:
  static Value meta_of(const Value& v) { return v.is<Node*>() ? v.as_node()->meta.value : v; }

  Node* number(Node* tensor, sym::Range range) {
    return described(m_.graph.call("aten._local_scalar_dense.default", {tensor}), call_, m_.env->fresh_unbacked(range));
  }

  /// Positions of carried values that the condition depends on, in this turn or a later one.
  std::vector<bool> deciding() const {
    const std::vector<Node*> tested = condition_.graph.placeholders(), carried = body_.graph.placeholders();
    std::vector<bool> decides(carried_.size());
    const auto asked = ancestors_of(condition_.graph.output()->args);
    for (std::size_t k = 0; k < decides.size(); ++k) decides[k] = asked.contains(tested[k]);
    for (bool more = true; more;) {
      more = false;
      Values results;
      for (std::size_t k = 0; k < decides.size(); ++k)
        if (decides[k]) results.push_back(body_.graph.output()->args.at(k));
      const auto needed = ancestors_of(results);
      if (draws(body_, needed))
        throw Error(fmt::format("{} ({}) has a condition that random numbers decide, in a program that is "
                                "differentiated; decide it by other values",
                                call_->target, call_->name),
                    call_->target, call_->where());
      for (std::size_t k = 0; k < decides.size(); ++k)
        if (!decides[k] && needed.contains(carried[k])) decides[k] = more = true;
    }
    return decides;
  }

  /// The graph without the placeholders at some positions and all that needs them, with a count before the first.
  static std::unique_ptr<fx::GraphModule> slimmed(const fx::GraphModule& from, const std::vector<bool>& keep,
                                                  bool counts) {
    auto to = copied(from, {});
    const std::vector<Node*> placeholders = to->graph.placeholders();
    Node* output = to->graph.output();
    Values results;
    for (std::size_t k = 0; k < output->args.size(); ++k)
      if (!counts || keep[k]) results.push_back(output->args[k]);
    std::unordered_set<const Node*> gone;
    for (std::size_t k = 0; k < keep.size(); ++k)
      if (!keep[k]) gone.insert(placeholders[k]);
    std::vector<Node*> unneeded;
    const auto needed = ancestors_of(results);
    for (Node* n = to->graph.first(); n; n = n->next()) {
      if (n == output || n->opcode == Opcode::Placeholder || needed.contains(n)) continue;
      bool lost = !n->users().empty();  // a check is kept where it can be
      for (const Value& v : n->args)
        ops::for_each_node(v, [&](const Node* in) { lost = lost || !needed.contains(in) || gone.contains(in); });
      if (lost) unneeded.push_back(n);
    }
    output->set_args({});
    std::for_each(unneeded.rbegin(), unneeded.rend(), [&](Node* n) { to->graph.erase(n); });
    for (std::size_t k = 0; k < keep.size(); ++k)
      if (!keep[k]) {
        std::erase_if(to->inputs, [&](const fx::Input& in) { return in.placeholder == placeholders[k]->name; });
        to->graph.erase(placeholders[k]);
      }
    fx::InsertBefore first(to->graph.first());
    Node* count = to->graph.placeholder("turns", counter());
    if (counts) {
      fx::InsertBefore last(output);
      results.insert(results.begin(), make_call(*to, count, "aten.add.Tensor", {count, Value(1)}));
    }
    output->set_args(std::move(results));
    to->outputs.resize(output->args.size());
    return to;
  }

  static sym::TensorMeta counter() { return sym::contiguous(DType::I64, {}, {}); }

  /// The number of turns, as a tensor.
  Node* counted() {
    const std::vector<bool> keep = deciding();
    Values first{make_call(m_, call_, "aten.full.default", {Values{}, Value(0)}, {{"dtype", DType::I64}})},
        metas{counter()};
    for (std::size_t k = 0; k < keep.size(); ++k)
      if (keep[k]) first.push_back(carried_[k]), metas.push_back(meta_of(carried_[k]));
    const std::string test =
        add_graph(m_, call_->args[0].get_if<ops::GraphRef>()->name + "_counting", slimmed(condition_, keep, false));
    const std::string turn =
        add_graph(m_, call_->args[1].get_if<ops::GraphRef>()->name + "_counting", slimmed(body_, keep, true));
    Node* loop = described(m_.graph.call("higher_order.while_loop",
                                         {ops::GraphRef{test}, ops::GraphRef{turn}, std::move(first), additional_}),
                           call_, metas);
    return described(m_.graph.call("_operator.getitem", {loop, Value(0)}), call_, metas[0]);
  }

  /// The body as a step of a scan over the turns' numbers, which gives each result twice.
  std::string stepping() {
    auto step = copied(body_, fresh_sizes(m_, call_, body_));
    const std::vector<Node*> placeholders = step->graph.placeholders();
    Node* after = placeholders.at(carried_.size() - 1)->next();
    {
      fx::InsertBefore here(after);
      step->graph.placeholder("turn", counter());
    }
    Node* output = step->graph.output();
    Values results = output->args;
    results.insert(results.end(), output->args.begin(), output->args.end());
    output->set_args(std::move(results));
    step->outputs.resize(output->args.size());
    return add_graph(m_, call_->args[1].get_if<ops::GraphRef>()->name + "_step", std::move(step));
  }

  fx::GraphModule& m_;
  Node* call_;
  fx::GraphModule &condition_, &body_;
  const Values carried_, additional_;
};

/// associative_scan(combine, xs, additional) over the first dimension, which GPUs are asked for: a scan of all but the
/// first place.
void expand_associative_scan(fx::GraphModule& m, Node* call) {
  fx::InsertBefore here(call);
  const Values xs = call->args.at(1).as_list(), additional = call->args.size() > 2 ? call->args[2].as_list() : Values{};
  auto step = copied(graph_of(m, *call, 0), {});
  Node* output = step->graph.output();
  Values results = output->args, first, rest, metas;
  results.insert(results.end(), output->args.begin(), output->args.end());
  output->set_args(std::move(results));
  step->outputs.resize(output->args.size());
  for (const Value& x : xs) {
    Node* at = make_call(m, call, "aten.select.int", {x, Value(0), Value(0)});
    first.push_back(at);
    metas.push_back(sym::contiguous(at->tensor().dtype, at->tensor().device, at->tensor().sizes));
  }
  for (const Value& x : xs) {
    rest.push_back(make_call(m, call, "aten.slice.Tensor", {x, Value(0), Value(1)}));
    const sym::TensorMeta& t = rest.back().as_node()->tensor();
    metas.push_back(sym::contiguous(t.dtype, t.device, t.sizes));
  }
  const std::string name = add_graph(m, call->args[0].get_if<ops::GraphRef>()->name + "_step", std::move(step));
  Node* scan =
      described(m.graph.call("higher_order.scan", {ops::GraphRef{name}, first, rest, additional}), call, metas);
  replace_items(m, call, [&](std::size_t k) {
    Node* rows = described(m.graph.call("_operator.getitem", {scan, Value(static_cast<std::int64_t>(xs.size() + k))}),
                           call, metas[xs.size() + k]);
    return m.graph.call("aten.cat.default",
                        {Values{make_call(m, call, "aten.unsqueeze.default", {first[k], Value(0)}), rows}, Value(0)});
  });
}

}  // namespace

void expand_loops(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) expand_loops(*sub);
  for (Node* n : m.graph.nodes()) {
    if (n->is_call(kStackingLoop))
      StackingLoop(m, n).expand();
    else if (n->is_call(kAssociativeScan))
      expand_associative_scan(m, n);
  }
}

}  // namespace coil::passes
