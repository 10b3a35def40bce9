// Products in 16 bits by kernels, of rows that meet one matrix or several: how many rows a block takes, and how many
// pieces of its operands it has in shared memory at once.
#pragma once
#include "codegen/heuristics/launch_config.h"
#include "target/target.h"

namespace coil::codegen {

struct ProductFacts {
  std::int64_t rows = 1, matrices = 1, columns = 1;  ///< known, or hints
  bool along = false;                                ///< what is summed over lies side by side in the matrices
  bool warpgroups = false;                           ///< four warps multiply what lies in shared memory (sm_90a)
  bool mapped = false;                               ///< the copy engine can fetch tiles of these operands
  bool made = false;                                 ///< the kernel computes the first operand itself
  std::int64_t depth = 1;                            ///< elements of a sum
  std::int64_t most_rows = 0;                        ///< of a matrix, where they are few; 0: they may be many
  bool runs = false;                                 ///< which rows meet which matrix is data
};

/// `rows` of a block by `tile` columns, and `unroll` pieces under way, with the `shared_bytes` for them. Where
/// `is_streamed`, blocks stay and take tile after tile, some of their threads fetch, and `cluster` blocks with
/// neighbouring rows share what they read of the second operand.
LaunchConfig product_config(const ProductFacts&, const target::Costs&);
/// Whether a product's kernel is that of device/cuda/streamed_products.cuh.
bool is_streamed(const LaunchConfig&);
/// Whether it is that of device/cuda/thin_products.cuh: `cluster` blocks share the sums of `rows` by `tile`.
bool is_thin(const LaunchConfig&);
/// How many elements of a sum, and columns, a warp of such a kernel has at one time.
struct ThinPiece {
  int depth, columns;
};
ThinPiece thin_piece(bool along);
/// The most rows of a matrix for which there is such a kernel.
inline constexpr std::int64_t kMostThinRows = 32;

}  // namespace coil::codegen
