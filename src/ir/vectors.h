// Which operands a kernel can read by whole vectors of 16 bytes.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// Whether 16 bytes along dimension `dim` of a view lie side by side, wherever they begin: known now, for all sizes.
bool lies_in_vectors(const sym::ShapeEnv&, const BufferView&, std::size_t dim);

}  // namespace coil::ir
