#include "runtime/ops/grouped_matmul.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "library_ops/products.h"
#include "runtime/ops/gemm.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

class GroupedMatmul : public LibraryOp {
 public:
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    p_ = grouped_problem(inputs, outputs);
    products_.prepare(p_,
                      std::min<std::int64_t>(
                          64, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(p_.x.sizes[0])))),
                      [] { return make_matmul({}); });
  }

  std::size_t workspace_bytes() const override { return products_.workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    Storage borrowed;
    borrowed.data =
        std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(const_cast<void*>(inputs[2])));
    const Tensor offsets{std::move(borrowed), p_.offsets.dtype, p_.offsets.sizes, p_.offsets.strides, 0};
    for (std::int64_t row = products_.run(p_, offsets, inputs, outputs, workspace); row < p_.y.sizes[0]; ++row)
      for (std::int64_t n = 0; n < p_.y.sizes[1]; ++n)
        std::memset(static_cast<std::byte*>(const_cast<void*>(row_at(outputs[0], p_.y, row))) +
                        n * p_.y.strides[1] * static_cast<std::int64_t>(size_of(p_.y.dtype)),
                    0, size_of(p_.y.dtype));
  }

 private:
  GroupedProblem p_;
  GroupedProducts products_;
};

}  // namespace

GroupedProblem grouped_problem(std::span<const BoundView> inputs, std::span<const BoundView> outputs) {
  if (inputs.size() != 3 || outputs.size() != 1) fail("grouped_matmul takes x, matrices and offsets");
  GroupedProblem p{inputs[0], inputs[1], inputs[2], outputs[0]};
  const bool good = p.x.sizes.size() == 2 && p.w.sizes.size() == 3 && p.offsets.sizes == Sizes{p.w.sizes[0]} &&
                    p.y.sizes == Sizes{p.x.sizes[0], p.w.sizes[2]} && p.x.sizes[1] == p.w.sizes[1];
  if (!good)
    fail("grouped_matmul: sizes [{}], [{}] and [{}] do not give [{}]", fmt::join(p.x.sizes, ", "),
         fmt::join(p.w.sizes, ", "), fmt::join(p.offsets.sizes, ", "), fmt::join(p.y.sizes, ", "));
  if (p.offsets.dtype != DType::I32 && p.offsets.dtype != DType::I64)
    fail("grouped_matmul takes offsets of int32 or int64");
  return p;
}

std::int64_t GroupedProblem::end_of(std::int64_t group, std::int64_t row, const Tensor& offsets) const {
  const std::int64_t at = group * offsets.strides[0], end = offsets.dtype == DType::I64
                                                                ? offsets.data<std::int64_t>()[at]
                                                                : offsets.data<std::int32_t>()[at];
  if (end < row || end > x.sizes[0])
    fail("grouped_matmul: offset {} of group {} is not between {} and {}", end, group, row, x.sizes[0]);
  return end;
}

void GroupedProducts::prepare(const GroupedProblem& p, std::int64_t most,
                              const std::function<std::unique_ptr<LibraryOp>()>& make_matmul) {
  products_.clear();
  workspace_ = 0;
  const BoundView matrix{p.w.dtype, {p.w.sizes[1], p.w.sizes[2]}, {p.w.strides[1], p.w.strides[2]}};
  for (std::int64_t rows = most; rows > 0; rows /= 2) {
    const BoundView in[] = {rows_of(p.x, rows), matrix}, out[] = {rows_of(p.y, rows)};
    auto op = make_matmul();
    op->prepare(in, out);
    workspace_ = std::max(workspace_, op->workspace_bytes());
    products_.emplace_back(rows, std::move(op));
  }
}

std::int64_t GroupedProducts::run(const GroupedProblem& p, const Tensor& offsets, std::span<const void* const> inputs,
                                  std::span<void* const> outputs, void* workspace) const {
  std::int64_t row = 0;
  for (std::int64_t group = 0; group < p.w.sizes[0]; ++group) {
    const std::int64_t end = p.end_of(group, row, offsets);
    const void* matrix = row_at(inputs[1], p.w, group);
    for (const auto& [rows, op] : products_)
      for (; end - row >= rows; row += rows) {
        const void* in[] = {row_at(inputs[0], p.x, row), matrix};
        void* out[] = {const_cast<void*>(row_at(outputs[0], p.y, row))};
        op->run(in, out, workspace);
      }
  }
  return row;
}

const void* row_at(const void* data, const BoundView& v, std::int64_t row) {
  return static_cast<const std::byte*>(data) + row * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
}

BoundView rows_of(const BoundView& v, std::int64_t rows) { return {v.dtype, {rows, v.sizes[1]}, v.strides}; }

namespace {

const DefineLibraryOps kGroupedMatmul({{library_ops::grouped_matmul::kName, call_site<GroupedMatmul>}});

}  // namespace

}  // namespace coil::runtime
