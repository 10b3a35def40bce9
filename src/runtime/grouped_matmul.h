// The library operation `grouped_matmul`: x[S, K], w[G, K, N], offsets[G] -> y[S, N]. Rows up to offsets[0] meet w[0], from there up to offsets[1] w[1], and so on; rows behind the last offset are zero.
#pragma once
#include "runtime/library.h"

namespace coil::runtime {

struct GroupedProblem {
  BoundView x, w, offsets, y;

  /// Where the rows of a group end that begin at `row`; `offsets` holds the offsets, on the host. Throws Error where they do not ascend.
  std::int64_t end_of(std::int64_t group, std::int64_t row, const Tensor& offsets) const;
};

/// Throws Error where sizes do not fit.
GroupedProblem grouped_problem(std::span<const BoundView> inputs, std::span<const BoundView> outputs);

std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&);

}  // namespace coil::runtime
