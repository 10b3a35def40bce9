#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/graph/passes.h"

namespace coil::passes {

namespace {

using fx::Node;
using fx::Opcode;

/// Whether two calls with equal arguments give equal results, whenever they run.
bool is_pure(const Node& n) {
  if (n.opcode == Opcode::GetAttr) return true;
  if (n.opcode != Opcode::CallFunction) return false;
  if (n.op) return !n.op->random && !n.op->side_effect && !n.op->schema.is_mutating();
  return n.target.starts_with("_operator.") || n.target.starts_with("torch.sym_") || n.target.starts_with("math.");
}

bool is_alias(const Node& n) {
  return n.opcode == Opcode::GetAttr || n.target == "_operator.getitem" || (n.op && n.op->schema.is_view());
}

/// Whether the first two arguments may change places. What else depends on their order (the strides of the result) is
/// compared apart.
bool commutes(const Node& n) {
  constexpr std::string_view kCommutative[] = {
      "aten.mul.Tensor",          "aten.maximum.default",    "aten.minimum.default",
      "aten.bitwise_and.Tensor",  "aten.bitwise_or.Tensor",  "aten.bitwise_xor.Tensor",
      "aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default",
      "aten.eq.Tensor",           "aten.ne.Tensor"};
  if (n.target == "aten.add.Tensor") return n.arg("alpha") == ops::Value(1);
  return std::ranges::find(kCommutative, n.target) != std::end(kCommutative);
}

std::string key_of(const Node& n) {
  std::string key = n.target;
  std::vector<std::string> args;
  for (const ops::Value& v : n.args) args.push_back(ops::to_string(v));
  if (args.size() >= 2 && commutes(n) && args[1] < args[0]) std::swap(args[0], args[1]);
  for (const std::string& arg : args) key.append(1, '\x1f').append(arg);
  for (const auto& [name, v] : n.kwargs) key.append(1, '\x1f').append(name).append(1, '=').append(ops::to_string(v));
  return key;
}

/// Nodes whose memory a caller gets to see, directly or through views.
std::unordered_set<const Node*> escaping(const fx::Graph& g) {
  std::unordered_set<const Node*> found;
  for (Node* n = g.last(); n; n = n->prev())
    for (Node* user : n->users())
      if (user->opcode == Opcode::Output || (is_alias(*user) && found.contains(user))) {
        found.insert(n);
        break;
      }
  return found;
}

}  // namespace

void eliminate_common_subexpressions(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) eliminate_common_subexpressions(*sub);
  for (Node* n = m.graph.first(); n; n = n->next())
    if (n->op && n->op->schema.is_mutating()) return;  // equal arguments may hold different values
  std::unordered_set<const Node*> escapes = escaping(m.graph);
  std::unordered_map<std::string, Node*> seen;
  for (Node* n : m.graph.nodes()) {
    if (!is_pure(*n)) continue;
    auto [it, fresh] = seen.try_emplace(key_of(*n), n);
    Node* first = it->second;
    // Two results that are separate tensors in eager stay so.
    bool both_escape = escapes.contains(n) && escapes.contains(first) && !is_alias(*n);
    if (fresh || both_escape || first->meta.value != n->meta.value) continue;
    if (escapes.contains(n)) escapes.insert(first);
    n->replace_all_uses_with(first);
    m.graph.erase(n);
  }
}

}  // namespace coil::passes
