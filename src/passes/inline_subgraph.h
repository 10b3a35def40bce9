// Puts the body of a nested graph in the place of the call that runs it.
#pragma once
#include "fx/graph.h"

namespace coil::passes {

/// `call` has the subgraph's name among its arguments, and after it one argument for each of the subgraph's placeholders. Its results (items of it, or itself
/// for a single bare result) become the subgraph's; the call is erased. The subgraph stays for other calls; what it nests and holds moves up.
void inline_subgraph(fx::GraphModule&, fx::Node* call);

}  // namespace coil::passes
