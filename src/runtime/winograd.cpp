#include "runtime/winograd.h"

#include <cstring>

#include "runtime/attributes.h"
#include "runtime/convolution.h"
#include "runtime/gemm.h"
#include "runtime/staging.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

constexpr std::int64_t kTile = 2, kWindow = 3, kTerms = 16;

class WinogradProducts : public LibraryOp {
 public:
  explicit WinogradProducts(const Attributes& a) : padding_(ints_attribute(a, "padding", {0, 0})), padding_end_(ints_attribute(a, "padding_end", padding_)), products_(make_matmul({})) {
    if (padding_.size() != 2 || padding_end_.size() != 2) fail("winograd_products: two dimensions are padded");
  }

  void prepare(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    bool good = inputs.size() == 4 && outputs.size() == 1;
    for (std::size_t i = 0; good && i < 3; ++i) good = inputs[i].dtype == DType::F32;
    good = good && inputs[0].sizes.size() == 3 && inputs[1].sizes.size() == 3 && inputs[2].sizes.size() == 4 && inputs[3].dtype == DType::I32 && outputs[0].dtype == DType::F32;
    if (!good) fail("winograd_products takes two stacks of matrices, the convolution's input and a flag, and gives a stack of matrices");
    weights_ = inputs[1];
    x_ = inputs[2];
    m_ = outputs[0];
    const std::int64_t results = weights_.sizes[2];
    y_ = {DType::F32, {x_.sizes[0], results, x_.sizes[2] + padding_[0] + padding_end_[0] - kWindow + 1, x_.sizes[3] + padding_[1] + padding_end_[1] - kWindow + 1}, {}};
    y_.strides = {y_.sizes[2] * y_.sizes[3] * results, 1, y_.sizes[3] * results, results};
    if (weights_.sizes[0] != kTerms || m_.sizes != Sizes{kTerms, x_.sizes[0] * down() * across(), results}) fail("winograd_products: m is [{}] for an input of [{}]", fmt::join(m_.sizes, ", "), fmt::join(x_.sizes, ", "));
    products_->prepare(inputs.first(2), outputs);
    exact_.reset();
  }

  std::size_t workspace_bytes() const override { return products_->workspace_bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    std::int32_t flag = 0;
    std::memcpy(&flag, inputs[3], sizeof flag);
    if (flag != 0) return products_->run(inputs.first(2), outputs, workspace);
    compute_exactly(inputs, static_cast<float*>(outputs[0]));
  }

 private:
  std::int64_t down() const { return (y_.sizes[2] + kTile - 1) / kTile; }
  std::int64_t across() const { return (y_.sizes[3] + kTile - 1) / kTile; }

  /// The windows that u was made of, [O, C, 3, 3]: terms of G g Gt that hold one number, or two whose difference is one.
  Tensor windows(const float* u) const {
    const std::int64_t channels = weights_.sizes[1], results = weights_.sizes[2];
    Tensor made = Tensor::empty(DType::F32, {results, channels, kWindow, kWindow});
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t o = 0; o < results; ++o) {
        auto term = [&](std::int64_t i, std::int64_t j) { return u[(4 * i + j) * weights_.strides[0] + c * weights_.strides[1] + o * weights_.strides[2]]; };
        auto column = [&](std::int64_t i, std::int64_t j) { return j == 0 ? term(i, 0) : j == 1 ? term(i, 1) - term(i, 2) : term(i, 3); };
        for (std::int64_t j = 0; j < kWindow; ++j) {
          float* g = made.data<float>() + (o * channels + c) * kWindow * kWindow + j;
          g[0] = column(0, j);
          g[kWindow] = column(1, j) - column(2, j);
          g[2 * kWindow] = column(3, j);
        }
      }
    return made;
  }

  void compute_exactly(std::span<const void* const> inputs, float* m) {
    if (!exact_) {
      exact_ = make_convolution({{"padding", padding_}, {"padding_end", padding_end_}});
      exact_weights_ = windows(static_cast<const float*>(inputs[1]));
      const BoundView operands[] = {x_, dense_view(DType::F32, exact_weights_.sizes)};
      exact_->prepare(operands, {&y_, 1});
      results_ = Storage::allocate(static_cast<std::size_t>(numel(y_.sizes)) * sizeof(float));
      exact_workspace_ = Storage::allocate(std::max<std::size_t>(exact_->workspace_bytes(), 1));
    }
    const void* operands[] = {inputs[2], exact_weights_.bytes()};
    void* made[] = {results_.data.get()};
    exact_->run(operands, made, exact_workspace_.data.get());
    scatter(static_cast<const float*>(made[0]), m);
  }

  /// Each result to the term that is in it alone, with the sign that it has there.
  void scatter(const float* y, float* m) const {
    const std::int64_t tiles = m_.sizes[1], results = m_.sizes[2];
    for (std::int64_t term = 0; term < kTerms; ++term)
      for (std::int64_t t = 0; t < tiles; ++t)
        for (std::int64_t o = 0; o < results; ++o) m[term * m_.strides[0] + t * m_.strides[1] + o * m_.strides[2]] = 0;
    for (std::int64_t n = 0; n < y_.sizes[0]; ++n)
      for (std::int64_t h = 0; h < y_.sizes[2]; ++h)
        for (std::int64_t w = 0; w < y_.sizes[3]; ++w) {
          const std::int64_t a = h % kTile, b = w % kTile, term = 12 * a + 3 * b, tile = (n * down() + h / kTile) * across() + w / kTile;
          float* to = m + term * m_.strides[0] + tile * m_.strides[1];
          for (std::int64_t o = 0; o < results; ++o) to[o * m_.strides[2]] = a == b ? *y++ : -*y++;
        }
  }

  Sizes padding_, padding_end_;
  std::unique_ptr<LibraryOp> products_;
  BoundView weights_, x_, m_, y_;
  std::unique_ptr<LibraryOp> exact_;  ///< made when it is first needed: few programs ever see a NaN
  Tensor exact_weights_;
  Storage results_, exact_workspace_;
};

}  // namespace

std::unique_ptr<LibraryOp> make_winograd_products(const Attributes& attributes) { return std::make_unique<WinogradProducts>(attributes); }

}  // namespace coil::runtime
