// Reading arguments of the node being lowered.
#include "lowering/lowering.h"
#include "support/error.h"

namespace coil::lowering {

std::optional<TensorBox> Context::optional_tensor(const ops::Value& arg) const {
  auto* node = arg.get_if<fx::Node*>();
  if (!node) return std::nullopt;
  auto found = values.find(*node);
  if (found == values.end()) return std::nullopt;
  if (auto* box = std::get_if<TensorBox>(&found->second)) return *box;
  return std::nullopt;
}

TensorBox Context::tensor(const ops::Value& arg) const {
  if (auto box = optional_tensor(arg)) return *box;
  throw Error(fmt::format("{} ({}): a tensor is wanted where {} is", node->target, node->name, ops::to_string(arg)), node->target, node->where());
}

std::vector<TensorBox> Context::tensors(const ops::Value& arg) const {
  std::vector<TensorBox> result;
  for (auto& item : arg.as_list()) result.push_back(tensor(item));
  return result;
}

Expr Context::integer(const ops::Value& arg) const {
  if (auto* n = arg.get_if<fx::Node*>()) return graph.env().simplify((*n)->meta.value.as_int());
  return arg.as_int();
}

Exprs Context::integers(const ops::Value& arg) const {
  Exprs result;
  if (auto* list = arg.get_if<ops::Values>()) {
    for (auto& item : *list) result.push_back(integer(item));
  } else {
    result.push_back(integer(arg));
  }
  return result;
}

Scalar Context::number(const ops::Value& arg, DType register_type) const {
  auto& pool = graph.pool();
  const ops::Value* value = &arg;
  if (auto* n = arg.get_if<fx::Node*>()) value = &(*n)->meta.value;
  if (auto* e = value->get_if<Expr>()) return pool.cast(pool.index(*e), register_type);
  if (auto* b = value->get_if<ops::Bool>()) return pool.cast(pool.condition(b->condition), register_type);
  if (auto* d = value->get_if<double>()) return pool.constant(register_type, *d);
  throw Error(fmt::format("{} ({}): a number is wanted where {} is", node->target, node->name, ops::to_string(arg)), node->target, node->where());
}

const sym::TensorMeta& Context::result(std::size_t i) const { return node->meta.value.as_list().at(i).as_tensor(); }

}  // namespace coil::lowering
