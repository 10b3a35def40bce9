// Nested graphs: finding the one that a call runs, and putting its body in the place of the call.
#pragma once
#include <memory>

#include "fx/graph.h"
#include "passes/graph/metadata.h"

namespace coil::passes {

/// The graph that an argument names; null where it names none that is there.
fx::GraphModule* subgraph_of(const fx::GraphModule&, const ops::Value& argument);

/// `call` has the subgraph's name among its arguments, and after it one argument for each of the subgraph's
/// placeholders. Its results (items of it, or itself for a single bare result) become the subgraph's; the call is
/// erased. The subgraph stays for other calls; what it nests and holds moves up.
void inline_subgraph(fx::GraphModule&, fx::Node* call);

/// For a body that will stand before `call` once more: where it finds sizes in its data that are in the outer graph
/// before that already, new symbols for them.
Renaming fresh_sizes(fx::GraphModule& outer, const fx::Node* call, const fx::GraphModule& body);

/// A graph of its own with what it nests and holds, which says other symbols.
std::unique_ptr<fx::GraphModule> copied(const fx::GraphModule&, const Renaming&);

}  // namespace coil::passes
