// How passes make nodes: arguments in schema order, metadata computed, provenance kept.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "fx/graph.h"

namespace coil::passes {

/// Where a node's value lies, or the first of several; the CPU for numbers.
Device home_of(const fx::Node&);

/// A call at the graph's insertion point that stands for (part of) what `from` computes. Arguments are completed by the
/// schema (all of them in order: taken as they are). Throws Error when its schema or shape function refuses it.
/// What makes a tensor of no other without saying where makes it where `from` lies (GraphModule::makes_at_home).
fx::Node* make_call(fx::GraphModule&, const fx::Node* from, std::string_view target, ops::Values args,
                    std::vector<std::pair<std::string, ops::Value>> named = {}, std::string_view name = {});

}  // namespace coil::passes
