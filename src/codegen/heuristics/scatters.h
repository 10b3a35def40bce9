// Scatters: how many neighbouring iterations a thread takes.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "codegen/loop_nest.h"
#include "target/target.h"

namespace coil::codegen {

struct ScatterFacts {
  std::int64_t iterations = 1;  ///< known, or a hint
  /// Neighbouring iterations that read side by side and write side by side, all where one set of indices says. 1: each
  /// goes by itself.
  int vector = 1;
  std::size_t element_bytes = 1;  ///< of what is written
  /// Written elements are added to memory, in a type of which memory may add a whole vector.
  bool adds = false;
};

ScatterFacts scatter_facts(ir::Graph&, const LoopNest&);
LaunchConfig scatter_config(const ScatterFacts&, const target::Target&);

}  // namespace coil::codegen
