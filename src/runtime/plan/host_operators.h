// What a plan leaves to the program that runs it, for whoever deploys it.
#pragma once
#include <string>

#include "runtime/plan/plan.h"

namespace coil::runtime {

/// The operators of the host that a plan calls, each once, in the order of their first calls, over all blocks of the
/// program, as JSON: `[{"operator", "schema", "calls": [{"step", "inside"}]}]`. `step` counts the plan's steps,
/// `inside` lists those that open the blocks around the call, the outermost first. Empty where there are none.
std::string host_operators_json(const Plan&);

}  // namespace coil::runtime
