// Convolutions by loops: for the types that oneDNN does not compute on, and for builds without it.
#include <algorithm>
#include <array>

#include "runtime/device/threads.h"
#include "runtime/ops/convolution.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

/// Sizes of one convolution with three spatial dimensions; absent ones have size 1 and do nothing.
struct Geometry {
  std::array<std::int64_t, 3> in, out, kernel, stride, padding, dilation;

  explicit Geometry(const ConvolutionProblem& p) {
    in.fill(1), out.fill(1), kernel.fill(1), stride.fill(1), padding.fill(0), dilation.fill(1);
    for (std::size_t d = 0; d < p.spatial(); ++d) {
      const std::size_t at = 3 - p.spatial() + d;
      in[at] = p.x.sizes[d + 2];
      out[at] = p.y.sizes[d + 2];
      kernel[at] = p.kernel(d);
      stride[at] = p.stride[d];
      padding[at] = p.padding[d];
      dilation[at] = p.dilation[d];
    }
  }

  /// The place in x that kernel place k reads for place i of y; -1 where it reads none.
  std::int64_t source(std::size_t d, std::int64_t i, std::int64_t k, bool transposed) const {
    std::int64_t at = 0;
    if (transposed) {
      at = i + padding[d] - k * dilation[d];
      if (at % stride[d] != 0) return -1;
      at /= stride[d];
    } else {
      at = i * stride[d] - padding[d] + k * dilation[d];
    }
    return at >= 0 && at < in[d] ? at : -1;
  }
};

template <class T>
class PlainConvolution : public PreparedCall {
 public:
  PlainConvolution(const ConvolutionProblem& p, DType loop) : p_(p), g_(p) {
    x_ = staging_.input(0, p.x, dense_view(loop, p.x.sizes));
    weight_ = staging_.input(1, p.weight, dense_view(loop, p.weight.sizes));
    if (p.bias) bias_ = staging_.input(2, *p.bias, dense_view(loop, p.bias->sizes));
    for (std::size_t i = 0; i < p.operands.size(); ++i)
      operands_.push_back(staging_.input(p.first_operand + i, p.operands[i], dense_view(loop, p.y.sizes)));
    old_ = staging_.old_output(0, p.y, dense_view(loop, p.y.sizes));
    y_ = staging_.output(0, p.y, dense_view(loop, p.y.sizes), false);
    pointers_.resize(staging_.operands());
  }

  std::size_t workspace_bytes() const override { return staging_.bytes(); }

  void run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    staging_.load(inputs, outputs, workspace, pointers_);
    parallel_ranges(p_.y.sizes[0] * p_.y.sizes[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) compute_plane(plane);
    });
    staging_.store(outputs, pointers_);
  }

 private:
  T* pointer(Staging::Operand o) const { return static_cast<T*>(pointers_[o]); }

  /// Channel `plane % O` of image `plane / O`.
  void compute_plane(std::int64_t plane) const {
    const std::int64_t results = p_.y.sizes[1], image = plane / results, o = plane % results;
    std::int64_t at = plane * g_.out[0] * g_.out[1] * g_.out[2];
    for (std::int64_t i = 0; i < g_.out[0]; ++i)
      for (std::int64_t j = 0; j < g_.out[1]; ++j)
        for (std::int64_t k = 0; k < g_.out[2]; ++k, ++at)
          pointer(y_)[at] = finish(accumulate(image, o, {i, j, k}), at);
  }

  T accumulate(std::int64_t image, std::int64_t o, std::array<std::int64_t, 3> place) const {
    const std::int64_t channels = p_.x.sizes[1], results = p_.y.sizes[1];
    const std::int64_t in = channels / p_.groups, out = results / p_.groups, group = o / out;
    const std::int64_t taps = g_.kernel[0] * g_.kernel[1] * g_.kernel[2];
    T sum = p_.bias ? pointer(bias_)[o] : T{};
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t k[] = {tap / (g_.kernel[1] * g_.kernel[2]), tap / g_.kernel[2] % g_.kernel[1],
                                tap % g_.kernel[2]};
      std::int64_t offset = 0;
      bool inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        const std::int64_t at = g_.source(d, place[d], k[d], p_.transposed);
        inside = inside && at >= 0;
        offset = offset * g_.in[d] + at;
      }
      if (!inside) continue;
      for (std::int64_t c = 0; c < in; ++c) {
        const std::int64_t channel = group * in + c;
        const std::int64_t w = p_.transposed ? (channel * out + o % out) * taps + tap : (o * in + c) * taps + tap;
        sum +=
            pointer(weight_)[w] * pointer(x_)[(image * channels + channel) * g_.in[0] * g_.in[1] * g_.in[2] + offset];
      }
    }
    return sum;
  }

  T finish(T value, std::int64_t at) const {
    std::size_t operand = 0;
    for (const PostOp& op : p_.post) {
      if (op.kind == PostOp::Kind::Sum)
        value += pointer(old_)[at];
      else if (op.kind == PostOp::Kind::Add)
        value += pointer(operands_[operand++])[at];
      else if (op.kind == PostOp::Kind::Mul)
        value *= pointer(operands_[operand++])[at];
      else
        value = static_cast<T>(apply_post_op(op, static_cast<double>(value)));
    }
    return value;
  }

  ConvolutionProblem p_;
  Geometry g_;
  Staging staging_;
  Staging::Operand x_ = 0, weight_ = 0, y_ = 0, bias_ = 0, old_ = 0;
  std::vector<Staging::Operand> operands_;
  std::vector<void*> pointers_;
};

}  // namespace

std::unique_ptr<PreparedCall> make_plain_convolution(const ConvolutionProblem& p) {
  if (!p.packed_desc.empty()) fail("a weight packed for oneDNN needs a runtime with the oneDNN that packed it");
  switch (loop_dtype(p.y.dtype)) {
    case DType::F64: return std::make_unique<PlainConvolution<double>>(p, DType::F64);
    case DType::I64: return std::make_unique<PlainConvolution<std::int64_t>>(p, DType::I64);
    default: return std::make_unique<PlainConvolution<float>>(p, DType::F32);
  }
}

}  // namespace coil::runtime
