// The library operation `grouped_matmul`: x[S, K], w[G, K, N], offsets[G] -> y[S, N]. Rows up to offsets[0] meet w[0],
// from there up to offsets[1] w[1], and so on; rows behind the last offset are zero.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/device/library.h"

namespace coil::runtime {

struct GroupedProblem {
  BoundView x, w, offsets, y;

  /// Where the rows of a group end that begin at `row`; `offsets` holds the offsets, on the host. Throws Error where
  /// they do not ascend.
  std::int64_t end_of(std::int64_t group, std::int64_t row, const Tensor& offsets) const;
};

/// Throws Error where sizes do not fit.
GroupedProblem grouped_problem(std::span<const BoundView> inputs, std::span<const BoundView> outputs);

/// How many rows a group has is known when it runs, so that products of a power of two of rows are prepared, of which
/// any number of rows is made up.
class GroupedProducts {
 public:
  /// `most`: rows of the largest product; a power of two, or 0 where there are no rows.
  void prepare(const GroupedProblem&, std::int64_t most,
               const std::function<std::unique_ptr<LibraryOp>()>& make_matmul);
  std::size_t workspace_bytes() const { return workspace_; }
  /// `offsets` on the host; else as LibraryOp::run takes them. Returns the first row that no group has.
  std::int64_t run(const GroupedProblem&, const Tensor& offsets, std::span<const void* const> inputs,
                   std::span<void* const> outputs, void* workspace) const;

 private:
  std::vector<std::pair<std::int64_t, std::unique_ptr<LibraryOp>>> products_;  ///< by rows, most first
  std::size_t workspace_ = 0;
};

/// The rows of a matrix from `row` on.
const void* row_at(const void* data, const BoundView&, std::int64_t row);
/// The view of a matrix's first `rows` rows.
BoundView rows_of(const BoundView&, std::int64_t rows);

}  // namespace coil::runtime
