// The extern operations `attention` and `attention_backward` as calls of template kernels.
#pragma once
#include "codegen/cpp/toolchain.h"
#include "codegen/kernel.h"

namespace coil::codegen {

/// Operands and results are as in library_ops/attention.cpp: views of rank 4 over (batch, head, position, dim).
/// Throws Error when a head dimension is symbolic.
Kernel attention_call(const ir::Extern&, const Toolchain&);

}  // namespace coil::codegen
