// Normalisations and softmax.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kSoftmax = R"(
aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor
)";
constexpr std::string_view kRawSoftmax = R"(
aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor
aten::_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor
)";

TensorMeta dense_self(const Call& call) { return dense(call.env, call.tensor(0), call.tensor(0).sizes); }

Value softmax(const Call& call) {
  dim_argument(call, call.tensor(0).rank());
  TensorMeta made = dense_self(call);
  made.dtype = given_dtype(call).value_or(made.dtype);
  if (flag(call, "half_to_float")) made.dtype = DType::F32;
  return made;
}

/// Checks the normalised sizes against the last dimensions; gives how many there are.
std::size_t normalized_rank(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  Exprs shape = call["normalized_shape"].as_ints();
  if (shape.empty() || shape.size() > input.rank())
    refuse(call, "normalized_shape {} for sizes {}", show(shape), show(input.sizes));
  for (std::size_t i = 0; i < shape.size(); ++i)
    require_equal(call, shape[i], input.sizes[input.rank() - shape.size() + i], "normalized_shape");
  return shape.size();
}

/// Statistics of bf16 and f16 inputs are f32 when the weights are.
DType statistics_type(const Call& call) {
  DType dtype = call.tensor(0).dtype;
  const Value* weight = given(call, "weight");
  if (!weight) weight = given(call, "bias");
  if ((dtype == DType::BF16 || dtype == DType::F16) && weight && weight->as_tensor().dtype == DType::F32)
    return DType::F32;
  return dtype;
}

Value layer_norm(const Call& call) {
  normalized_rank(call);
  return dense_self(call);
}

Value native_layer_norm(const Call& call) {
  std::size_t n = normalized_rank(call);
  const TensorMeta& input = call.tensor(0);
  Exprs sizes = input.sizes;
  for (std::size_t i = 0; i < n; ++i) sizes[sizes.size() - 1 - i] = 1;
  TensorMeta statistics = dense(call.env, statistics_type(call), input.device, std::move(sizes));
  return Values{dense_self(call), statistics, statistics};
}

Value fused_rms_norm(const Call& call) {
  std::size_t n = normalized_rank(call);
  const TensorMeta& input = call.tensor(0);
  Exprs sizes = input.sizes;
  for (std::size_t i = 0; i < n; ++i) sizes[sizes.size() - 1 - i] = 1;
  DType statistics = input.dtype == DType::F64 ? DType::F64 : DType::F32;
  return Values{dense_self(call), dense(call.env, statistics, input.device, std::move(sizes))};
}

TensorMeta in_suggested_format(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  return in_format(call.env, input, input.sizes, suggest_format(call.env, input));
}

Value rms_norm(const Call& call) {
  normalized_rank(call);
  return in_suggested_format(call);
}

/// Channels last where the input is dense so; any other layout gives a dense result.
TensorMeta batch_norm_result(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  MemoryFormat format = suggest_format(call.env, input);
  for (MemoryFormat f : {MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
    if (!is_contiguous(call.env, input) && is_contiguous(call.env, input, f)) format = f;
  return in_format(call.env, input, input.sizes, format);
}

Value group_norm(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  if (input.rank() < 2) refuse(call, "takes at least two dimensions");
  std::int64_t groups = number(call, "num_groups");
  auto channels = input.sizes[1].constant();
  if (groups <= 0 || (channels && *channels % groups != 0))
    refuse(call, "{} groups of sizes {}", groups, show(input.sizes));
  return in_suggested_format(call);
}

Value native_group_norm(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  TensorMeta statistics =
      dense(call.env, statistics_type(call), input.device, {call["N"].as_int(), number(call, "group")});
  return Values{in_suggested_format(call), statistics, statistics};
}

Value batch_norm(const Call& call) {
  if (call.tensor(0).rank() < 2) refuse(call, "takes at least two dimensions");
  return batch_norm_result(call);
}

/// Statistics are those of the batch in training; in inference they have no elements.
Value native_batch_norm(const Call& call) {
  const TensorMeta& input = call.tensor(0);
  if (input.rank() < 2) refuse(call, "takes at least two dimensions");
  const auto& parameters = call.op.schema.parameters;
  bool training = false;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name == "training") training = call[i].as_bool();
  TensorMeta statistics = dense(call.env, statistics_type(call), input.device, {training ? input.sizes[1] : Expr(0)});
  return Values{batch_norm_result(call), statistics, statistics};
}

/// The results of the batch norm above, with new running statistics.
Value functional_batch_norm(const Call& call) {
  Values results = native_batch_norm(call).as_list();
  results.push_back(call["running_mean"]);
  results.push_back(call["running_var"]);
  return results;
}

/// `v` scaled to the norms `g` of its slices along `dim`; dense, since eager makes both dense first.
TensorMeta weight_norm(const Call& call) { return dense_self(call); }

Value weight_norm_and_norms(const Call& call) {
  TensorMeta norms = dense(call.env, call.tensor(1), call.tensor(1).sizes);
  if (norms.dtype == DType::BF16) norms.dtype = DType::F32;
  return Values{weight_norm(call), norms};
}

Value instance_norm(const Call& call) {
  if (call.tensor(0).rank() < 2) refuse(call, "takes at least two dimensions");
  return dense_self(call);
}

/// The result of the instance norm above, with new running statistics.
Value functional_instance_norm(const Call& call) {
  return Values{instance_norm(call), call["running_mean"], call["running_var"]};
}

}  // namespace

void register_normalization() {
  define_each(kSoftmax, softmax);
  define_each(kRawSoftmax, softmax);
  define_each(R"(
aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None,
    float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor
)",
              layer_norm);
  define_each(R"(
aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor,
    Tensor, Tensor)
)",
              native_layer_norm);
  define_each(R"(
aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor
)",
              rms_norm);
  define_each(R"(
aten::_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)
)",
              fused_rms_norm);
  define_each(R"(
aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05,
    bool cudnn_enabled=True) -> Tensor
)",
              group_norm);
  define_each(R"(
aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,
    float eps) -> (Tensor, Tensor, Tensor)
)",
              native_group_norm);
  define_each(R"(
aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training,
    float momentum, float eps, bool cudnn_enabled) -> Tensor
)",
              batch_norm);
  define_each(R"(
aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
aten::_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor(a!) running_mean,
    Tensor(b!) running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)
aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum,
    float eps) -> (Tensor, Tensor, Tensor)
aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)
)",
              native_batch_norm);
  define_each(R"(
aten::_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean,
    Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out,
    Tensor running_var_out)
)",
              functional_batch_norm);
  define_each(R"(
aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var,
    bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor
)",
              instance_norm);
  define(
      "coil::instance_norm_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor "
      "running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> (Tensor, Tensor "
      "running_mean_out, Tensor running_var_out)",
      functional_instance_norm);
  define("aten::_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor", weight_norm);
  define("aten::_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weight_norm_and_norms);
}

}  // namespace coil::ops::shapes
