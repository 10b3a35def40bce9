// Attention in f32 and its gradient as kernels of Coil's own: blocks of queries, with no full score matrix.
#pragma once
#include <string>
#include <string_view>

#include "codegen/kernel.h"
#include "target/target.h"

namespace coil::codegen {

/// Whether `cuda_attention` makes kernels of operations of this name:
///
///     blocked_attention          q, k, v, mask? -> y, logarithms of the queries' sums?
///     blocked_attention_queries  dy, q, k, v, y, logarithms, mask? -> dq, sums of dy * y
///     blocked_attention_keys     dy, q, k, v, logarithms, sums of dy * y, mask? -> dk, dv
///
/// Operands have four dimensions, (batch, head, row, element), the numbers of rows three; heads of q may share heads of
/// k and v. Masks are bool or f32.
bool is_cuda_attention(std::string_view op);
Kernel cuda_attention(ir::Graph&, const ir::Extern& call, const target::Costs&);

}  // namespace coil::codegen
