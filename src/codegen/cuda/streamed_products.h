// What kernels share whose operands the copy engine fetches (device/cuda/streamed_products.cuh).
#pragma once
#include "codegen/kernel.h"
#include "codegen/loop_nest.h"

namespace coil::codegen {

/// An operand as a batch of matrices, a matrix where its dense dimension, the last, lies side by side. In elements.
struct StreamedOperand {
  std::size_t pointer = 0;  ///< among the kernel's buffers
  DType dtype = DType::BF16;
  Expr offset;
  Exprs sizes, strides;  ///< batch, rows, columns
};
/// The operand's descriptor for tiles of `rows` by 64 elements.
MappedTensor mapped(const sym::ShapeEnv&, const StreamedOperand&, int rows);
/// The rows of a tile of the second operand: where its columns lie side by side (not `along`), the blocks of a cluster
/// share the rows of a piece, else the columns of a tile.
int tile_rows_of_second(const LaunchConfig&, bool along);
/// How many blocks stay.
Expr streamed_blocks(const sym::ShapeEnv&, Expr tiles, const LaunchConfig&, const target::Costs&);

/// The kernel of one product in a config for which `is_streamed` holds.
Kernel streamed_product(ir::Graph&, const ir::Extern& call, const target::Target&, const LaunchConfig&);

}  // namespace coil::codegen
