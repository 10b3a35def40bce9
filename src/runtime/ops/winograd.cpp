// The products of Winograd's minimal filtering F(m x m, 3 x 3), between the transforms that the compiler makes loops of
// (passes/loop/winograd.h).
#include <cstring>

#include "library_ops/products.h"
#include "runtime/ops/convolution.h"
#include "runtime/ops/gemm.h"
#include "runtime/ops/staging.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using library_ops::winograd_products::kName;
using library_ops::winograd_products::kPadding;
using library_ops::winograd_products::kPaddingEnd;
using library_ops::winograd_products::kRecover;

constexpr std::int64_t kWindow = 3;

class WinogradProducts : public LibraryOp {
 public:
  explicit WinogradProducts(const Attributes& a)
      : padding_(per_dimension(a, kPadding, 2, kName)),
        padding_end_(a.contains(kPaddingEnd.name) ? per_dimension(a, kPaddingEnd, 2, kName) : padding_),
        recover_(read(a, kRecover)),
        square_(static_cast<std::int64_t>(recover_.size()) / kWindow),
        products_(make_matmul({})) {
    if (square_ < kWindow || square_ * kWindow != static_cast<std::int64_t>(recover_.size()))
      fail("winograd_products: a matrix of {} numbers gives no windows of three", recover_.size());
  }

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    bool good = inputs.size() == 4 && outputs.size() == 1;
    for (std::size_t i = 0; good && i < 3; ++i) good = inputs[i].dtype == DType::F32;
    good = good && inputs[0].sizes.size() == 3 && inputs[1].sizes.size() == 3 && inputs[2].sizes.size() == 4 &&
           inputs[3].dtype == DType::I32 && outputs[0].dtype == DType::F32;
    if (!good)
      fail(
          "winograd_products takes two stacks of matrices, the convolution's input and a flag, and gives a stack of "
          "matrices");
    weights_ = inputs[1];
    x_ = inputs[2];
    const std::int64_t results = weights_.sizes[2], tile = square_ - kWindow + 1, terms = square_ * square_;
    y_ = {DType::F32,
          {x_.sizes[0], results, x_.sizes[2] + padding_[0] + padding_end_[0] - kWindow + 1,
           x_.sizes[3] + padding_[1] + padding_end_[1] - kWindow + 1},
          {}};
    y_.strides = {y_.sizes[2] * y_.sizes[3] * results, 1, y_.sizes[3] * results, results};
    const std::int64_t tiles = x_.sizes[0] * ((y_.sizes[2] + tile - 1) / tile) * ((y_.sizes[3] + tile - 1) / tile);
    const BoundView& m = outputs[0];
    if (weights_.sizes[0] != terms || m.sizes != Sizes{terms, tiles, results})
      fail("winograd_products: m is [{}] for an input of [{}]", fmt::join(m.sizes, ", "), fmt::join(x_.sizes, ", "));
    if (numel(m.sizes) > 0 && m.strides != dense_view(DType::F32, m.sizes).strides)
      fail("winograd_products: m must be dense");
    products_->prepare(inputs.first(2), outputs);
    exact_.reset();
  }

  std::size_t workspace_bytes() const override { return products_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::int32_t flag = 0;
    std::memcpy(&flag, inputs[3], sizeof flag);
    if (flag != 0) return products_->run(inputs.first(2), outputs, workspace);
    if (!exact_) {
      exact_ = make_convolution({{"padding", padding_}, {"padding_end", padding_end_}});
      exact_weights_ = windows(static_cast<const float*>(inputs[1]));
      const BoundView operands[] = {x_, dense_view(DType::F32, exact_weights_.sizes)};
      exact_->prepare(operands, {&y_, 1});
      exact_workspace_ = Storage::allocate(std::max<std::size_t>(exact_->workspace_bytes(), 1));
    }
    const void* operands[] = {inputs[2], exact_weights_.bytes()};
    exact_->run(operands, outputs, exact_workspace_.data.get());
  }

 private:
  /// The windows that u was made of, [O, C, 3, 3].
  Tensor windows(const float* u) const {
    const std::int64_t channels = weights_.sizes[1], results = weights_.sizes[2];
    Tensor made = Tensor::empty(DType::F32, {results, channels, kWindow, kWindow});
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t o = 0; o < results; ++o)
        for (std::int64_t a = 0; a < kWindow; ++a)
          for (std::int64_t b = 0; b < kWindow; ++b) {
            double sum = 0;
            for (std::int64_t i = 0; i < square_; ++i)
              for (std::int64_t j = 0; j < square_; ++j)
                if (const double factor = recover(a, i) * recover(b, j); factor != 0)
                  sum += factor * double{u[(square_ * i + j) * weights_.strides[0] + c * weights_.strides[1] +
                                           o * weights_.strides[2]]};
            made.data<float>()[((o * channels + c) * kWindow + a) * kWindow + b] = static_cast<float>(sum);
          }
    return made;
  }

  double recover(std::int64_t row, std::int64_t column) const {
    return recover_[static_cast<std::size_t>(row * square_ + column)];
  }

  Sizes padding_, padding_end_;
  std::vector<double> recover_;
  std::int64_t square_;
  std::unique_ptr<LibraryOp> products_;
  BoundView weights_, x_, y_;
  std::unique_ptr<LibraryOp> exact_;  ///< made when it is first needed: few programs ever see a NaN
  Tensor exact_weights_;
  Storage exact_workspace_;
};

const DefineLibraryOps kWinograd({{kName, call_site<WinogradProducts>}});

}  // namespace

}  // namespace coil::runtime
