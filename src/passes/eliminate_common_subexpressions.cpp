#include <string>
#include <unordered_map>

#include "passes/passes.h"

namespace coil::passes {

namespace {

using fx::Node;

/// Whether two calls with equal arguments give equal results, whenever they run.
bool is_pure(const Node& n) {
  if (n.opcode == fx::Opcode::GetAttr) return true;
  if (n.opcode != fx::Opcode::CallFunction) return false;
  if (n.op) return !n.op->random && !n.op->side_effect && !n.op->schema.is_mutating();
  return n.target.starts_with("_operator.") || n.target.starts_with("torch.sym_") || n.target.starts_with("math.");
}

/// A fresh value must stay apart from its equal: whoever asks for uninitialised memory may be about to get it as an output.
std::string key_of(const Node& n) {
  std::string key = n.target;
  for (const ops::Value& v : n.args) {
    key += '\x1f';
    key += ops::to_string(v);
    if (v.is<std::string>()) key += '\x1e';  // a string is not the word that prints alike
  }
  for (const auto& [name, v] : n.kwargs) key += '\x1f' + name + '=' + ops::to_string(v);
  return key;
}

}  // namespace

void eliminate_common_subexpressions(fx::GraphModule& m) {
  std::unordered_map<std::string, Node*> seen;
  for (Node* n = m.graph.first(); n;) {
    Node* next = n->next();
    if (is_pure(*n)) {
      auto [it, fresh] = seen.try_emplace(key_of(*n), n);
      if (!fresh && it->second->meta.value == n->meta.value) {
        n->replace_all_uses_with(it->second);
        m.graph.erase(n);
      }
    }
    n = next;
  }
  for (auto& [name, sub] : m.subgraphs) eliminate_common_subexpressions(*sub);
}

}  // namespace coil::passes
