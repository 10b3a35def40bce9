#include <algorithm>
#include <set>

#include "fx/infer.h"
#include "fx/scalar_functions.h"
#include "passes/graph/inline_subgraph.h"
#include "passes/graph/metadata.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using ops::Value;
using ops::Values;

/// Metadata with the layout of another: strides and offset count for nothing against it.
Value in_layout_of(Value value, const Value& other) {
  auto* list = value.get_if<Values>();
  auto* others = other.get_if<Values>();
  if (list && others)
    for (std::size_t i = 0; i < std::min(list->size(), others->size()); ++i)
      (*list)[i] = in_layout_of(std::move((*list)[i]), (*others)[i]);
  auto* t = value.get_if<sym::TensorMeta>();
  auto* like = other.get_if<sym::TensorMeta>();
  if (t && like) t->strides = like->strides, t->offset = like->offset;
  return value;
}

/// Results that nobody takes, as `other` has them: what torch.export records for those (statistics of a normalization)
/// is no matter.
Value with_unused_of(const fx::Node& node, Value value, const Value& other) {
  auto* list = value.get_if<Values>();
  auto* others = other.get_if<Values>();
  if (!list || !others || list->size() != others->size()) return value;
  std::vector<bool> used(list->size());
  for (const fx::Node* user : node.users()) {
    if (!user->is_call("_operator.getitem")) return value;
    auto index = user->args.at(1).as_int().constant();
    if (!index || *index < 0 || *index >= static_cast<std::int64_t>(used.size())) return value;
    used[static_cast<std::size_t>(*index)] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) (*list)[i] = (*others)[i];
  return value;
}

/// Whether a call asks for the stride of a dimension that has one element, which may be recorded as any number.
bool is_stride_of_one(const fx::Node& node) {
  if (!node.is_call("aten.sym_stride.int")) return false;
  const auto* t = node.args.at(0).as_node()->meta.value.get_if<sym::TensorMeta>();
  const auto dim = node.args.at(1).as_int().constant();
  if (!t || !dim || *dim < -static_cast<std::int64_t>(t->rank())) return false;
  const auto d = static_cast<std::size_t>(*dim < 0 ? *dim + static_cast<std::int64_t>(t->rank()) : *dim);
  return d < t->rank() && t->sizes[d].is_constant(1);
}

/// Views must agree exactly. A new value may have been recorded in another layout than eager's on this device
/// (torch.export computes some by Python references); the recorded one is kept, for what follows was recorded with it.
bool acceptable(const fx::Node& node, const sym::ShapeEnv& env, const Value& computed) {
  const Value& recorded = node.meta.value;
  if (agree(env, computed, recorded) || is_stride_of_one(node)) return true;
  bool view = !node.op || node.op->schema.is_view();
  return !view && agree(env, in_layout_of(computed, recorded), recorded);
}

/// An operator of which nothing but the schema is known, or not even that: what is recorded is all there is.
bool is_opaque(const fx::Node& node) {
  const bool known = node.op ? static_cast<bool>(node.op->shape)
                             : node.is_call("_operator.getitem") || fx::find_scalar_function(node.target);
  const bool gives_nothing = node.op ? node.op->schema.returns.empty() : node.target == "torch._assert";
  return !known && (!node.meta.value.is_none() || gives_nothing);
}

/// What is recorded, with what it leaves out filled in.
Value merge(Value recorded, const Value& inferred) {
  if (recorded.is_none()) return inferred;
  if (auto* list = recorded.get_if<Values>())
    for (std::size_t i = 0; i < list->size(); ++i) (*list)[i] = merge(std::move((*list)[i]), inferred.as_list()[i]);
  return recorded;
}

std::vector<Value> results_of(const fx::GraphModule& graph) {
  std::vector<Value> metas;
  for (const Value& v : graph.graph.output()->args) metas.push_back(v.is<fx::Node*>() ? v.as_node()->meta.value : v);
  return metas;
}

/// Sizes of a branch's results that both branches say in the same words, over sizes from outside: what the archive
/// calls them is one more name.
void unify_branches(const fx::GraphModule& module, const fx::Node& node, Renaming& renaming) {
  std::vector<std::vector<Value>> branches;
  for (const Value& v : node.args)
    if (const fx::GraphModule* branch = subgraph_of(module, v)) branches.push_back(results_of(*branch));
  const auto* recorded = node.meta.value.get_if<Values>();
  if (branches.size() != 2 || !recorded || branches[0].size() != recorded->size() ||
      branches[1].size() != recorded->size())
    return;
  std::set<std::string> outside;
  for (fx::Node* n = module.graph.first(); n != &node; n = n->next()) {
    auto note = [&](sym::Expr e) {
      for (sym::Expr s : sym::free_symbols(e)) outside.emplace(s.name());
    };
    if (auto* t = n->meta.value.get_if<sym::TensorMeta>())
      for (sym::Expr e : t->sizes) note(e);
    if (auto* e = n->meta.value.get_if<sym::Expr>()) note(*e);
  }
  auto known = [&](sym::Expr e) {
    auto symbols = sym::free_symbols(e);
    return std::all_of(symbols.begin(), symbols.end(),
                       [&](sym::Expr s) { return outside.contains(std::string(s.name())); });
  };
  for (std::size_t k = 0; k < recorded->size(); ++k) {
    const sym::TensorMeta *want = (*recorded)[k].get_if<sym::TensorMeta>(),
                          *a = branches[0][k].get_if<sym::TensorMeta>(), *b = branches[1][k].get_if<sym::TensorMeta>();
    if (!want || !a || !b || want->rank() != a->rank() || want->rank() != b->rank()) continue;
    sym::TensorMeta found = *want;
    for (std::size_t d = 0; d < found.rank(); ++d)
      if (a->sizes[d] == b->sizes[d] && known(a->sizes[d])) found.sizes[d] = a->sizes[d];
    renaming.unify(*module.env, *want, found);
  }
}

}  // namespace

void propagate(fx::GraphModule& module) {
  Renaming renaming;
  for (fx::Node* node = module.graph.first(); node; node = node->next()) {
    if (node->is_call("higher_order.cond")) unify_branches(module, *node, renaming);
    if (node->opcode != fx::Opcode::CallFunction || is_opaque(*node) || node->target.starts_with("higher_order."))
      continue;
    const std::size_t known = module.env->symbols().size();
    Value inferred = fx::infer(*node, *module.env);
    // New symbols stand for what only the run tells, and the archive's name for that is kept. What the arguments alone
    // say of a size that is recorded as a symbol is said instead.
    if (module.env->symbols().size() == known) {
      node->meta.value = with_unused_of(*node, std::move(node->meta.value), inferred);
      renaming.unify(*module.env, node->meta.value, inferred);
    }
    if (!acceptable(*node, *module.env, inferred))
      throw Error(fmt::format("{}: %{} is recorded as {}, but its arguments give {}", node->target, node->name,
                              ops::to_string(node->meta.value), ops::to_string(inferred)),
                  node->target, node->where());
    node->meta.value = merge(std::move(node->meta.value), inferred);
  }
  renaming.apply(module);
  for (auto& [name, subgraph] : module.subgraphs) propagate(*subgraph);
}

}  // namespace coil::passes
