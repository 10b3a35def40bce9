// Operations that libraries carry out on CUDA, with the names and attributes they have on the CPU
// (runtime/device/library.h).
#pragma once
#include <memory>

#include "runtime/device/library.h"

namespace coil::runtime::cuda {

std::unique_ptr<LibraryOp> make_linear(const Attributes&, Queue&);
std::unique_ptr<LibraryOp> make_matmul(const Attributes&, Queue&);
std::unique_ptr<LibraryOp> make_convolution(const Attributes&, Queue&);
std::unique_ptr<LibraryOp> make_convolution_weights(const Attributes&, Queue&);
std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&, Queue&);
std::unique_ptr<LibraryOp> make_complex_parts(const Attributes&, Queue&);
/// q[B, H, S, D], k[B, G, T, D], v[B, G, T, E], mask? (added, broadcast to [B, H, S, T]) -> y[B, H, S, E], the
/// logarithms of the queries' sums[B, H, S] in float32 where asked for. Attributes `scale`, `causal`, `has_mask`.
/// float16 and bfloat16.
std::unique_ptr<LibraryOp> make_attention(const Attributes&, Queue&);
/// Of attention without a mask: dy[B, H, S, E], q, k, v, y, the logarithms -> dq, dk, dv. Attributes `scale`, `causal`.
/// What is added up for dq may come in another order from run to run.
std::unique_ptr<LibraryOp> make_attention_backward(const Attributes&, Queue&);

}  // namespace coil::runtime::cuda
