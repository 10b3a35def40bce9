#include "frontend/view_offsets.h"

#include <algorithm>

#include "fx/infer.h"
#include "support/error.h"

namespace coil::frontend {
namespace {

using ops::Value;
using ops::Values;
using sym::TensorMeta;

bool has_offset(const Value& v) {
  if (auto* t = v.get_if<TensorMeta>()) return !t->offset.is_constant(0);
  auto* list = v.get_if<Values>();
  return list && std::any_of(list->begin(), list->end(), has_offset);
}

bool has_offset(const fx::GraphModule& m) {
  for (const fx::Node* n = m.graph.first(); n; n = n->next())
    if (has_offset(n->meta.value)) return true;
  return std::any_of(m.subgraphs.begin(), m.subgraphs.end(), [](const auto& s) { return has_offset(*s.second); });
}

void take_offsets(Value& recorded, const Value& inferred) {
  auto* to = recorded.get_if<TensorMeta>();
  auto* from = inferred.get_if<TensorMeta>();
  if (to && from) to->offset = from->offset;
  auto* list = recorded.get_if<Values>();
  const auto* others = inferred.get_if<Values>();
  if (list && others && list->size() == others->size())
    for (std::size_t i = 0; i < list->size(); ++i) take_offsets((*list)[i], (*others)[i]);
}

void fill_in(fx::GraphModule& m) {
  for (fx::Node* n = m.graph.first(); n; n = n->next()) {
    const bool view = n->is_call("_operator.getitem") || (n->op && n->op->shape && n->op->schema.is_view());
    if (n->opcode != fx::Opcode::CallFunction || !view) continue;
    try {
      take_offsets(n->meta.value, fx::infer(*n, *m.env));
    } catch (const Error&) {
      // What is wrong with the call is said where it is looked at in earnest.
    }
  }
  for (auto& [name, sub] : m.subgraphs) fill_in(*sub);
}

}  // namespace

void fill_in_view_offsets(fx::GraphModule& m) {
  if (!has_offset(m)) fill_in(m);
}

}  // namespace coil::frontend
