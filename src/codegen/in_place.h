// Which of a kernel's results may take over the memory of what it reads.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "codegen/kernel_arguments.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

using InPlacePairs = std::vector<std::pair<ir::BufferId, ir::BufferId>>;

/// Kernel::in_place of a nest. `takes_part`: whether a statement that stores may do so over an input; `only_read`:
/// whether a buffer is one that the kernel never stores to.
InPlacePairs in_place_pairs(const ir::Graph&, const LoopNest&, const std::function<bool(const Statement&)>& takes_part,
                            const std::function<bool(ir::BufferId)>& only_read);

/// The same on a GPU. `outer`: whether results that are made once for each outer point take part; not where one thread
/// writes for all.
InPlacePairs in_place_pairs(const ir::Graph&, const LoopNest&, const KernelArguments&, bool outer);

}  // namespace coil::codegen
