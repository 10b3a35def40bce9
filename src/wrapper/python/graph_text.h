// Python that a written FX graph prints itself with as text for `coil opt`, and reads itself from.
#pragma once
#include <string>

namespace coil::wrapper {

/// Defines `text(module=None)` and `read(text)`, beside a `load()` that makes the graph.
std::string python_graph_text();

}  // namespace coil::wrapper
