// How passes make nodes: arguments in schema order, metadata computed, provenance kept.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "fx/graph.h"

namespace coil::passes {

/// A call at the graph's insertion point that stands for (part of) what `from` computes. Arguments are completed by the
/// schema (all of them in order: taken as they are). Throws Error when its schema or shape function refuses it.
fx::Node* make_call(fx::GraphModule&, const fx::Node* from, std::string_view target, ops::Values args,
                    std::vector<std::pair<std::string, ops::Value>> named = {}, std::string_view name = {});

}  // namespace coil::passes
