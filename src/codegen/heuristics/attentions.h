// Attention in f32: how many rows a block takes. A warp has 16 of them, whose operands stay in shared memory while the
// other operands pass through it piece by piece.
#pragma once
#include <vector>

#include "codegen/heuristics/launch_config.h"
#include "target/target.h"

namespace coil::codegen {

struct AttentionFacts {
  /// Heads of all batches, and rows of each, as far as is known for certain: no more than these.
  std::int64_t heads = 1, rows = 1;
  std::vector<std::int64_t> staying;  ///< elements of a row of each operand that stays in shared memory
  std::int64_t widest = 1;            ///< elements of a row of what a thread adds up
  bool gradient = false;
};

/// `rows` of a block, `threads` and `shared_bytes` for them.
LaunchConfig attention_config(const AttentionFacts&, const target::Costs&);

}  // namespace coil::codegen
