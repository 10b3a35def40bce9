#include "fx/infer.h"

#include <cmath>

#include "fx/scalar_functions.h"
#include "support/error.h"

namespace coil::fx {

Value resolve(const Value& argument) {
  if (auto* n = argument.get_if<Node*>()) return (*n)->meta.value;
  if (auto* list = argument.get_if<Values>()) {
    Values out;
    out.reserve(list->size());
    for (const Value& v : *list) out.push_back(resolve(v));
    return out;
  }
  return argument;
}

namespace {

Value item(const Values& args) {
  if (args.size() != 2) fail("takes two arguments");
  const Values& list = args[0].as_list();
  Expr index = args[1].as_int();
  if (!index.is_constant() || *index.constant() < 0 || *index.constant() >= static_cast<std::int64_t>(list.size()))
    fail("index {} is outside a list of {}", ops::to_string(args[1]), list.size());
  return list[static_cast<std::size_t>(*index.constant())];
}

Value compute(const Node& node, sym::ShapeEnv& env) {
  Values args;
  args.reserve(node.args.size());
  for (const Value& v : node.args) args.push_back(resolve(v));
  if (node.op) {
    if (!node.op->shape) fail("the operator has no shape function");
    return node.op->shape(ops::Call{*node.op, args, env});
  }
  if (node.target == "_operator.getitem") return item(args);
  if (const ScalarFunction* f = find_scalar_function(node.target)) {
    for (const auto& [name, v] : node.kwargs) args.push_back(resolve(v));
    return (*f)(ScalarCall{args, node.name});
  }
  fail("no such operator is known; register it with Library");
}

}  // namespace

Value infer(const Node& node, sym::ShapeEnv& env) {
  if (node.opcode != Opcode::CallFunction) return node.meta.value;
  try {
    return compute(node, env);
  } catch (const Error& e) {
    std::string message = e.what();
    if (!message.starts_with(node.target)) message = node.target + ": " + message;
    throw Error(fmt::format("{} (node %{})", message, node.name), node.target, node.where());
  }
}

void infer_missing(GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) infer_missing(*sub);
  for (Node* n = m.graph.first(); n; n = n->next()) {
    bool known = n->op ? static_cast<bool>(n->op->shape)
                       : n->target.starts_with("_operator.") || find_scalar_function(n->target);
    for (const Value& v : n->args)  // of a node without metadata nothing follows
      ops::for_each_node(v, [&](const Node* of) { known = known && !of->meta.value.is_none(); });
    if (n->opcode == Opcode::CallFunction && n->meta.value.is_none() && known) n->meta.value = infer(*n, *m.env);
  }
}

}  // namespace coil::fx
