#include "runtime/ops/convolution_weights.h"

#include <algorithm>
#include <array>

#include "library_ops/convolutions.h"
#include "runtime/device/threads.h"
#include "runtime/ops/onednn/onednn.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// By loops over three spatial dimensions; absent ones have size 1. Each thread has weights of its own.
template <class T>
class PlainWeightGradient : public PreparedCall {
 public:
  PlainWeightGradient(const WeightGradientProblem& p, DType loop) : p_(p) {
    in_.fill(1), out_.fill(1), kernel_.fill(1), stride_.fill(1), padding_.fill(0), dilation_.fill(1);
    for (std::size_t d = 0; d < p.spatial(); ++d) {
      const std::size_t at = 3 - p.spatial() + d;
      in_[at] = p.x.sizes[d + 2], out_[at] = p.dy.sizes[d + 2], kernel_[at] = p.dw.sizes[d + 2];
      stride_[at] = p.stride[d], padding_[at] = p.padding[d], dilation_[at] = p.dilation[d];
    }
    x_ = staging_.input(0, p.x, dense_view(loop, p.x.sizes));
    dy_ = staging_.input(1, p.dy, dense_view(loop, p.dy.sizes));
    dw_ = staging_.output(0, p.dw, dense_view(loop, p.dw.sizes), false);
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    parallel_ranges(numel(p_.dw.sizes), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) static_cast<T*>(pointers_[dw_])[i] = weight(i);
    });
    staging_.store(outputs, pointers_);
  }

 private:
  T weight(std::int64_t i) const {
    std::array<std::int64_t, 3> k{};
    for (std::size_t d = 3; d-- > 0; i /= kernel_[d]) k[d] = i % kernel_[d];
    const std::int64_t per_group = p_.dw.sizes[1], results = p_.dy.sizes[1], channels = p_.x.sizes[1];
    const std::int64_t o = i / per_group, c = o / (results / p_.groups) * per_group + i % per_group;
    const auto* x = static_cast<const T*>(pointers_[x_]);
    const auto* dy = static_cast<const T*>(pointers_[dy_]);
    T sum{};
    for (std::int64_t n = 0; n < p_.x.sizes[0]; ++n)
      for (std::int64_t a = 0; a < out_[0]; ++a)
        for (std::int64_t b = 0; b < out_[1]; ++b)
          for (std::int64_t e = 0; e < out_[2]; ++e) {
            const std::array<std::int64_t, 3> place = {a, b, e};
            std::int64_t offset = 0, y = 0;
            bool inside = true;
            for (std::size_t d = 0; d < 3; ++d) {
              const std::int64_t at = place[d] * stride_[d] - padding_[d] + k[d] * dilation_[d];
              inside = inside && at >= 0 && at < in_[d];
              offset = offset * in_[d] + at;
              y = y * out_[d] + place[d];
            }
            if (inside)
              sum += x[(n * channels + c) * in_[0] * in_[1] * in_[2] + offset] *
                     dy[(n * results + o) * out_[0] * out_[1] * out_[2] + y];
          }
    return sum;
  }

  WeightGradientProblem p_;
  std::array<std::int64_t, 3> in_, out_, kernel_, stride_, padding_, dilation_;
  Staging staging_;
  Staging::Operand x_ = 0, dy_ = 0, dw_ = 0;
  std::vector<void*> pointers_;
};

class ConvolutionWeightsOp : public CachedOp {
 public:
  explicit ConvolutionWeightsOp(const Attributes& attributes) : attributes_(attributes) {}

 protected:
  std::unique_ptr<PreparedCall> make(std::span<const BoundView> inputs, std::span<const BoundView> outputs) override {
    const WeightGradientProblem problem = weight_gradient_problem(attributes_, inputs, outputs);
    if (auto call = onednn::make_weight_gradient(problem)) return call;
    return make_plain_weight_gradient(problem);
  }

 private:
  Attributes attributes_;
};

}  // namespace

WeightGradientProblem weight_gradient_problem(const Attributes& attributes, std::span<const BoundView> inputs,
                                              std::span<const BoundView> outputs) {
  if (inputs.size() != 2 || outputs.size() != 1)
    fail("convolution_weights takes x and the result's gradient and gives the weight's");
  const BoundCall call{attributes, inputs, outputs};
  const library_ops::ConvolutionWeightsCall given(call);
  WeightGradientProblem p{given.x(), given.dy(), given.dw(), {}, {}, {}};
  const std::size_t rank = p.x.sizes.size();
  if (rank < 3 || rank > 5 || p.dy.sizes.size() != rank || p.dw.sizes.size() != rank)
    fail("convolution_weights: x has {} dimensions; 3, 4 and 5 are possible", rank);
  p.stride = given.stride(p.spatial());
  p.padding = given.padding(p.spatial());
  p.dilation = given.dilation(p.spatial());
  p.groups = given.groups();
  p.tf32 = given.tf32();
  p.fixed_engine = given.fixed_engine();
  const bool fits = p.groups > 0 && p.x.sizes[0] == p.dy.sizes[0] && p.dw.sizes[0] == p.dy.sizes[1] &&
                    p.dy.sizes[1] % p.groups == 0 && p.dw.sizes[1] * p.groups == p.x.sizes[1] &&
                    std::all_of(p.stride.begin(), p.stride.end(), [](auto s) { return s > 0; });
  if (!fits)
    fail("convolution_weights: sizes do not fit (x [{}], dy [{}], dw [{}], {} groups)", fmt::join(p.x.sizes, ", "),
         fmt::join(p.dy.sizes, ", "), fmt::join(p.dw.sizes, ", "), p.groups);
  return p;
}

std::unique_ptr<PreparedCall> make_plain_weight_gradient(const WeightGradientProblem& p) {
  switch (loop_dtype(p.dw.dtype)) {
    case DType::F64: return std::make_unique<PlainWeightGradient<double>>(p, DType::F64);
    case DType::I64: return std::make_unique<PlainWeightGradient<std::int64_t>>(p, DType::I64);
    default: return std::make_unique<PlainWeightGradient<float>>(p, DType::F32);
  }
}

namespace {

const DefineLibraryOps kConvolutionWeights({{library_ops::convolution_weights::kName,
                                             call_site<ConvolutionWeightsOp>}});

}  // namespace

}  // namespace coil::runtime
