// A group of fused operations, or a scatter, as the text of one kernel in Triton.
#pragma once
#include <variant>

#include "codegen/heuristics/launch_config.h"
#include "codegen/kernel.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

/// The kernel of the loops of a group (codegen/grid_nest.h), or of a scatter's; or why Triton has none.
std::variant<Kernel, std::string> print_triton_nest(ir::Graph&, const LoopNest&, const target::Target&,
                                                    const LaunchRequest& = {});

}  // namespace coil::codegen
