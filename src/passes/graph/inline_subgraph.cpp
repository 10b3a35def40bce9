#include "passes/graph/inline_subgraph.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "passes/graph/metadata.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using fx::Opcode;

/// The value with graphs called by other names.
ops::Value renamed_graphs(const ops::Value& v, const std::unordered_map<std::string, std::string>& names) {
  if (auto* g = v.get_if<ops::GraphRef>())
    if (auto found = names.find(g->name); found != names.end()) return ops::GraphRef{found->second};
  auto* list = v.get_if<ops::Values>();
  if (!list) return v;
  ops::Values out;
  for (const ops::Value& item : *list) out.push_back(renamed_graphs(item, names));
  return out;
}

/// Subgraphs and attributes of a nested module become the outer one's. Those that had to change their names are called
/// by the new ones in the nested module too, which may be put in the place of further calls.
void hoist(fx::GraphModule& outer, fx::GraphModule& inner, const std::string& name) {
  std::unordered_map<std::string, std::string> renamed;
  for (auto& [key, sub] : inner.subgraphs) {
    std::string fresh = key;
    while (outer.subgraphs.contains(fresh)) fresh = name + "_" + fresh;
    if (fresh != key) renamed[key] = fresh;
    outer.subgraphs[fresh] = std::move(sub);
  }
  inner.subgraphs.clear();
  for (auto& [key, tensor] : inner.attributes) outer.attributes.try_emplace(key, tensor);
  if (renamed.empty()) return;
  for (Node* n = inner.graph.first(); n; n = n->next()) {
    ops::Values args;
    for (const ops::Value& v : n->args) args.push_back(renamed_graphs(v, renamed));
    n->set_args(std::move(args));
  }
}

ops::Value mapped(const ops::Value& v, const std::unordered_map<const Node*, ops::Value>& values) {
  if (auto* n = v.get_if<Node*>()) return values.at(*n);
  if (auto* list = v.get_if<ops::Values>()) {
    ops::Values out;
    for (const ops::Value& item : *list) out.push_back(mapped(item, values));
    return out;
  }
  return v;
}

/// The symbols of unbacked sizes of a node and of the graphs that it calls, which `owner` has.
void for_each_unbacked(const fx::GraphModule& owner, const Node& node, const std::function<void(sym::Expr)>& f) {
  ops::for_each_unbacked(node.meta.value, f);
  for (const ops::Value& v : node.args) {
    const fx::GraphModule* sub = subgraph_of(owner, v);
    if (!sub) continue;
    for (const Node* n = sub->graph.first(); n; n = n->next()) for_each_unbacked(*sub, *n, f);
  }
}

}  // namespace

fx::GraphModule* subgraph_of(const fx::GraphModule& m, const ops::Value& argument) {
  auto* ref = argument.get_if<ops::GraphRef>();
  auto found = ref ? m.subgraphs.find(ref->name) : m.subgraphs.end();
  return found == m.subgraphs.end() ? nullptr : found->second.get();
}

/// A body that stands in several places finds sizes in its data in each of them.
Renaming fresh_sizes(fx::GraphModule& outer, const Node* call, const fx::GraphModule& body) {
  std::unordered_set<sym::Expr> given, seen;
  for (const Node* n = outer.graph.first(); n != call; n = n->next())
    for_each_unbacked(outer, *n, [&](sym::Expr s) { seen.insert(s); });
  for (const Node* n : body.graph.placeholders())
    ops::for_each_unbacked(n->meta.value, [&](sym::Expr s) { given.insert(s); });
  Renaming fresh;
  for (const Node* n = body.graph.first(); n; n = n->next())
    for_each_unbacked(outer, *n, [&](sym::Expr s) {  // (its graphs are the outer one's by now)
      if (seen.contains(s) && given.insert(s).second) fresh.add(s, outer.env->fresh_unbacked(outer.env->range(s)));
    });
  return fresh;
}

std::unique_ptr<fx::GraphModule> copied(const fx::GraphModule& from, const Renaming& fresh) {
  auto to = std::make_unique<fx::GraphModule>();
  to->env = from.env, to->name = from.name;
  to->attributes = from.attributes, to->inputs = from.inputs, to->outputs = from.outputs,
  to->mutations = from.mutations;
  for (const auto& [name, sub] : from.subgraphs) to->subgraphs[name] = copied(*sub, fresh);
  std::unordered_map<const Node*, ops::Value> values;
  auto argument = [&](const ops::Value& v) { return fresh.renamed(mapped(v, values)); };
  for (Node* n = from.graph.first(); n; n = n->next()) {
    ops::Values args;
    for (const ops::Value& v : n->args) args.push_back(argument(v));
    Node* made = nullptr;
    if (n->opcode == Opcode::Placeholder) {
      made = to->graph.placeholder(n->name, n->meta.value);
    } else if (n->opcode == Opcode::GetAttr) {
      made = to->graph.get_attr(n->name, n->target, n->meta.value);
    } else if (n->opcode == Opcode::Output) {
      made = to->graph.output(std::move(args));
    } else {
      std::vector<std::pair<std::string, ops::Value>> named;
      for (const auto& [key, v] : n->kwargs) named.emplace_back(key, argument(v));
      made = to->graph.call(n->target, std::move(args), n->name, std::move(named));
    }
    made->meta = n->meta;
    made->meta.value = fresh.renamed(n->meta.value);
    values[n] = made;
  }
  return to;
}

namespace {

/// A use of `node` becomes `value`, which may be no node at all.
void replace_uses(Node* node, const ops::Value& value) {
  if (auto* n = value.get_if<Node*>()) return node->replace_all_uses_with(*n);
  std::function<ops::Value(const ops::Value&)> swapped = [&](const ops::Value& v) -> ops::Value {
    if (auto* n = v.get_if<Node*>(); n && *n == node) return value;
    auto* list = v.get_if<ops::Values>();
    if (!list) return v;
    ops::Values out;
    for (const ops::Value& item : *list) out.push_back(swapped(item));
    return out;
  };
  for (Node* user : std::vector<Node*>(node->users())) {
    ops::Values args;
    for (const ops::Value& v : user->args) args.push_back(swapped(v));
    user->set_args(std::move(args));
  }
}

/// What the call gives the graph, an operand for each placeholder.
ops::Values operands_of(const Node* call, const fx::GraphModule& sub, const std::string& name,
                        ops::Values::const_iterator graph_argument) {
  const std::size_t wanted = sub.graph.placeholders().size();
  ops::Values operands(std::next(graph_argument), call->args.end());
  if (operands.size() == 1 && operands[0].is<ops::Values>() && wanted != 1)
    operands = ops::Values(operands[0].as_list());
  if (operands.size() != wanted)
    throw Error(fmt::format("@{} takes {} operands, found {}", name, wanted, operands.size()), call->target,
                call->where());
  return operands;
}

/// Graphs that the graph names get copies with the new symbols, by new names.
std::unordered_map<std::string, std::string> copies_of_inner_graphs(fx::GraphModule& m, const fx::GraphModule& sub,
                                                                    const Renaming& fresh) {
  std::unordered_map<std::string, std::string> renamed;
  if (fresh.empty()) return renamed;
  std::function<void(const ops::Value&)> collect = [&](const ops::Value& v) {
    if (auto* g = v.get_if<ops::GraphRef>(); g && m.subgraphs.contains(g->name)) renamed.emplace(g->name, "");
    if (auto* list = v.get_if<ops::Values>()) std::ranges::for_each(*list, collect);
  };
  for (Node* n = sub.graph.first(); n; n = n->next()) std::ranges::for_each(n->args, collect);
  for (auto& [from, to] : renamed) {
    to = from + "_again";
    while (m.subgraphs.contains(to)) to += "_again";
    m.subgraphs[to] = copied(*m.subgraphs.at(from), fresh);
  }
  return renamed;
}

/// The graph's nodes in front of the call, over `values` in place of its placeholders; what it returns.
ops::Values copy_nodes(fx::GraphModule& m, const fx::GraphModule& sub, Node* call,
                       std::unordered_map<const Node*, ops::Value> values, const Renaming& fresh,
                       const std::unordered_map<std::string, std::string>& renamed) {
  fx::InsertBefore here(call);
  ops::Values results;
  for (Node* n = sub.graph.first(); n; n = n->next()) {
    if (n->opcode == Opcode::Placeholder) continue;
    ops::Values args;
    for (const ops::Value& v : n->args) args.push_back(fresh.renamed(renamed_graphs(mapped(v, values), renamed)));
    if (n->opcode == Opcode::Output) {
      results = std::move(args);
      continue;
    }
    Node* copy = nullptr;
    if (n->opcode == Opcode::GetAttr) {
      copy = m.graph.get_attr(n->name, n->target, n->meta.value);
    } else {
      std::vector<std::pair<std::string, ops::Value>> named;
      for (const auto& [key, v] : n->kwargs) named.emplace_back(key, mapped(v, values));
      copy = m.graph.call(n->target, std::move(args), n->name, std::move(named));
    }
    copy->meta = n->meta;
    copy->meta.value = fresh.renamed(n->meta.value);
    values[n] = copy;
  }
  return results;
}

/// What reads the call's results reads these values, and the call goes.
void replace_results(fx::GraphModule& m, Node* call, const ops::Values& results, const std::string& name) {
  for (Node* user : std::vector<Node*>(call->users())) {
    if (!user->is_call("_operator.getitem")) continue;
    auto index = user->args.at(1).as_int().constant();
    if (!index || *index < 0 || *index >= static_cast<std::int64_t>(results.size()))
      throw Error(fmt::format("@{} gives {} results; %{} takes another", name, results.size(), user->name),
                  call->target, call->where());
    replace_uses(user, results[static_cast<std::size_t>(*index)]);
    m.graph.erase(user);
  }
  if (!call->users().empty()) {
    if (results.size() != 1)
      throw Error(fmt::format("%{} is used whole, but @{} gives {} results", call->name, name, results.size()),
                  call->target, call->where());
    replace_uses(call, results[0]);
  }
  m.graph.erase(call);
}

}  // namespace

void inline_subgraph(fx::GraphModule& m, Node* call) {
  const auto graph_argument =
      std::find_if(call->args.cbegin(), call->args.cend(), [](const ops::Value& v) { return v.is<ops::GraphRef>(); });
  if (graph_argument == call->args.cend())
    throw Error(call->target + " has no graph among its arguments", call->target, call->where());
  const std::string name = graph_argument->get_if<ops::GraphRef>()->name;
  fx::GraphModule* const sub = subgraph_of(m, *graph_argument);
  if (!sub)
    throw Error(fmt::format("{} runs @{}, which is not there", call->target, name), call->target, call->where());

  const std::vector<Node*> placeholders = sub->graph.placeholders();
  const ops::Values operands = operands_of(call, *sub, name, graph_argument);
  hoist(m, *sub, name);
  const Renaming fresh = fresh_sizes(m, call, *sub);
  const auto renamed = copies_of_inner_graphs(m, *sub, fresh);
  std::unordered_map<const Node*, ops::Value> values;
  for (std::size_t i = 0; i < operands.size(); ++i) values[placeholders[i]] = operands[i];
  replace_results(m, call, copy_nodes(m, *sub, call, std::move(values), fresh, renamed), name);
}

}  // namespace coil::passes
