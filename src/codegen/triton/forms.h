// The forms that a kernel in Triton takes, one a file: each writes a nest's loops into a body by blocks of points.
#pragma once
#include "codegen/heuristics/blocks.h"
#include "codegen/triton/body.h"

namespace coil::codegen {

/// Every program a block of outer points.
Kernel triton_points(TritonBody&, const BlockShape&);
/// Two dimensions in squares, where accesses disagree on which of them is contiguous: Triton gives each access threads
/// along its own.
Kernel triton_tiles(TritonBody&, const BlockShape&);
/// Reductions of any shape: blocks of rows (`outer`, in their order) by blocks of what is reduced.
/// A program that walks what is reduced makes each of `pairs` in one pass.
Kernel triton_reductions(TritonBody&, const std::vector<LoopDim>& outer, const BlockShape&,
                         std::span<const OnlinePair> pairs = {});
/// Running sums and the like: a program walks its rows from chunk to chunk.
Kernel triton_scan(TritonBody&, const BlockShape&);
/// Stores where data says; what hits one place combines atomically, or in order where it is sorted so.
Kernel triton_scatter(TritonBody&, const BlockShape&);
/// Why Triton has no such scatter; nothing where it has.
std::optional<std::string> no_triton_scatter(const ir::Graph&, const ir::Operation&);

// ---- What forms share

/// How two values become one.
struct TritonCombine {
  std::string function;  ///< `c_combine_sum`
  std::string identity;  ///< a literal
  std::string type;      ///< in which values are combined
  bool truth = false;    ///< of truth values, which are combined as numbers
};
TritonCombine triton_combine(ir::ReductionKind, DType);
/// The value that changes nothing, as a literal.
std::string triton_identity(ir::ReductionKind, DType);

}  // namespace coil::codegen
