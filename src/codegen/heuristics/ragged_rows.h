// Rows that begin and end anywhere in memory, as rows of a free length do: vectors lie as memory's do, so that a row
// has some elements in front of its first vector and some behind its last.
#pragma once
#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {

/// An element of a row is counted from the last multiple of the vector's width in front of the row, or the row's first
/// element, in memory: `along` counts so, and `base` is the index there. What lies as far from such a multiple as
/// `begin` does moves as vectors.
struct RaggedRows {
  int vector = 1;    ///< 1: nothing is gained
  Expr begin = 0;    ///< where a row begins: what vectors are for
  Expr along, base;  ///< variables that take the place of the row's own
  MovedBytes moved;

  /// What stands for the row's own variable.
  Expr place() const { return along + base - begin; }
};

/// The ragged rows of a nest along rows of one dimension.
RaggedRows ragged_rows(ir::Graph&, const LoopNest&);

}  // namespace coil::codegen
