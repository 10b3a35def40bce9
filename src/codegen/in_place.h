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

/// How a kernel of a GPU goes through the statements of a nest.
struct InPlaceForm {
  bool outer = true;  ///< what is made once for each outer point takes part; not where one thread writes for all
  /// The statements of a level are one loop, whose turns load an element once, whoever reads it, and before they store.
  bool loads_once = false;
};
InPlacePairs in_place_pairs(const ir::Graph&, const LoopNest&, const KernelArguments&, InPlaceForm);

}  // namespace coil::codegen
