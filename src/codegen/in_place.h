// Which of a kernel's results may take over the memory of what it reads.
#pragma once
#include <utility>
#include <vector>

#include "codegen/kernel_arguments.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// Kernel::in_place of a nest. `outer`: whether results that are made once for each outer point take part; not where
/// one thread writes for all.
std::vector<std::pair<ir::BufferId, ir::BufferId>> in_place_pairs(const ir::Graph&, const LoopNest&,
                                                                  const KernelArguments&, bool outer);

}  // namespace coil::codegen
