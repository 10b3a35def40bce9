// `grouped_matmul` by cuBLASLt: the host reads where groups end, then asks for their products.
#include "runtime/grouped_matmul.h"

#include <algorithm>
#include <bit>

#include "runtime/convert.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/staging.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

/// Products of 1, 2, 4, … rows are prepared, of which any number of rows is made up.
class GroupedMatmulOp : public LibraryOp {
 public:
  explicit GroupedMatmulOp(Queue& queue) : queue_(static_cast<CudaQueue&>(queue)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    p_ = grouped_problem(inputs, outputs);
    products_.clear();
    workspace_ = kZeros;
    ends_ = Tensor::empty(p_.offsets.dtype, p_.offsets.sizes);
    const BoundView matrix{p_.w.dtype, {p_.w.sizes[1], p_.w.sizes[2]}, {p_.w.strides[1], p_.w.strides[2]}};
    for (auto rows = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(p_.x.sizes[0]))); rows > 0; rows /= 2) {
      const BoundView in[] = {rows_of(p_.x, rows), matrix}, out[] = {rows_of(p_.y, rows)};
      auto op = make_matmul({}, queue_);
      op->prepare(in, out);
      workspace_ = std::max(workspace_, op->workspace_bytes());
      products_.emplace_back(rows, std::move(op));
    }
  }

  std::size_t workspace_bytes() const override { return workspace_; }
  bool runs_on_host() const override { return true; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    queue_.copy(ends_, tensor_at(queue_, inputs[2], p_.offsets));
    queue_.wait();
    std::int64_t row = 0;
    for (std::int64_t group = 0; group < p_.w.sizes[0]; ++group) {
      const std::int64_t end = p_.end_of(group, row, ends_);
      const void* matrix = at(inputs[1], p_.w, group);
      for (const auto& [rows, op] : products_)
        for (; end - row >= rows; row += rows) {
          const void* in[] = {at(inputs[0], p_.x, row), matrix};
          void* out[] = {const_cast<void*>(at(outputs[0], p_.y, row))};
          op->run(in, out, workspace);
        }
    }
    if (row == p_.y.sizes[0]) return;
    // Rows of no group are 0.
    queue_.driver().check(queue_.driver().fill_bytes(reinterpret_cast<Address>(workspace), 0, kZeros, queue_.stream()), "fill memory");
    const BoundView rest = rows_of(p_.y, p_.y.sizes[0] - row);
    queue_.copy(tensor_at(queue_, at(outputs[0], p_.y, row), rest), tensor_at(queue_, workspace, {rest.dtype, rest.sizes, {0, 0}}));
  }

 private:
  static constexpr std::size_t kZeros = 256;  // bytes
  static BoundView rows_of(const BoundView& v, std::int64_t rows) { return {v.dtype, {rows, v.sizes[1]}, v.strides}; }
  static const void* at(const void* data, const BoundView& v, std::int64_t i) { return static_cast<const std::byte*>(data) + i * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype)); }

  CudaQueue& queue_;
  GroupedProblem p_;
  Tensor ends_;  ///< on the host
  std::vector<std::pair<std::int64_t, std::unique_ptr<LibraryOp>>> products_;  ///< by rows, most first
  std::size_t workspace_ = 0;
};

}  // namespace

std::unique_ptr<LibraryOp> make_grouped_matmul(const Attributes&, Queue& queue) { return std::make_unique<GroupedMatmulOp>(queue); }

}  // namespace coil::runtime::cuda
