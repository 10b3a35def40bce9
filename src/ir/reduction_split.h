// Reductions in two: over the elements of each chunk, then over the chunks.
#pragma once
#include <optional>

#include "ir/ir.h"

namespace coil::ir {

/// How to cut one reduced dimension into chunks: their number depends on sizes only, so that results do not depend on
/// threads.
struct ReductionSplit {
  std::size_t dim = 0;
  std::int64_t chunks = 0;
  bool exact = false;  ///< chunks divide the dimension
};

/// Into how many chunks a reduction is cut so that a device has work for all its threads; nothing where it stays whole.
std::optional<ReductionSplit> choose_split(Graph&, Device, const Exprs& sizes, const Exprs& reduced, ReductionKind,
                                           Scalar body);

/// The reduction over the elements of each chunk. Its last dimension counts the chunks.
struct ChunkReduction {
  Exprs sizes, reduced;
  Expr length;  ///< of a chunk, along the dimension that was cut
  Scalar body = nullptr;
  Exprs strides;  ///< of its result: columns that are read side by side lie side by side
};
ChunkReduction chunks_of(Graph&, const Exprs& sizes, const Exprs& reduced, ReductionKind, Scalar body,
                         const ReductionSplit&);

/// Whether rows are not cut into chunks because they are read again after their reduction: a cluster of blocks keeps a
/// whole row in shared memory until then.
bool stays_whole(Graph&, Device, const Exprs& sizes, const Exprs& reduced, Scalar body);

/// Whether neighbouring elements of most that a reduction over so many dimensions reads are reduced together, however
/// they come to lie.
bool reduces_neighbours(Graph&, Scalar body, std::size_t reduced);

/// Whether a reduction finds the place of an extreme, not a value.
inline bool is_position(ReductionKind kind) { return kind == ReductionKind::ArgMax || kind == ReductionKind::ArgMin; }

}  // namespace coil::ir
