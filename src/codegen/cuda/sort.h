// `sort` and `topk` as kernels: a block sorts a row, in any of the languages that this folder writes.
#pragma once
#include "codegen/cuda/radix.h"

namespace coil::codegen {

/// Whether `sort_kernel` makes kernels of operations of this name.
inline bool is_sort(std::string_view op) {
  using namespace library_ops::sorting;
  return op == kSort || op == kTopk || op == kTiles || op == kMerge || is_radix(op);
}
/// Stable; NaN is greater than every number. Rows that fit are sorted in shared memory, longer ones in the results' own
/// memory; of long rows `topk` keeps the best k while it walks over them (k up to half of what fits).
Kernel sort_kernel(const Dialect&, ir::Graph&, const ir::Extern& call, const target::Target&);

}  // namespace coil::codegen
