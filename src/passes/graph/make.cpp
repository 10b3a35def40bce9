#include "passes/graph/make.h"

#include <algorithm>

#include "fx/infer.h"
#include "support/error.h"

namespace coil::passes {

Device home_of(const fx::Node& node) {
  const ops::Value* meta = &node.meta.value;
  if (const auto* list = meta->get_if<ops::Values>(); list && !list->empty()) meta = &list->front();
  const auto* tensor = meta->get_if<sym::TensorMeta>();
  return tensor ? tensor->device : Device{};
}

namespace {

/// What makes a tensor of no other makes it where the node lies that it is made for.
void make_at_home(const ops::Operator& op, const fx::Node& from, ops::Values& args) {
  for (const ops::Value& arg : args)
    if (const auto* n = arg.get_if<fx::Node*>(); n && (*n)->is_tensor()) return;
  for (std::size_t k = 0; k < std::min(args.size(), op.schema.parameters.size()); ++k)
    if (op.schema.parameters[k].name == "device" && args[k].is_none()) args[k] = home_of(from);
}

}  // namespace

fx::Node* make_call(fx::GraphModule& m, const fx::Node* from, std::string_view target, ops::Values args,
                    std::vector<std::pair<std::string, ops::Value>> named, std::string_view name) {
  const ops::Operator* op = ops::find(target);
  const bool complete = op && named.empty() && args.size() == op->schema.parameters.size();
  if (op && !complete) args = ops::normalize(*op, std::move(args), std::exchange(named, {}));
  if (op && m.makes_at_home && from) make_at_home(*op, *from, args);
  fx::Node* made = m.graph.call(target, std::move(args), name, std::move(named));
  fx::Graph::inherit(made, from);
  try {
    made->meta.value = fx::infer(*made, *m.env);
  } catch (...) {
    m.graph.erase(made);
    throw;
  }
  return made;
}

}  // namespace coil::passes
