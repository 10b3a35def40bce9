// `grouped_matmul` by cuBLASLt: the host reads where groups end, then asks for their products.
#include "runtime/ops/grouped_matmul.h"

#include <algorithm>
#include <bit>

#include "library_ops/products.h"
#include "runtime/cuda/ops/staging.h"
#include "runtime/device/convert.h"
#include "runtime/device/library.h"
#include "support/error.h"

namespace coil::runtime::cuda {
namespace {

class GroupedMatmulOp : public LibraryOp {
 public:
  explicit GroupedMatmulOp(Queue& queue) : queue_(static_cast<CudaQueue&>(queue)) {}

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    p_ = grouped_problem(inputs, outputs);
    ends_ = Tensor::empty(p_.offsets.dtype, p_.offsets.sizes);
    products_.prepare(p_, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(p_.x.sizes[0]))),
                      [this] { return make_library_op(queue_, library_ops::matmul::kName, {}); });
  }

  std::size_t workspace_bytes() const override { return std::max(kZeros, products_.workspace_bytes()); }
  bool runs_on_host() const override { return true; }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    queue_.copy(ends_, tensor_at(queue_, inputs[2], p_.offsets));
    queue_.wait();
    const std::int64_t row = products_.run(p_, ends_, inputs, outputs, workspace);
    if (row == p_.y.sizes[0]) return;
    // Rows of no group are 0.
    queue_.driver().check(queue_.driver().fill_bytes(reinterpret_cast<Address>(workspace), 0, kZeros, queue_.stream()),
                          "fill memory");
    const BoundView rest = rows_of(p_.y, p_.y.sizes[0] - row);
    queue_.copy(tensor_at(queue_, row_at(outputs[0], p_.y, row), rest),
                tensor_at(queue_, workspace, {rest.dtype, rest.sizes, {0, 0}}));
  }

 private:
  static constexpr std::size_t kZeros = 256;  // bytes

  CudaQueue& queue_;
  GroupedProblem p_;
  Tensor ends_;  ///< on the host
  GroupedProducts products_;
};

const DefineLibraryOps kGroupedMatmul(DeviceType::CUDA,
                                      {{library_ops::grouped_matmul::kName, call_site_on<GroupedMatmulOp>}});

}  // namespace

}  // namespace coil::runtime::cuda
