// Activation functions and their backward forms, in eager's formulas (aten/src/ATen/native/cpu/Activation.cpp).
#include <cmath>

#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

constexpr double kSqrtHalf = 0.70710678118654752440;

/// A float parameter, or `otherwise` where the call has none.
double parameter(const Values& args, std::size_t i, double otherwise) { return i < args.size() && !args[i].is_none() ? args[i].as_double() : otherwise; }

// The bound comes first: of equal zeros eager returns x, and so does max(bound, x).
Value clip(Value x, double low, double high) { return minimum(high, maximum(low, x)); }
Value relu(Value x) { return maximum(0.0, x); }
Value softplus(Value x, double beta, double threshold) { return where(gt(x * beta, threshold), x, log1p(exp(x * beta)) / beta); }
Value log_sigmoid(Value x) { return minimum(x, 0.0) - log1p(exp(-abs(x))); }
Value elu(Value x, double alpha, double scale, double input_scale) { return where(le(x, 0.0), expm1(x * input_scale) * (alpha * scale), x * scale); }

Value gelu(Value x, bool tanh_form) {
  if (!tanh_form) return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
  constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5, kKappa = 0.044715;
  return 0.5 * x * (1.0 + tanh(kBeta * (x + kKappa * (x * x * x))));
}

Value logit(Value x, const ops::Value& eps) {
  if (!eps.is_none()) x = clip(x, eps.as_double(), 1 - eps.as_double());
  return log(x / (1.0 - x));
}

using Activation = Value (*)(Value x, const Values& args);

const std::pair<const char*, Activation> kActivations[] = {
    {"aten.relu.default", [](Value x, const Values&) { return relu(x); }},
    {"aten.relu6.default", [](Value x, const Values&) { return clip(x, 0, 6); }},
    {"aten.silu.default", [](Value x, const Values&) { return x * sigmoid(x); }},
    {"aten.gelu.default", [](Value x, const Values& a) { return gelu(x, a.size() > 1 && a[1].is<std::string>() && a[1].as_string() == "tanh"); }},
    {"aten.mish.default", [](Value x, const Values&) { return x * tanh(softplus(x, 1, 20)); }},
    {"aten.hardtanh.default", [](Value x, const Values& a) { return clip(x, parameter(a, 1, -1), parameter(a, 2, 1)); }},
    {"aten.hardsigmoid.default", [](Value x, const Values&) { return clip(x + 3.0, 0, 6) / 6.0; }},
    {"aten.hardswish.default", [](Value x, const Values&) { return x * clip(x + 3.0, 0, 6) / 6.0; }},
    {"aten.leaky_relu.default", [](Value x, const Values& a) { return where(gt(x, 0.0), x, x * parameter(a, 1, 0.01)); }},
    {"aten.elu.default", [](Value x, const Values& a) { return elu(x, parameter(a, 1, 1), parameter(a, 2, 1), parameter(a, 3, 1)); }},
    {"aten.selu.default", [](Value x, const Values&) { return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1); }},
    {"aten.celu.default", [](Value x, const Values& a) { return elu(x, parameter(a, 1, 1), 1, 1 / parameter(a, 1, 1)); }},
    {"aten.softplus.default", [](Value x, const Values& a) { return softplus(x, parameter(a, 1, 1), parameter(a, 2, 20)); }},
    {"aten.log_sigmoid.default", [](Value x, const Values&) { return log_sigmoid(x); }},
    {"aten.logit.default", [](Value x, const Values& a) { return logit(x, a.size() > 1 ? a[1] : ops::Value(ops::None{})); }},
    {"aten.special_logit.default", [](Value x, const Values& a) { return logit(x, a.size() > 1 ? a[1] : ops::Value(ops::None{})); }},
    {"aten.threshold.default", [](Value x, const Values& a) { return where(le(x, a[1].as_double()), x.number(a[2].as_double()), x); }},
    {"aten.softshrink.default", [](Value x, const Values& a) {
       const double lambda = parameter(a, 1, 0.5);
       return where(gt(x, lambda), x - lambda, where(lt(x, -lambda), x + lambda, x * 0.0));
     }},
    {"aten.hardshrink.default", [](Value x, const Values& a) {
       const double lambda = parameter(a, 1, 0.5);
       return where(ge(x, -lambda) & le(x, lambda), x.number(0), x);
     }},
    {"aten.tanhshrink.default", [](Value x, const Values&) { return x - tanh(x); }},
    {"aten.softsign.default", [](Value x, const Values&) { return x / (1.0 + abs(x)); }},
};

/// Of a gradient and a tensor that forward kept.
using Backward = Value (*)(Value grad, Value kept, const Values& args);
const std::pair<const char*, Backward> kBackward[] = {
    {"aten.threshold_backward.default", [](Value g, Value x, const Values& a) { return where(le(x, parameter(a, 2, 0)), g.number(0), g); }},
    {"aten.sigmoid_backward.default", [](Value g, Value y, const Values&) { return g * (1.0 - y) * y; }},
    {"aten.tanh_backward.default", [](Value g, Value y, const Values&) { return g * (1.0 - y * y); }},
    {"aten.silu_backward.default", [](Value g, Value x, const Values&) { Value s = sigmoid(x); return g * s * (1.0 + x * (1.0 - s)); }},
};

Lowered prelu(Context& ctx, const Values& args) {
  const Exprs& sizes = ctx.result().sizes;
  const DType t = register_type(ctx.result().dtype);
  Value x = operand(ctx, args[0], sizes, t);
  TensorBox weight = ctx.tensor(args[1]);
  // prelu's own weight counts channels (dimension 1); the kernel form comes shaped for broadcast.
  if (weight.rank() == 1 && sizes.size() > 2 && !weight.sizes[0].is_constant(1)) {
    Exprs shape(sizes.size() - 1, 1);
    shape[0] = weight.sizes[0];
    weight = reshape(ctx, weight, shape);
  }
  return result(ctx, where(gt(x, 0.0), x, element(ctx, weight, sizes).cast(t) * x));
}

Lowered glu(Context& ctx, const Values& args) {
  const sym::TensorMeta& meta = ctx.result();
  const TensorBox box = ctx.tensor(args[0]);
  const std::size_t dim = args.size() > 1 ? dimension(ctx, args[1], box.rank()) : box.rank() - 1;
  Exprs first = ctx.graph.ivars(box.rank()), second = first;
  second[dim] = second[dim] + meta.sizes[dim];
  const DType t = register_type(meta.dtype);
  return result(ctx, element_at(ctx, box, first, meta.sizes).cast(t) * sigmoid(element_at(ctx, box, second, meta.sizes).cast(t)));
}

Lowered log_sigmoid_forward(Context& ctx, const Values& args) {
  Value x = operand(ctx, args[0], ctx.result(0).sizes, register_type(ctx.result(0).dtype));
  // The second result is a buffer for backward on the CPU.
  return std::vector<TensorBox>{result(ctx, log_sigmoid(x), ctx.result(0)), result(ctx, exp(-abs(x)), ctx.result(1))};
}

}  // namespace

void add_activations(Table& t) {
  for (auto& [name, f] : kActivations)
    t[name] = [f = f](Context& ctx, const Values& args) -> Lowered { return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype)), args)); };
  for (auto& [name, f] : kBackward)
    t[name] = [f = f](Context& ctx, const Values& args) -> Lowered {
      const DType reg = register_type(ctx.result().dtype);
      return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, reg), operand(ctx, args[1], ctx.result().sizes, reg), args));
    };
  t["aten.prelu.default"] = t["aten._prelu_kernel.default"] = prelu;
  t["aten.glu.default"] = glu;
  t["aten.log_sigmoid_forward.default"] = log_sigmoid_forward;
}

}  // namespace coil::lowering
