#include <algorithm>
#include <unordered_set>

#include "fx/infer.h"
#include "ops/registry.h"
#include "passes/graph/metadata.h"
#include "passes/graph/passes.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;
using ops::Values;

/// torch 2.11 records the last states of an LSTM as its reference for one direction of one layer gives them, with a
/// dimension of size 1 that eager's results do not have.
bool has_extra_dimension(const Value& recorded, const Value& inferred) {
  const auto *r = recorded.get_if<sym::TensorMeta>(), *i = inferred.get_if<sym::TensorMeta>();
  if (!r || !i || i->rank() != 3 || r->rank() != 4 || !r->sizes[1].is_constant(1)) return false;
  return r->sizes[0] == i->sizes[0] && r->sizes[2] == i->sizes[1] && r->sizes[3] == i->sizes[2];
}

/// torch 2.11 records the places and counts of `unique`, and sums of weights by `bincount`, with the type of another
/// result.
bool has_wrong_types(const Node& n) {
  if (n.is_call("aten.bincount.default")) {
    const auto* recorded = n.meta.value.get_if<sym::TensorMeta>();
    return recorded && recorded->dtype == DType::I64 && n.args.size() > 1 && n.args[1].get_if<Node*>();
  }
  constexpr std::string_view kUnique[] = {"aten._unique.default", "aten._unique2.default", "aten.unique_dim.default",
                                          "aten.unique_consecutive.default", "aten.unique_dim_consecutive.default"};
  const auto* recorded = n.meta.value.get_if<Values>();
  return recorded && std::ranges::find(kUnique, n.target) != std::end(kUnique) &&
         std::any_of(recorded->begin() + 1, recorded->end(), [](const Value& v) {
           const auto* tensor = v.get_if<sym::TensorMeta>();
           return tensor && tensor->dtype != DType::I64;
         });
}

/// torch records the statistics of a normalization with the type of what is normalized, where eager's are those of
/// wider weights.
bool has_narrow_statistics(const Node& n) {
  if (!n.is_call("aten.native_layer_norm.default") && !n.is_call("aten.native_group_norm.default")) return false;
  const Value& weight = n.arg("weight");
  const auto* recorded = n.meta.value.get_if<Values>();
  return !weight.is_none() && recorded && recorded->size() == 3 && (*recorded)[1].is<sym::TensorMeta>() &&
         (*recorded)[1].as_tensor().dtype != weight.as_node()->tensor().dtype;
}

/// torch records the distinct slices along a dimension that is counted from the end with all sizes behind their number,
/// and of a vector places and counts that eager leaves empty.
bool has_wrong_sizes(const Node& n) {
  if (!n.is_call("aten.unique_consecutive.default") && !n.is_call("aten.unique_dim_consecutive.default")) return false;
  const auto* recorded = n.meta.value.get_if<Values>();
  const auto* values = recorded && !recorded->empty() ? (*recorded)[0].get_if<sym::TensorMeta>() : nullptr;
  if (!values || n.arg("dim").is_none()) return false;
  const std::size_t rank = n.arg("self").as_node()->tensor().rank();
  return rank == 1 || values->rank() != rank;
}

/// The results of such a call as they were inferred, whose number of slices is called as it was recorded.
Value with_recorded_count(const Node& n, const Value& inferred) {
  Values made = inferred.as_list();
  const sym::TensorMeta slices = made[0].as_tensor();
  const auto rank = static_cast<std::int64_t>(slices.rank()), given = n.arg("dim").as_int().constant().value_or(0);
  const auto dim = static_cast<std::size_t>(given < 0 ? given + rank : given);
  const sym::Expr from = slices.sizes[dim], to = n.meta.value.as_list()[0].as_tensor().sizes[dim];
  for (Value& v : made) {
    auto meta = v.as_tensor();
    for (sym::Exprs* all : {&meta.sizes, &meta.strides})
      for (sym::Expr& e : *all) e = sym::substitute(e, {&from, 1}, {&to, 1});
    v = std::move(meta);
  }
  return made;
}

/// What is recorded, with what `take` puts into each tensor's record from the one that was inferred.
template <class Take>
Value with(const Value& recorded, const Value& inferred, const Take& take) {
  const auto *r = recorded.get_if<sym::TensorMeta>(), *i = inferred.get_if<sym::TensorMeta>();
  if (r && i) {
    sym::TensorMeta meta = *r;
    take(meta, *i);
    return meta;
  }
  const auto *rs = recorded.get_if<Values>(), *is = inferred.get_if<Values>();
  if (!rs || !is || rs->size() != is->size()) return recorded;
  Values all;
  for (std::size_t k = 0; k < rs->size(); ++k) all.push_back(with((*rs)[k], (*is)[k], take));
  return all;
}

/// What is recorded, sizes and all, with the types that were inferred.
Value with_types_of(const Value& recorded, const Value& inferred) {
  return with(recorded, inferred, [](sym::TensorMeta& meta, const sym::TensorMeta& i) { meta.dtype = i.dtype; });
}

/// What is recorded, with the strides that were inferred.
Value with_strides_of(const Value& recorded, const Value& inferred) {
  return with(recorded, inferred, [](sym::TensorMeta& meta, const sym::TensorMeta& i) {
    if (meta.rank() == i.rank()) meta.strides = i.strides;
  });
}

bool is_recorded_wrongly(const Node& n, sym::ShapeEnv& env) {
  if (has_wrong_types(n) || has_wrong_sizes(n) || has_narrow_statistics(n)) return true;
  if (!n.is_call("aten.lstm.input")) return false;
  const auto* recorded = n.meta.value.get_if<Values>();
  if (!recorded || recorded->size() != 3) return false;
  const Values inferred = fx::infer(n, env).as_list();
  return has_extra_dimension((*recorded)[1], inferred[1]) || has_extra_dimension((*recorded)[2], inferred[2]);
}

/// Whether eager's kernels may lay out a call's result otherwise than torch records it, which goes by what tracing
/// writes the operator out in.
bool may_lie_otherwise(const Node& n) {
  constexpr std::string_view kTargets[] = {
      "aten.index.Tensor",         "aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor",
      "aten.floor_divide.default", "aten.div.Tensor_mode",       "aten.copysign.Tensor",
      "aten.pow.Scalar",           "aten.isin.Tensor_Tensor",    "aten.isin.Tensor_Scalar",
      "aten.isin.Scalar_Tensor"};
  // This one is dense on a CPU alone.
  if (n.is_call("aten.log_sigmoid_forward.default")) return n.args[0].as_node()->tensor().device.is_host();
  return std::ranges::find(kTargets, n.target) != std::end(kTargets);
}

/// Whether nothing but the caller sees a value or its items. What was traced of others takes its strides for granted.
bool is_result_alone(const Node& n) {
  return std::ranges::all_of(n.users(), [](const Node* user) {
    return user->opcode == fx::Opcode::Output || (user->is_call("_operator.getitem") && is_result_alone(*user));
  });
}

/// Records a call and its items with eager's strides, where nothing else of the record differs.
void take_eagers_strides(Node& n, sym::ShapeEnv& env) {
  const Value inferred = fx::infer(n, env);
  Value laid_out = with_strides_of(n.meta.value, inferred);
  if (agree(env, laid_out, n.meta.value) || !agree(env, inferred, laid_out)) return;
  n.meta.value = std::move(laid_out);
  for (Node* item : n.users())
    if (item->opcode == fx::Opcode::CallFunction) item->meta.value = fx::infer(*item, env);
}

bool is_inferable(const Node& n) { return n.op ? static_cast<bool>(n.op->shape) : n.is_call("_operator.getitem"); }

void correct_graph(fx::GraphModule& module, bool is_program) {
  std::unordered_set<const Node*> follows;  // calls with an argument whose metadata changed
  for (Node* n = module.graph.first(); n; n = n->next()) {
    if (n->opcode != fx::Opcode::CallFunction || !is_inferable(*n)) continue;
    if (is_program && may_lie_otherwise(*n) && is_result_alone(*n)) take_eagers_strides(*n, *module.env);
    if (!follows.contains(n) && !is_recorded_wrongly(*n, *module.env)) continue;
    Value inferred = fx::infer(*n, *module.env);
    if (has_wrong_sizes(*n)) {
      n->meta.value = with_recorded_count(*n, inferred);
      for (Node* result : n->users()) result->meta.value = fx::infer(*result, *module.env);
      for (const Node* result : n->users()) follows.insert(result->users().begin(), result->users().end());
      continue;
    }
    if (agree(*module.env, inferred, n->meta.value)) continue;
    Value retyped = with_types_of(n->meta.value, inferred);  // keeps the names of sizes that data tell
    n->meta.value = agree(*module.env, inferred, retyped) ? std::move(retyped) : std::move(inferred);
    follows.insert(n->users().begin(), n->users().end());
  }
  for (auto& [name, subgraph] : module.subgraphs) correct_graph(*subgraph, false);
}

}  // namespace

void correct_records(fx::GraphModule& module) { correct_graph(module, true); }

}  // namespace coil::passes
