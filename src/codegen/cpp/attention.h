// Fused attention on the CPU: softmax(q k' scale + mask) v for blocks of queries, with no full score matrix.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "codegen/cpp/toolchain.h"
#include "tensor/dtype.h"

namespace coil::codegen {

/// What is fixed when the kernel is written; sizes and strides are arguments of the call.
struct AttentionSpec {
  DType dtype = DType::F32;   ///< of q, k, v and the output: f32, bf16 or f16
  int head_dim = 64;          ///< of q and k
  int value_dim = 64;         ///< of v and the output
  std::optional<DType> mask;  ///< Bool (false: masked) or a floating type (added to the scores)
  bool causal = false;        ///< key j is seen by queries i >= j, as torch's is_causal (aligned at the top left)
  double scale = 0.125;
  bool log_sums = false;  ///< also gives the logarithm of each query's sum of exponentials, f32, for backward
  bool operator==(const AttentionSpec&) const = default;
};

/// The arguments of the kernel, in `scalars`. Strides count elements and may be 0; `mask` ones are over (batch, head,
/// query, key).
enum class AttentionScalar {
  Batch,
  Heads,
  KeyHeads,
  Queries,
  Keys,
  QueryBatchStride,
  QueryHeadStride,
  QueryStride,
  QueryDimStride,
  KeyBatchStride,
  KeyHeadStride,
  KeyStride,
  KeyDimStride,
  ValueBatchStride,
  ValueHeadStride,
  ValueStride,
  ValueDimStride,
  OutBatchStride,
  OutHeadStride,
  OutStride,
  OutDimStride,
  MaskBatchStride,
  MaskHeadStride,
  MaskQueryStride,
  MaskKeyStride,  // only with a mask
  Count
};
// With log_sums three more follow, right behind those that there are: the strides of the logarithms over (batch, head,
// query).

/// Queries in one unit of work.
int attention_block(const Toolchain&);

/// The text of `extern "C" void SYMBOL(void* const* buffers, const long* scalars, long begin, long end)`, to be
/// compiled behind `prelude(lanes, prelude_names(text))`. Buffers: q, k, v, the mask if there is one, out, the
/// logarithms if asked for. Heads is a multiple of KeyHeads (grouped-query attention: query head h reads key head h /
/// (Heads / KeyHeads)).
///
/// As in eager, a query with every key masked gives 0; scores, the softmax and sums are f32, and for bf16 the
/// probabilities are rounded to bf16 before they meet v. A kernel uses less than 1 MiB of its thread's stack for head
/// dims up to 256.
std::string attention_kernel(const Toolchain&, const AttentionSpec&, std::string_view symbol);

}  // namespace coil::codegen
