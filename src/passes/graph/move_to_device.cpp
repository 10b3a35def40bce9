#include "passes/graph/passes.h"

namespace coil::passes {
namespace {

using sym::TensorMeta;

void move(ops::Value& v, Device to) {
  if (auto* device = v.get_if<Device>(); device && !device->is_meta())
    *device = to;
  else if (auto* tensor = v.get_if<TensorMeta>())
    tensor->device = to;
  else if (auto* list = v.get_if<ops::Values>())
    for (ops::Value& x : *list) move(x, to);
}

}  // namespace

void move_to_device(fx::GraphModule& module, Device to) {
  for (auto& [name, sub] : module.subgraphs) move_to_device(*sub, to);
  for (fx::Node* n : module.graph.nodes()) {
    move(n->meta.value, to);
    for (std::size_t k = 0; k < n->args.size(); ++k) {
      ops::Value arg = n->args[k];
      move(arg, to);
      if (!(arg == n->args[k])) n->set_arg(k, std::move(arg));
    }
    for (auto& [name, v] : n->kwargs) move(v, to);
  }
}

}  // namespace coil::passes
