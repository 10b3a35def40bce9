// Sorting along one dimension: `sort` and `topk` (aten.sort.stable, aten.topk).
#pragma once
#include "runtime/device/library.h"

namespace coil::runtime {

/// x -> values, indices (i64). Attributes `dim`, `descending`. Always stable; NaN is greater than every number, as in
/// torch. The results may be shorter than x in `dim`: what stands from rank `first` on (default 0), or from the lower
/// middle of the row with `middle` = 1.
std::unique_ptr<LibraryOp> make_sort(const Attributes&);
/// x -> values, indices (i64), whose size in `dim` says how many are taken. Attributes `dim`, `largest` (default 1). In
/// order, ties by index.
std::unique_ptr<LibraryOp> make_topk(const Attributes&);

}  // namespace coil::runtime
