// From a schedule to the wrapper IR: buffers, and calls of kernels and libraries in order. Symbols and memory are added
// by the passes over it (passes/wrapper/).
#pragma once
#include "codegen/backend.h"
#include "fx/graph.h"
#include "scheduler/schedule.h"
#include "wrapper/program.h"

namespace coil::wrapper {

/// `module` names inputs and outputs.
Program build(const fx::GraphModule& module, ir::Graph&, const scheduler::Schedule&, const codegen::Backend&);
/// The same of a program over several devices: for each of these its backend, the target's first.
Program build(const fx::GraphModule& module, ir::Graph&, const scheduler::Schedule&,
              std::span<const codegen::Backend* const>);

}  // namespace coil::wrapper
