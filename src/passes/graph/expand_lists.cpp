#include "fx/infer.h"
#include "ops/foreach.h"
#include "passes/graph/make.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;

/// Lists of tensors are themselves results of calls now and then: of their items.
Value item_of(fx::GraphModule& m, Node* from, const Value& list, std::size_t i) {
  if (auto* items = list.get_if<Values>()) return items->at(i);
  return make_call(m, from, "_operator.getitem", {list, static_cast<std::int64_t>(i)});
}

void expand(fx::GraphModule& m, Node* node) {
  Values args = node->args;
  const auto& parameters = node->op->schema.parameters;
  for (std::size_t k = 0; k < args.size(); ++k) {
    auto* made = args[k].get_if<Node*>();
    if (!made || !parameters[k].type.list) continue;
    Values items;
    for (std::size_t i = 0; i < (*made)->meta.value.as_list().size(); ++i)
      items.push_back(item_of(m, node, args[k], i));
    args[k] = std::move(items);
  }
  const ops::ForeachItems items = ops::foreach_items(*node->op, args);
  std::vector<Node*> results;
  for (const Values& each : items.args) results.push_back(make_call(m, node, items.target, each));
  for (Node* user : std::vector<Node*>(node->users())) {
    if (user->is_call("_operator.getitem")) {
      user->replace_all_uses_with(results.at(static_cast<std::size_t>(*user->args[1].as_int().constant())));
      m.graph.erase(user);
      continue;
    }
    // Another call on lists, or the output, takes the whole list.
    Values wider = user->args;
    for (Value& v : wider)
      if (auto* n = v.get_if<Node*>(); n && *n == node) v = Values(results.begin(), results.end());
    user->set_args(std::move(wider));
  }
  m.graph.erase(node);
}

}  // namespace

void expand_lists(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) expand_lists(*sub);
  for (Node* n : m.graph.nodes()) {
    if (!n->op || !ops::is_foreach(n->target)) continue;
    fx::InsertBefore here(n);
    expand(m, n);
  }
}

}  // namespace coil::passes
