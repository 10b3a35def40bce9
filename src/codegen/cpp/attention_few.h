// Attention of few queries on the CPU: keys and values are read where they lie, once for all queries that share them.
#pragma once
#include <string>
#include <string_view>

#include "codegen/cpp/attention.h"

namespace coil::codegen {

/// Queries of a head up to which the kernel is the faster one (a vector of queries would have hardly any).
inline constexpr long kFewQueries = 4;

/// Rows that meet a key at one time, of `rows` that share it.
int attention_few_rows(const Toolchain&, const AttentionSpec&, long rows);

/// As attention_kernel, with the same arguments, for calls that are not causal and give no logarithms, and in which the
/// dims of q, k, v and of the result lie side by side. The extent is Batch * KeyHeads * ceil(Heads / KeyHeads * Queries
/// / attention_few_rows(…)).
std::string attention_few_kernel(const Toolchain&, const AttentionSpec&, long rows, std::string_view symbol);

}  // namespace coil::codegen
