// Communication buffers: values that are made where other ranks reach them, so that nobody copies them there.
//
// Which values may be: what is computed into a new buffer, through views of it, and a buffer whose layout is still
// open. Its bytes must be known, or have an upper bound: a buffer of a symbolic size gets the bytes of the largest.
// Memory of the caller's, constants, results, and buffers that something else has settled the layout of may not.
#pragma once
#include <optional>
#include <string>

#include "ir/tensor_box.h"

namespace coil::ir {

/// The most bytes that a buffer of this layout may have; nothing where there is no bound that a machine could hold.
std::optional<std::int64_t> comm_bytes(const sym::ShapeEnv&, DType, const Exprs& sizes, const Exprs& strides);

/// Whether a kernel that reads the buffer adds up over the ranks as it does so: `begin_peer_sum` writes to it.
bool is_peer_sum(const Graph&, BufferId);
/// The table that it does so by.
BufferId peer_table(const Graph&, BufferId sum);

/// Why the value cannot become a communication buffer of this layout; nothing where it can, or is one.
std::optional<std::string> comm_buffer_refusal(const TensorBox&, const CommBufferLayout&);
/// Why a buffer that a lowering has just made, whatever its layout is, cannot become a communication buffer.
std::optional<std::string> fresh_comm_buffer_refusal(const Graph&, BufferId);
void make_comm_buffer(Graph&, BufferId, const CommBufferLayout&);
/// Makes the buffer that the value lies in one. Throws Error with the refusal where there is one.
BufferId realize_as_comm_buffer(const TensorBox&, const CommBufferLayout&);

}  // namespace coil::ir
