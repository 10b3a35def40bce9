// The extern operation `attention` as a call of a template kernel.
#pragma once
#include "codegen/cpp/toolchain.h"
#include "codegen/kernel.h"

namespace coil::codegen {

/// Operands are q, k, v and, with attribute `has_mask`, the mask: views of rank 4 over (batch, head, position, dim).
/// Throws Error when a head dimension is symbolic.
Kernel attention_call(const ir::Extern&, const Toolchain&);

}  // namespace coil::codegen
