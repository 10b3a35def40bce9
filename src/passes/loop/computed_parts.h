// What is computed of a concatenation alone is computed where its parts are made.
#pragma once
#include "ir/ir.h"

namespace coil::ir {

/// A buffer that loops store part by part, and that one loop alone reads, element by element, is not made: each part of
/// what that loop computes is computed by the loop that made the part. A cast of joined features to 16 bits so needs no
/// memory for them as they were. Not where a part is a copy of what a library call made, which may come to lie there
/// without the copy, and not where the loop reads what other loops make, with which it may share a kernel.
void compute_in_parts(Graph&);

}  // namespace coil::ir
