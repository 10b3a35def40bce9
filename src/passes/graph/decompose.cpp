#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <typeinfo>

#include "fx/infer.h"
#include "ops/shapes/strides.h"
#include "passes/graph/decompositions/replace.h"
#include "passes/graph/outside.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;

const DecompositionTable& table() {
  static const DecompositionTable entries = [] {
    DecompositionTable t;
    for (auto add :
         {decompose_attention, decompose_views, decompose_casts, decompose_creation, decompose_random,
          decompose_pointwise, decompose_makers, decompose_indexing, decompose_reductions, decompose_normalization,
          decompose_linalg, decompose_convolution, decompose_resampling, decompose_losses, decompose_gradients,
          decompose_recurrent, decompose_fourier, decompose_composites})
      add(t);
    return t;
  }();
  return entries;
}

/// A copy of `made` with the strides of `wanted`, where they differ: written out dense in that order of dimensions.
Value in_layout_of(Rewriter& r, const Value& made, const TensorMeta& wanted) {
  TensorMeta have = r.meta(made);
  have.offset = wanted.offset;  // a new value starts at 0 where eager's view did not
  if (agree(*r.module.env, have, wanted)) return made;
  have.strides = wanted.strides;
  if (agree(*r.module.env, have, wanted) && !ops::shapes::is_non_overlapping_and_dense(*r.module.env, wanted))
    return made;  // strides with holes are a trace's artefact: a new value has none
  if (!agree(*r.module.env, have, wanted))
    r.refuse(fmt::format("decomposes to {}, not to {}", sym::to_string(r.meta(made)), sym::to_string(wanted)));
  const std::vector<std::int64_t> order = ops::shapes::memory_order(*r.module.env, wanted.strides);
  Value dense =
      r.call("aten.clone.default", {r.permute(made, order)}, {{"memory_format", ops::MemoryFormat::Contiguous}});
  return r.permute(dense, ops::shapes::inverse_order(order));
}

/// Views of a node whose strides are not those recorded get their metadata anew.
void refresh_views(Rewriter& r, const Node* of) {
  for (Node* user : of->users())
    if (user->op && user->op->schema.is_view()) {
      user->meta.value = fx::infer(*user, *r.module.env);
      refresh_views(r, user);
    }
}

void replace(Rewriter& r, Node* old, const Value& made, Renaming& renaming) {
  Value value = made;
  renaming.unify(*r.module.env, old->meta.value, made.as_node()->meta.value);
  if (old->is_tensor()) value = in_layout_of(r, made, old->tensor());
  old->replace_all_uses_with(value.as_node());
  if (old->is_tensor() && !agree(*r.module.env, r.meta(value), old->tensor())) refresh_views(r, value.as_node());
}

}  // namespace

void replace_call(Rewriter& r, const Value& made, Renaming& renaming) {
  Node* node = r.node;
  if (const auto* list = made.get_if<Values>()) {
    for (Node* user : std::vector<Node*>(node->users())) {
      if (!user->is_call("_operator.getitem"))
        throw Error(fmt::format("{}: the whole list of results is used by %{}", node->target, user->name), node->target,
                    node->where());
      const Value& item = list->at(static_cast<std::size_t>(*user->args[1].as_int().constant()));
      if (item.is_none())
        throw Error(fmt::format("{}: %{} is a result that it was told not to compute", node->target, user->name),
                    node->target, node->where());
      replace(r, user, item, renaming);
      node->graph().erase(user);
    }
  } else {
    replace(r, node, made, renaming);
  }
  node->graph().erase(node);
}

namespace {

/// What define_decomposition added. Entries are never moved or removed.
struct Outside {
  std::shared_mutex mutex;
  std::map<std::string, Decomposition, std::less<>> entries;
};

Outside& outside() {
  static Outside o;
  return o;
}

}  // namespace

const Decomposition* decomposition_of(std::string_view target) {
  if (auto found = table().find(target); found != table().end()) return &found->second;
  Outside& o = outside();
  std::shared_lock lock(o.mutex);
  auto found = o.entries.find(target);
  return found == o.entries.end() ? nullptr : &found->second;
}

void define_decomposition(std::string_view target, Decomposition rule) {
  if (decomposition_of(target)) fail("{} has a decomposition already", target);
  Outside& o = outside();
  std::unique_lock lock(o.mutex);
  o.entries.emplace(target, std::move(rule));
}

bool decomposes(std::string_view target) { return decomposition_of(target); }

namespace {

/// Calls that stay as they are until the device is known: only some devices have a library for them.
bool waits_for_device(const Node* node) {
  if (node->target.starts_with("coil.fourier")) return true;
  if (node->target == "aten._scaled_dot_product_flash_attention_for_cpu_backward.default") return true;
  if (node->target != "aten.scaled_dot_product_attention.default") return false;
  const sym::TensorMeta &query = node->arg("query").as_node()->tensor(),
                        &value = node->arg("value").as_node()->tensor();
  return query.dtype != compute_dtype(query.dtype) && query.sizes.back() != value.sizes.back();
}

/// What `f` gives. Its errors are about a call, and name what the incoming graph calls there.
template <class F>
auto by_name(const Node& node, F&& f) {
  try {
    return f();
  } catch (const BeyondEnd&) {
    throw fx::of_call(
        node, Error(fmt::format("{}: takes no arguments of these dimensions", node.target), node.target, node.where()));
  } catch (const Error& e) {
    if (typeid(e) != typeid(Error) || std::string_view(e.what()).starts_with("internal error")) throw;
    throw fx::of_call(node, e);
  }
}

void decompose(fx::GraphModule& module, const target::Target& target, bool device_is_known) {
  fx::Graph& graph = module.graph;
  Renaming renaming;
  for (Node* node = graph.first(); node;) {
    Node* next = node->next();
    const Decomposition* rule = node->opcode == fx::Opcode::CallFunction ? decomposition_of(node->target) : nullptr;
    if (!rule || (!device_is_known && waits_for_device(node))) {
      node = next;
      continue;
    }
    Node* before = node->prev();
    fx::InsertBefore here(node);
    Rewriter r(module, node, target);
    Value made = by_name(*node, [&] { return (*rule)(r); });
    if (made.is_none()) {
      node = next;
      continue;
    }
    by_name(*node, [&] { replace_call(r, made, renaming); });
    // What was made may decompose further.
    node = before ? before->next() : graph.first();
  }
  renaming.apply(module);
  graph.eliminate_dead_code();
  for (auto& [name, subgraph] : module.subgraphs) decompose(*subgraph, target, device_is_known);
}

}  // namespace

void decompose(fx::GraphModule& module, const target::Target& target) { decompose(module, target, false); }

void decompose_for_device(fx::GraphModule& module, const target::Target& target) { decompose(module, target, true); }

}  // namespace coil::passes
