#include <unordered_set>

#include "passes/aliasing.h"
#include "passes/inline_subgraph.h"
#include "passes/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;

/// The name of a higher-order operator, however the archive spells its target: `wrap_with_set_grad_enabled`.
std::string_view higher_order(const Node& n) {
  std::string_view t = n.target;
  if (t.starts_with("torch.ops.")) t.remove_prefix(10);
  if (!t.starts_with("higher_order.")) return {};
  return t.substr(13);
}

/// Wrappers that only set a mode which compiled inference does not have.
bool is_wrapper(const Node& n) {
  std::string_view name = higher_order(n);
  if (name == "wrap_with_set_grad_enabled") return true;
  // (device type, dtype, enabled, cache enabled, graph, operands…); with enabled=True the body's operators cast, which
  // autocast's own pass must write out.
  if (name == "wrap_with_autocast") return n.args.size() > 2 && n.args[2] == Value(false);
  return false;
}

void inline_wrappers(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) inline_wrappers(*sub);
  for (Node* n : m.graph.nodes())
    if (is_wrapper(*n)) inline_subgraph(m, n);
}

void drop_unused_subgraphs(fx::GraphModule& m) {
  std::unordered_set<std::string> used;
  std::function<void(const Value&)> collect = [&](const Value& v) {
    if (auto* g = v.get_if<ops::GraphRef>()) used.insert(g->name);
    if (auto* list = v.get_if<ops::Values>())
      for (const Value& item : *list) collect(item);
  };
  for (Node* n = m.graph.first(); n; n = n->next()) {
    for (const Value& v : n->args) collect(v);
    for (const auto& [name, v] : n->kwargs) collect(v);
  }
  std::erase_if(m.subgraphs, [&](const auto& entry) { return !used.contains(entry.first); });
}

/// Asserts about metadata, which compilation itself checks.
bool is_metadata_assert(const Node& n) { return n.is_call("aten._assert_tensor_metadata.default"); }

/// `unsqueeze_` and its kin give a tensor object other sizes, so that an alias of it is not the same object.
bool reshapes_in_place(const fx::Graph& g) {
  for (const Node* n = g.first(); n; n = n->next())
    for (std::string_view name : {"aten.unsqueeze_.", "aten.squeeze_.", "aten.transpose_.", "aten.t_.",
                                  "aten.swapaxes_.", "aten.swapdims_.", "aten.as_strided_."})
      if (n->target.starts_with(name)) return true;
  return false;
}

}  // namespace

void remove_noops(fx::GraphModule& m) {
  inline_wrappers(m);
  drop_unused_subgraphs(m);
  for (auto& [name, sub] : m.subgraphs) remove_noops(*sub);
  const bool objects_matter = reshapes_in_place(m.graph);
  for (Node* n : m.graph.nodes()) {
    if (is_metadata_assert(*n)) {
      m.graph.erase(n);
      continue;
    }
    if (objects_matter || !gives_back_input(*n)) continue;
    n->replace_all_uses_with(n->args[0].as_node());
    m.graph.erase(n);
  }
}

}  // namespace coil::passes
