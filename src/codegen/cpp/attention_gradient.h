// The gradients of attention on the CPU, with no matrix of all scores: one kernel for those of queries, keys and
// values.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "codegen/cpp/attention.h"

namespace coil::codegen {

/// The text of `extern "C" void SYMBOL(void* const* buffers, const long* scalars, long begin, long end)`, to be
/// compiled behind `prelude(lanes, prelude_names(text))`. A unit of work is a head of keys, so that the extent is
/// batches times heads of keys. `scalars` are called Heads, KeyHeads, Queries, Keys, and then SlopeBatchStride,
/// SlopeHeadStride, SlopeStride, SlopeDimStride, and so on for each of `operands` (attention_gradient_operands);
/// strides count elements.
///
/// The gradient of the queries is f32 whatever the operands are; it is added up over blocks of keys.
std::string attention_gradient_kernel(const Toolchain&, const AttentionSpec&, std::string_view symbol);

/// The names of the kernel's buffers, in order: those of attention_backward in library_ops/attention.cpp.
std::vector<std::string_view> attention_gradient_operands(bool masked);

}  // namespace coil::codegen
