#include <unordered_set>

#include "passes/graph/aliasing.h"
#include "passes/graph/autocast.h"
#include "passes/graph/inline_subgraph.h"
#include "passes/graph/passes.h"
#include "support/error.h"

namespace coil::passes {

namespace {

using fx::Node;
using ops::Value;

/// Wrappers that only set a mode which compiled inference does not have, or which is written out already.
bool is_wrapper(const Node& n) {
  std::string_view name = higher_order(n);
  return name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast";
}

/// Takes the mode of autocast for written out (`write_out_autocast`).
void inline_wrappers(fx::GraphModule& m) {
  for (auto& [name, sub] : m.subgraphs) inline_wrappers(*sub);
  // Putting a body in place erases the call and the items taken of it, so that the calls are found before.
  std::vector<Node*> calls;
  for (Node* n = m.graph.first(); n; n = n->next())
    if (higher_order(*n) == "invoke_subgraph" || is_wrapper(*n)) calls.push_back(n);
  for (Node* n : calls) {
    if (higher_order(*n) == "invoke_subgraph") {  // invoke_subgraph(graph, name of the region, operands…): one graph,
                                                  // called where its body might have stood
      ops::Values args = n->args;
      if (args.size() > 1 && args[1].is<std::string>()) args.erase(args.begin() + 1);
      n->set_args(std::move(args));
    }
    inline_subgraph(m, n);
  }
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
  write_out_autocast(m);
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
