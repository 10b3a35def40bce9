// The forms a CUDA kernel takes, one a file: each writes a prepared nest's loops into a Body and says how to launch it.
#pragma once
#include <algorithm>
#include <span>

#include "codegen/cuda/body.h"
#include "codegen/cuda/model.h"

namespace coil::codegen {

/// Flat: a thread takes a run of neighbouring points.
Kernel cuda_pointwise(Body&, const GpuModel&);
/// Two dimensions in tiles through shared memory, for accesses contiguous along different ones.
Kernel cuda_tiles(Body&, const GpuModel&);
/// A team of threads takes a row: reductions along what lies contiguously (or is short).
Kernel cuda_rows(Body&, const GpuModel&);
/// Threads side by side along a contiguous outer dimension, several over the reduced ones: column sums.
Kernel cuda_columns(Body&, const GpuModel&);
/// Running sums and the like along one dimension.
Kernel cuda_scan(Body&, const GpuModel&);
/// Stores where data says, a thread for an iteration or a run of them; what hits one place combines atomically.
Kernel cuda_scatter(Body&, const GpuModel&);

// ---- What forms share

/// Loop variables of these dimensions from their row-major position `linear`, an expression of the kernel's index type;
/// the last moves fastest.
void decode(Body&, std::span<const LoopDim> dims, const std::string& linear);
Expr product_of(std::span<const LoopDim> dims);
Exprs variables_of(std::span<const LoopDim> dims);
/// The widest run along `dim` for which its contiguous accesses move as packs of up to 16 bytes: 1 to 8. `ends_short`:
/// the last run may be a part of one.
int run_width(Body&, const LoopDim& dim, bool ends_short = false);
int power_of_two_at_least(std::int64_t n, int most);
/// The launch shape that is asked for among those that a form finds worth trying, the model's own first.
template <class Shape>
Shape chosen(Body& b, const GpuModel& gpu, const std::vector<Shape>& shapes) {
  b.shapes = static_cast<int>(shapes.size());
  return shapes[static_cast<std::size_t>(std::min(gpu.shape, b.shapes - 1))];
}

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
Accumulator accumulator(Body&, const Statement&, std::size_t number);
/// Statement that takes one element in; `at` subscripts arrays over lanes.
void accumulate(Body&, const Accumulator&, const std::string& at);
std::string reduction_identity(ir::ReductionKind, DType);

}  // namespace coil::codegen
