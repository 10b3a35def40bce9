#include "runtime/grouped_matmul.h"

#include <algorithm>
#include <cstring>

#include "runtime/gemm.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// How many rows a group has is known when it runs, so that products of 64, 32, … and 1 rows are prepared, of which any number of rows is made up.
class GroupedMatmul : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    if (inputs.size() != 3 || outputs.size() != 1) fail("grouped_matmul takes x, matrices and offsets");
    x_ = inputs[0], w_ = inputs[1], offsets_ = inputs[2], y_ = outputs[0];
    const bool good = x_.sizes.size() == 2 && w_.sizes.size() == 3 && offsets_.sizes == Sizes{w_.sizes[0]} && y_.sizes == Sizes{x_.sizes[0], w_.sizes[2]} && x_.sizes[1] == w_.sizes[1];
    if (!good) fail("grouped_matmul: sizes [{}], [{}] and [{}] do not give [{}]", fmt::join(x_.sizes, ", "), fmt::join(w_.sizes, ", "), fmt::join(offsets_.sizes, ", "), fmt::join(y_.sizes, ", "));
    if (offsets_.dtype != DType::I32 && offsets_.dtype != DType::I64) fail("grouped_matmul takes offsets of int32 or int64");
    products_.clear();
    workspace_ = 0;
    const BoundView matrix{w_.dtype, {w_.sizes[1], w_.sizes[2]}, {w_.strides[1], w_.strides[2]}};
    for (std::int64_t rows = 64; rows > 0; rows /= 2) {
      if (rows > x_.sizes[0]) continue;
      auto of_rows = [&](const BoundView& v) { return BoundView{v.dtype, {rows, v.sizes[1]}, v.strides}; };
      const BoundView in[] = {of_rows(x_), matrix}, out[] = {of_rows(y_)};
      auto op = make_matmul({});
      op->prepare(in, out);
      workspace_ = std::max(workspace_, op->workspace_bytes());
      products_.emplace_back(rows, std::move(op));
    }
  }

  std::size_t workspace_bytes() const override { return workspace_; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::int64_t row = 0;
    for (std::int64_t group = 0; group < w_.sizes[0]; ++group) {
      const std::int64_t end = offset(inputs[2], group);
      if (end < row || end > x_.sizes[0]) fail("grouped_matmul: offset {} of group {} is not between {} and {}", end, group, row, x_.sizes[0]);
      const void* matrix = at(inputs[1], w_, group);
      for (const auto& [rows, op] : products_)
        for (; end - row >= rows; row += rows) {
          const void* in[] = {at(inputs[0], x_, row), matrix};
          void* out[] = {const_cast<void*>(at(outputs[0], y_, row))};
          op->run(in, out, workspace);
        }
    }
    for (; row < y_.sizes[0]; ++row)
      for (std::int64_t n = 0; n < y_.sizes[1]; ++n) std::memset(static_cast<std::byte*>(const_cast<void*>(at(outputs[0], y_, row))) + n * y_.strides[1] * item(y_), 0, size_of(y_.dtype));
  }

 private:
  static std::int64_t item(const BoundView& v) { return static_cast<std::int64_t>(size_of(v.dtype)); }
  static const void* at(const void* data, const BoundView& v, std::int64_t i) { return static_cast<const std::byte*>(data) + i * v.strides[0] * item(v); }

  std::int64_t offset(const void* data, std::int64_t group) const {
    if (offsets_.dtype == DType::I64) return *static_cast<const std::int64_t*>(at(data, offsets_, group));
    return *static_cast<const std::int32_t*>(at(data, offsets_, group));
  }

  BoundView x_, w_, offsets_, y_;
  std::vector<std::pair<std::int64_t, std::unique_ptr<LibraryOp>>> products_;  ///< by rows, most first
  std::size_t workspace_ = 0;
};

}  // namespace

std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&) { return std::make_unique<GroupedMatmul>(); }

}  // namespace coil::runtime
