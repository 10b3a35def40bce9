// Scans along one dimension: a block walks a row in chunks, or has one chunk of it; columns are one
// thread's each, or several threads'.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct ScanFacts {
  std::int64_t rows = 1, length = 1;  ///< known, or hints
  int vector = 1;                     ///< widest along a row
  /// Each chunk is a block's, and blocks tell each other what their chunks come to. What they tell is room for chunks
  /// of `ir::ScanState::kSmallest` elements at least.
  bool tiled = false;
};

/// Whether neighbouring columns lie side by side, so that threads side by side walk one each.
bool scans_columns(const LoopNest&);
ScanFacts scan_facts(ir::Graph&, const LoopNest&);

/// A chunk has `threads * unroll` vectors.
std::vector<LaunchConfig> scan_configs(const ScanFacts&, const target::Costs&);
/// `team` threads share a column, each with `unroll` points of it at once: one where columns fill the machine.
std::vector<LaunchConfig> scan_column_configs(const ScanFacts&, const target::Costs&);

}  // namespace coil::codegen
