// Library or kernel of Coil's own: each product that both have is timed in both forms, with what follows it.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "autotune/products.h"
#include "autotune/timer.h"
#include "codegen/backend.h"

namespace coil::autotune {

struct OwnProducts {
  std::map<ir::OperationId, std::int64_t> parts;  ///< of the sums of each call that a kernel is faster for
  std::set<ir::BufferId> made;  ///< first operands that kernels make faster than they read what a loop made
  std::string text;             ///< a line for each distinct call, for logs
};

/// The graph is as it was before, but for layouts of operands and results that may not change any more. Runs before
/// post-operations are fused: what a kernel would take in and the library would not is charged to the library as one
/// pass over memory, and so is to all the loop in front that a kernel may do without. What was found is remembered in
/// the options' cache. Throws Error when kernels cannot be compiled, or the device fails.
OwnProducts choose_own_products(ir::Graph&, const codegen::Backend&, Timer&, CallTimer&, const LaunchOptions&);

}  // namespace coil::autotune
