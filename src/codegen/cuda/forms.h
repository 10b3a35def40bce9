// The forms a CUDA kernel takes, one a file: each writes a prepared nest's loops into a KernelBuilder as its plan says
// (codegen/heuristics), and how to launch it.
#pragma once
#include "codegen/cuda/kernel_builder.h"
#include "codegen/heuristics/kernel_plan.h"
#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {

/// A thread takes vectors of neighbouring points.
Kernel cuda_pointwise(KernelBuilder&, const LaunchConfig&);
/// Two dimensions in tiles through shared memory, for accesses contiguous along different ones.
Kernel cuda_tiles(KernelBuilder&, const TilePlan&);
/// A team of threads takes a row: reductions along what lies contiguously (or is short).
Kernel cuda_rows(KernelBuilder&, const RowPlan&);
/// Threads side by side along a contiguous outer dimension, several over the reduced ones: column sums.
Kernel cuda_columns(KernelBuilder&, const LaunchConfig&);
/// Reductions of which neighbouring results read much of the same.
Kernel cuda_windows(ir::Graph&, const WindowPlan&, const Dialect&);
/// Running sums and the like along one dimension: rows by blocks, columns by a thread each.
Kernel cuda_scan(KernelBuilder&, const LaunchConfig&);
Kernel cuda_scan_columns(KernelBuilder&, const LaunchConfig&);
/// Stores where data says, a thread for an iteration or a run of them; what hits one place combines atomically.
Kernel cuda_scatter(KernelBuilder&, const LaunchConfig&);

// ---- What forms share

/// Loop variables of these dimensions from their row-major position `linear`, an expression of the kernel's index type;
/// the last moves fastest.
void decode(KernelBuilder&, std::span<const LoopDim> dims, const std::string& linear);

/// The accumulator of a reduction and its parts in device code.
struct Accumulator {
  const Statement* statement = nullptr;
  std::string name;  ///< variable, or array over lanes
  std::string type;  ///< `f32`, `c_arg<f32, i32>`
  std::string identity;
  std::string op;  ///< `c_op_add()`
  bool arg = false;

  /// What it comes to: the value, or the place as the number that it is elsewhere.
  std::string result() const { return arg ? fmt::format("(i64){}.p", name) : name; }
};
Accumulator accumulator(KernelBuilder&, const Statement&, std::size_t number);
/// Statement that takes one element in; `at` subscripts arrays over lanes.
void accumulate(KernelBuilder&, const Accumulator&, const std::string& at);
std::string reduction_identity(const Dialect&, ir::ReductionKind, DType);

}  // namespace coil::codegen
