// The gradients of attention on the CPU, with no matrix of all scores: one kernel for those of queries, keys and
// values.
#pragma once
#include <string>
#include <string_view>

#include "codegen/cpp/attention.h"

namespace coil::codegen {

/// The text of `extern "C" void SYMBOL(void* const* buffers, const long* scalars, long begin, long end)`, to be
/// compiled behind `prelude(lanes, prelude_names(text))`. A unit of work is a head of keys, so that the extent is
/// batches times heads of keys. Buffers are the operands and results of attention_backward (library_ops/attention.cpp),
/// in that order. Scalars: heads, heads of keys, queries, keys; then four strides of each buffer, which count elements,
/// over (batch, head, position, dim).
///
/// The gradient of the queries is f32 whatever the operands are; it is added up over blocks of keys.
std::string attention_gradient_kernel(const Toolchain&, const AttentionSpec&, std::string_view symbol);

}  // namespace coil::codegen
