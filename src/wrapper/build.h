// From a schedule to the wrapper IR: symbols defined, kernels printed and called, memory allocated, reused and freed.
#pragma once
#include "codegen/backend.h"
#include "fx/graph.h"
#include "scheduler/schedule.h"
#include "wrapper/checks.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// `module` names inputs and outputs. Throws Error when an input's symbols cannot be solved from its sizes.
Program build(const fx::GraphModule& module, ir::Graph&, const scheduler::Schedule&, const codegen::Backend&,
              const Checks& = {});

/// Adds Allocate, Reuse and Free lines around the calls: each buffer from its first use to its last, in place where a
/// call allows it and the sizes are equal. Lines of that kind that are there go first.
void plan_lifetimes(Program&);

}  // namespace coil::wrapper
