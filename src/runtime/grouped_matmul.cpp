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
    p_ = grouped_problem(inputs, outputs);
    products_.clear();
    workspace_ = 0;
    const BoundView matrix{p_.w.dtype, {p_.w.sizes[1], p_.w.sizes[2]}, {p_.w.strides[1], p_.w.strides[2]}};
    for (std::int64_t rows = 64; rows > 0; rows /= 2) {
      if (rows > p_.x.sizes[0]) continue;
      auto of_rows = [&](const BoundView& v) { return BoundView{v.dtype, {rows, v.sizes[1]}, v.strides}; };
      const BoundView in[] = {of_rows(p_.x), matrix}, out[] = {of_rows(p_.y)};
      auto op = make_matmul({});
      op->prepare(in, out);
      workspace_ = std::max(workspace_, op->workspace_bytes());
      products_.emplace_back(rows, std::move(op));
    }
  }

  std::size_t workspace_bytes() const override { return workspace_; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    Storage borrowed;
    borrowed.data = std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(const_cast<void*>(inputs[2])));
    const Tensor offsets{std::move(borrowed), p_.offsets.dtype, p_.offsets.sizes, p_.offsets.strides, 0};
    std::int64_t row = 0;
    for (std::int64_t group = 0; group < p_.w.sizes[0]; ++group) {
      const std::int64_t end = p_.end_of(group, row, offsets);
      const void* matrix = at(inputs[1], p_.w, group);
      for (const auto& [rows, op] : products_)
        for (; end - row >= rows; row += rows) {
          const void* in[] = {at(inputs[0], p_.x, row), matrix};
          void* out[] = {const_cast<void*>(at(outputs[0], p_.y, row))};
          op->run(in, out, workspace);
        }
    }
    for (; row < p_.y.sizes[0]; ++row)
      for (std::int64_t n = 0; n < p_.y.sizes[1]; ++n) std::memset(static_cast<std::byte*>(const_cast<void*>(at(outputs[0], p_.y, row))) + n * p_.y.strides[1] * item(p_.y), 0, size_of(p_.y.dtype));
  }

 private:
  static std::int64_t item(const BoundView& v) { return static_cast<std::int64_t>(size_of(v.dtype)); }
  static const void* at(const void* data, const BoundView& v, std::int64_t i) { return static_cast<const std::byte*>(data) + i * v.strides[0] * item(v); }

  GroupedProblem p_;
  std::vector<std::pair<std::int64_t, std::unique_ptr<LibraryOp>>> products_;  ///< by rows, most first
  std::size_t workspace_ = 0;
};

}  // namespace

GroupedProblem grouped_problem(std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  if (inputs.size() != 3 || outputs.size() != 1) fail("grouped_matmul takes x, matrices and offsets");
  GroupedProblem p{inputs[0], inputs[1], inputs[2], outputs[0]};
  const bool good = p.x.sizes.size() == 2 && p.w.sizes.size() == 3 && p.offsets.sizes == Sizes{p.w.sizes[0]} && p.y.sizes == Sizes{p.x.sizes[0], p.w.sizes[2]} && p.x.sizes[1] == p.w.sizes[1];
  if (!good) fail("grouped_matmul: sizes [{}], [{}] and [{}] do not give [{}]", fmt::join(p.x.sizes, ", "), fmt::join(p.w.sizes, ", "), fmt::join(p.offsets.sizes, ", "), fmt::join(p.y.sizes, ", "));
  if (p.offsets.dtype != DType::I32 && p.offsets.dtype != DType::I64) fail("grouped_matmul takes offsets of int32 or int64");
  return p;
}

std::int64_t GroupedProblem::end_of(std::int64_t group, std::int64_t row, const Tensor& offsets) const {
  const std::int64_t at = group * offsets.strides[0], end = offsets.dtype == DType::I64 ? offsets.data<std::int64_t>()[at] : offsets.data<std::int32_t>()[at];
  if (end < row || end > x.sizes[0]) fail("grouped_matmul: offset {} of group {} is not between {} and {}", end, group, row, x.sizes[0]);
  return end;
}

std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&) { return std::make_unique<GroupedMatmul>(); }

}  // namespace coil::runtime
