// The passes of every level in the order in which they run: tables that the pipeline walks, and that `coil opt`, the
// logs and docs/passes.md read.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "passes/graph/records.h"
#include "passes/loop/records.h"
#include "passes/wrapper/records.h"

namespace coil {

using GraphStep = passes::Step<fx::GraphModule, passes::GraphContext>;
using LoopStep = passes::Step<ir::Graph, passes::LoopContext>;
using WrapperStep = passes::Step<wrapper::Program, passes::WrapperContext>;

std::span<const GraphStep> graph_pipeline();
/// The passes for a part of the program without inputs, which the pass fold-constants computes.
std::span<const GraphStep> constants_pipeline();
std::span<const LoopStep> loop_pipeline();
std::span<const WrapperStep> wrapper_pipeline();

/// The pass of that name in a pipeline. Throws Error, naming those that there are (and `also`), when it has none.
const passes::GraphPass& find_pass(std::span<const GraphStep>, std::string_view name);
const passes::LoopPass& find_pass(std::span<const LoopStep>, std::string_view name,
                                  std::vector<std::string_view> also = {});
const passes::WrapperPass& find_pass(std::span<const WrapperStep>, std::string_view name);

/// What each level's text shows, for comparing and for people.
std::string print(const fx::GraphModule&);
std::string print(const ir::Graph&);
std::string print(const wrapper::Program&);
/// What must hold between any two passes of a level. Throws Error.
void verify_between(const fx::GraphModule&);
void verify_between(const ir::Graph&);
void verify_between(const wrapper::Program&);

/// Names of all passes.
std::set<std::string, std::less<>> pass_names();
/// All passes and stages as a page of documentation (docs/passes.md).
std::string passes_page();

}  // namespace coil
