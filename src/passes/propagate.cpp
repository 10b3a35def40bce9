#include "fx/infer.h"
#include "passes/metadata.h"
#include "passes/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using ops::Value;
using ops::Values;

/// What is recorded, with what it leaves out filled in.
Value merge(Value recorded, const Value& inferred) {
  if (recorded.is_none()) return inferred;
  if (auto* list = recorded.get_if<Values>())
    for (std::size_t i = 0; i < list->size(); ++i) (*list)[i] = merge(std::move((*list)[i]), inferred.as_list()[i]);
  return recorded;
}

}  // namespace

void propagate(fx::GraphModule& module) {
  for (fx::Node* node = module.graph.first(); node; node = node->next()) {
    if (node->opcode != fx::Opcode::CallFunction) continue;
    Value inferred = fx::infer(*node, *module.env);
    if (!agree(*module.env, inferred, node->meta.value))
      throw Error(fmt::format("{}: %{} is recorded as {}, but its arguments give {}", node->target, node->name,
                              ops::to_string(node->meta.value), ops::to_string(inferred)),
                  node->target, node->where());
    node->meta.value = merge(std::move(node->meta.value), inferred);
  }
  for (auto& [name, subgraph] : module.subgraphs) propagate(*subgraph);
}

}  // namespace coil::passes
