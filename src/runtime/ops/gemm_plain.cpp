// Matrix products by loops: for integers, f64, and builds without oneDNN. Everything is first made dense in the type of
// the loops.
#include <algorithm>

#include "runtime/device/threads.h"
#include "runtime/ops/gemm.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// y[i, :] = sum_k a[i, k] * b[k, :], rows in the order that streams b.
template <class T>
void multiply_row(T* y, const T* a, const T* b, std::int64_t n, std::int64_t k) {
  std::fill(y, y + n, T{});
  for (std::int64_t j = 0; j < k; ++j) {
    const T factor = a[j];
    const T* row = b + j * n;
    for (std::int64_t i = 0; i < n; ++i) y[i] += factor * row[i];
  }
}

template <class T>
class PlainGemm : public PreparedCall {
 public:
  PlainGemm(const GemmProblem& p, DType loop) : problem_(p) {
    a_ = stage(p.a, loop);
    b_ = stage(p.b, loop);
    if (p.bias) bias_ = stage(*p.bias, loop);
    for (const GemmOperand& o : p.operands) operands_.push_back(stage(o, loop));
    const bool load =
        std::any_of(p.post.begin(), p.post.end(), [](const PostOp& op) { return op.kind == PostOp::Kind::Sum; });
    const BoundView& y = p.y.given;
    if (load) old_ = staging_.old_output(p.y.index, y, dense_view(loop, y.sizes));
    y_ = staging_.output(p.y.index, y, dense_view(loop, y.sizes), false);
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    const GemmProblem& p = problem_;
    const bool one_b = p.b.sizes.size() == 2;
    parallel_ranges(p.batch * p.m, 1 + 16384 / (p.n * p.k + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* b = pointer(b_) + (one_b ? 0 : row / p.m * p.k * p.n);
        T* y = pointer(y_) + row * p.n;
        multiply_row(y, pointer(a_) + row * p.k, b, p.n, p.k);
        finish_row(y, row);
      }
    });
    staging_.store(outputs, pointers_);
  }

 private:
  Staging::Operand stage(const GemmOperand& o, DType loop) {
    return staging_.input(o.index, o.given, dense_view(loop, o.given.sizes));
  }
  T* pointer(Staging::Operand o) const { return static_cast<T*>(pointers_[o]); }

  void finish_row(T* y, std::int64_t row) const {
    const std::int64_t n = problem_.n;
    if (problem_.bias)
      for (std::int64_t i = 0; i < n; ++i) y[i] += pointer(bias_)[i];
    std::size_t operand = 0;
    for (const PostOp& op : problem_.post) {
      const T* other = nullptr;
      if (op.takes_operand()) other = pointer(operands_[operand++]) + row * n;
      if (op.kind == PostOp::Kind::Sum) other = pointer(old_) + row * n;
      for (std::int64_t i = 0; i < n; ++i) {
        if (op.kind == PostOp::Kind::Mul)
          y[i] *= other[i];
        else if (other)
          y[i] += other[i];
        else
          y[i] = static_cast<T>(apply_post_op(op, static_cast<double>(y[i])));
      }
    }
  }

  GemmProblem problem_;
  Staging staging_;
  Staging::Operand a_ = 0, b_ = 0, y_ = 0, bias_ = 0, old_ = 0;
  std::vector<Staging::Operand> operands_;
  std::vector<void*> pointers_;
};

}  // namespace

std::unique_ptr<PreparedCall> make_plain_gemm(const GemmProblem& p) {
  if (!p.packed_desc.empty()) fail("a weight packed for oneDNN needs a runtime with the oneDNN that packed it");
  switch (loop_dtype(p.y.given.dtype)) {
    case DType::F64: return std::make_unique<PlainGemm<double>>(p, DType::F64);
    case DType::I64: return std::make_unique<PlainGemm<std::int64_t>>(p, DType::I64);
    default: return std::make_unique<PlainGemm<float>>(p, DType::F32);
  }
}

}  // namespace coil::runtime
