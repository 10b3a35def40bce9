// Gradients of element-wise operators, reductions, normalisations, losses and views: what backward graphs are made of.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

// Gradients of the type and sizes of all operands.
constexpr std::string_view kElementwiseGradients = R"(
aten::sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor
aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor
aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor
aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result,
    Tensor self_or_result) -> Tensor
aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor
aten::hardswish_backward(Tensor grad_output, Tensor self) -> Tensor
aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor
aten::softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor
aten::softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor
aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor
aten::logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor
)";
// Gradients of the type and sizes of both operands, laid out as the input.
constexpr std::string_view kInputFirst = R"(
aten::threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor
aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor
)";
// The first result has the sizes and layout of `self`.
constexpr std::string_view kLikeSelf = R"(
aten::mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor
aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor
aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor
aten::soft_margin_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor
aten::binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None,
    int reduction=1) -> Tensor
aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction,
    SymInt ignore_index, Tensor total_weight) -> Tensor
aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction,
    SymInt ignore_index, Tensor total_weight) -> Tensor
aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor
)";
// A dense tensor of `input_sizes` (or what else they are called).
constexpr std::string_view kOfSizes = R"(
aten::select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor
aten::slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor
aten::diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor
aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor
aten::trace_backward(Tensor grad, SymInt[] sizes) -> Tensor
aten::value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool keepdim) -> Tensor
aten::index_select_backward(Tensor grad, SymInt[] self_sizes, int dim, Tensor index) -> Tensor
)";

bool wants(const Call& call, std::size_t result) { return call["output_mask"].as_list().at(result).as_bool(); }

TensorMeta dense_like(const Call& call, std::string_view name) {
  const TensorMeta& t = call[name].as_tensor();
  return dense(call.env, t, t.sizes);
}

Value like_self(const Call& call) {
  const TensorMeta& self = call["self"].as_tensor();
  return dense(call.env, self, self.sizes);
}

Value of_sizes(const Call& call) {
  const auto& parameters = call.op.schema.parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name.ends_with("sizes")) return dense(call.env, call.tensor(0), call[i].as_ints());
  refuse(call, "has no sizes");
}

Value log_sigmoid_forward(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (!is_floating(self.dtype)) refuse(call, "takes floating types, not {}", torch_name(self.dtype));
  TensorMeta made = dense(call.env, self, self.sizes);
  return Values{made, made};
}

Value log_sigmoid_backward(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(0), &call.tensor(1)};
  return elementwise(call, operands, result_type({&call[0], &call[1]}));
}

/// The input comes first when eager lays out the result.
Value input_first(const Call& call) {
  const TensorMeta &grad = call.tensor(0), &self = call.tensor(1);
  const DType common = result_type({&call[0], &call[1]});
  std::vector<TensorMeta> cast = {self, grad};
  for (TensorMeta& t : cast)
    if (t.dtype != common && t.rank() > 1) t.strides = preserved_strides(call.env, t);
  const TensorMeta* operands[] = {&cast[0], &cast[1]};
  return elementwise(call, operands, common);
}

/// Stored in the type of the input.
Value mish_backward(const Call& call) {
  TensorMeta made = same_type(call).as_tensor();
  made.dtype = call.tensor(1).dtype;
  return made;
}

/// In training the noise comes first, else as the gradient of leaky_relu.
Value rrelu_backward(const Call& call) {
  if (!flag(call, "training")) return input_first(call);
  const TensorMeta* operands[] = {&call.tensor(2), &call.tensor(0)};
  return elementwise(call, operands, result_type({&call[2], &call[0]}));
}

/// The gradients of input and weight, each as broadcast.
Value prelu_backward(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(1), &call.tensor(2), &call.tensor(0)};
  TensorMeta made = elementwise(call, operands, result_type({&call[0], &call[1], &call[2]}));
  return Values{made, made};
}

Value softmax_backward(const Call& call) {
  const TensorMeta& output = call.tensor(1);
  dim_argument(call, output.rank());
  TensorMeta made = dense(call.env, output, output.sizes);
  // The input of a softmax to f32 may have been f16; any other `input_dtype` says nothing to eager.
  const DType gradient = call.tensor(0).dtype, input = call["input_dtype"].as_dtype();
  made.dtype = gradient == DType::F32 && input == DType::F16 ? input : gradient;
  return made;
}

/// The gradients of input, weight and bias; those not asked for are None.
Value layer_norm_backward(const Call& call) {
  Values results(3, None{});
  if (wants(call, 0)) results[0] = dense_like(call, "input");
  if (wants(call, 1) && given(call, "weight")) results[1] = dense_like(call, "weight");
  if (wants(call, 2) && given(call, "bias")) results[2] = dense_like(call, "bias");
  return results;
}

Value rms_norm_backward(const Call& call) {
  Values results(2, None{});
  if (wants(call, 0)) results[0] = dense_like(call, "input");
  if (wants(call, 1) && given(call, "weight")) results[1] = dense_like(call, "weight");
  return results;
}

TensorMeta in_format_of_input(const Call& call) {
  const TensorMeta& input = call["input"].as_tensor();
  return in_format(call.env, input, input.sizes, suggest_format(call.env, input));
}

DType parameter_type(const Call& call) {
  const Value* weight = given(call, "weight");
  return weight ? weight->as_tensor().dtype : call["input"].as_tensor().dtype;
}

Value per_channel_gradients(const Call& call) {
  const TensorMeta& input = call["input"].as_tensor();
  if (input.rank() < 2) refuse(call, "takes at least two dimensions");
  Values results(3, None{});
  if (wants(call, 0)) results[0] = in_format_of_input(call);
  TensorMeta parameter = dense(call.env, parameter_type(call), input.device, {input.sizes[1]});
  if (wants(call, 1)) results[1] = parameter;
  if (wants(call, 2)) results[2] = parameter;
  return results;
}

Value embedding_dense_backward(const Call& call) {
  const TensorMeta &grad = call.tensor(0), &indices = call.tensor(1);
  if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
    refuse(call, "the indices are {}", torch_name(indices.dtype));
  if (grad.rank() == 0) refuse(call, "takes a gradient with dimensions");
  return dense(call.env, grad, {call["num_weights"].as_int(), grad.sizes.back()});
}

Value weight_norm_backward(const Call& call) {
  return Values{dense_like(call, "saved_v"), dense_like(call, "saved_g")};
}

Value dropout_backward(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(0), &call.tensor(1)};
  const DType common = result_type({&call[0], &call[1]});
  return elementwise(call, operands, is_fractional(common) ? common : DType::F32);
}

Value cdist_backward(const Call& call) { return dense_like(call, "x1"); }

}  // namespace

void register_gradients() {
  define_each(kElementwiseGradients, same_type);
  define_each(kLikeSelf, like_self);
  define_each(kInputFirst, input_first);
  define("aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor", mish_backward);
  define_each(kOfSizes, of_sizes);
  define("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", log_sigmoid_forward);
  define("aten::log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", log_sigmoid_backward);
  define("aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
         prelu_backward);
  define_each(R"(
aten::_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
aten::_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor
)",
              softmax_backward);
  define_each(R"(
aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd,
    Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
)",
              layer_norm_backward);
  define_each(R"(
aten::_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight,
    bool[2] output_mask) -> (Tensor, Tensor)
)",
              rms_norm_backward);
  define_each(R"(
aten::native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N,
    SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)
aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean,
    Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[3] output_mask) -> (Tensor,
    Tensor, Tensor)
aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, Tensor? running_var,
    Tensor? save_mean, Tensor? save_var, bool update, float eps, bool[3] output_mask, Tensor reserve) -> (Tensor,
    Tensor, Tensor)
)",
              per_channel_gradients);
  define_each(R"(
aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx,
    bool scale_grad_by_freq) -> Tensor
)",
              embedding_dense_backward);
  define_each(R"(
aten::_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim)
    -> (Tensor, Tensor)
)",
              weight_norm_backward);
  define(
      "aten::rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool "
      "training, bool self_is_result) -> Tensor",
      rrelu_backward);
  define("aten::native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", dropout_backward);
  define("aten::_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", cdist_backward);
}

}  // namespace coil::ops::shapes
