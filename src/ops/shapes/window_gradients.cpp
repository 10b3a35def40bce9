// Gradients of convolutions, pooling, padding and interpolation, with respect to what these read.
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

// Like `self`, in the layout that it looks to have.
constexpr std::string_view kPools = R"(
aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride,
    int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor
aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride,
    int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor
aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding,
    bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, int[3] padding,
    bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor
aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor
aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor
aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor
)";
constexpr std::string_view kPadGradients = R"(
aten::reflection_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
aten::reflection_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor
aten::reflection_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor
aten::replication_pad1d_backward(Tensor grad_output, Tensor self, SymInt[2] padding) -> Tensor
aten::replication_pad2d_backward(Tensor grad_output, Tensor self, SymInt[4] padding) -> Tensor
aten::replication_pad3d_backward(Tensor grad_output, Tensor self, SymInt[6] padding) -> Tensor
)";
constexpr std::string_view kResizes = R"(
aten::upsample_nearest1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, float? scales=None)
    -> Tensor
aten::upsample_nearest2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, float? scales_h=None,
    float? scales_w=None) -> Tensor
aten::_upsample_nearest_exact1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size,
    float? scales=None) -> Tensor
aten::_upsample_nearest_exact2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size,
    float? scales_h=None, float? scales_w=None) -> Tensor
aten::upsample_linear1d_backward(Tensor grad_output, SymInt[1] output_size, SymInt[3] input_size, bool align_corners,
    float? scales=None) -> Tensor
aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners,
    float? scales_h=None, float? scales_w=None) -> Tensor
aten::upsample_trilinear3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, bool align_corners,
    float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
)";
// Gradients of resizing whose results are dense in order, however the gradient lies.
constexpr std::string_view kDenseResizes = R"(
aten::upsample_nearest3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size, float? scales_d=None,
    float? scales_h=None, float? scales_w=None) -> Tensor
aten::_upsample_nearest_exact3d_backward(Tensor grad_output, SymInt[3] output_size, SymInt[5] input_size,
    float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor
aten::upsample_bicubic2d_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners,
    float? scales_h=None, float? scales_w=None) -> Tensor
)";

MemoryFormat format_of(const Call& call, const TensorMeta& t) { return suggest_format(call.env, t); }

Value like_pooled(const Call& call) {
  const TensorMeta& self = call["self"].as_tensor();
  if (call.op.schema.target == "aten.adaptive_max_pool3d_backward.default") return dense(call.env, self, self.sizes);
  // Planes without a batch are taken for dense.
  return in_format(call.env, self, self.sizes, format_of(call, self));
}

Value like_padded(const Call& call) {
  const TensorMeta& self = call["self"].as_tensor();
  return in_format(call.env, self, self.sizes, format_of(call, self));
}

Value like_resized(const Call& call) {
  const TensorMeta& grad = call.tensor(0);
  return in_format(call.env, grad, call["input_size"].as_ints(), format_of(call, grad));
}

Value densely_resized(const Call& call) {
  return in_format(call.env, call.tensor(0), call["input_size"].as_ints(), MemoryFormat::Contiguous);
}

/// The gradients of input, weight and bias. The layout follows from input and weight alone
/// (torch/_meta_registrations.py, meta_convolution_backward).
Value convolution_backward(const Call& call) {
  const TensorMeta &grad = call.tensor(0), &input = call["input"].as_tensor(), &weight = call["weight"].as_tensor();
  if (grad.rank() != input.rank() || input.rank() != weight.rank() || grad.rank() < 3)
    refuse(call, "a gradient of sizes {}, input {} and weight {}", show(grad.sizes), show(input.sizes),
           show(weight.sizes));
  const Values& mask = call["output_mask"].as_list();
  MemoryFormat format = format_of(call, input);
  if (format == MemoryFormat::Contiguous) format = format_of(call, weight);
  Values results(3, None{});
  if (mask.at(0).as_bool()) results[0] = in_format(call.env, grad, input.sizes, format);
  if (mask.at(1).as_bool()) results[1] = in_format(call.env, grad, weight.sizes, format);
  if (mask.at(2).as_bool()) results[2] = dense(call.env, grad, {grad.sizes[1]});
  return results;
}

}  // namespace

void register_window_gradients() {
  define_each(kPools, like_pooled);
  define_each(kPadGradients, like_padded);
  define_each(kResizes, like_resized);
  define_each(kDenseResizes, densely_resized);
  define_each(R"(
aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride,
    SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask)
    -> (Tensor, Tensor, Tensor)
)",
              convolution_backward);
}

}  // namespace coil::ops::shapes
