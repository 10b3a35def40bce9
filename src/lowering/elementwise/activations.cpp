// Activation functions and their backward forms, in eager's formulas (aten/src/ATen/native/cpu/Activation.cpp).
#include <cmath>
#include <limits>

#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Values = ops::Values;

constexpr double kSqrtHalf = 0.70710678118654752440;

/// A float parameter, or `otherwise` where the call has none.
double parameter(const Values& args, std::size_t i, double otherwise) {
  return i < args.size() && !args[i].is_none() ? args[i].as_double() : otherwise;
}

// The bound comes first: of equal zeros eager returns x, and so does max(bound, x).
Element clip(Element x, double low, double high) { return minimum(high, maximum(low, x)); }
Element relu(Element x) { return maximum(0.0, x); }
Element softplus(Element x, double beta, double threshold) {
  return where(gt(x * beta, threshold), x, log1p(exp(x * beta)) / beta);
}
Element log_sigmoid(Element x) { return minimum(x, 0.0) - log1p(exp(-abs(x))); }
Element elu(Element x, double alpha, double scale, double input_scale) {
  return where(le(x, 0.0), expm1(x * input_scale) * (alpha * scale), x * scale);
}

Element gelu(Element x, bool tanh_form) {
  if (!tanh_form) return 0.5 * x * (1.0 + erf(x * kSqrtHalf));
  constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5, kKappa = 0.044715;
  return 0.5 * x * (1.0 + tanh(kBeta * (x + kKappa * (x * x * x))));
}

using Activation = Element (*)(Element x, const Values& args);

const std::pair<const char*, Activation> kActivations[] = {
    {"aten.relu.default", [](Element x, const Values&) { return relu(x); }},
    {"aten.relu6.default", [](Element x, const Values&) { return clip(x, 0, 6); }},
    {"aten.silu.default", [](Element x, const Values&) { return x * sigmoid(x); }},
    {"aten.gelu.default",
     [](Element x, const Values& a) {
       return gelu(x, a.size() > 1 && a[1].is<std::string>() && a[1].as_string() == "tanh");
     }},
    {"aten.mish.default", [](Element x, const Values&) { return x * tanh(softplus(x, 1, 20)); }},
    {"aten.hardtanh.default",
     [](Element x, const Values& a) { return clip(x, parameter(a, 1, -1), parameter(a, 2, 1)); }},
    {"aten.hardsigmoid.default", [](Element x, const Values&) { return clip(x + 3.0, 0, 6) / 6.0; }},
    {"aten.hardswish.default", [](Element x, const Values&) { return x * clip(x + 3.0, 0, 6) / 6.0; }},
    {"aten.leaky_relu.default",
     [](Element x, const Values& a) { return where(gt(x, 0.0), x, x * parameter(a, 1, 0.01)); }},
    {"aten.elu.default",
     [](Element x, const Values& a) { return elu(x, parameter(a, 1, 1), parameter(a, 2, 1), parameter(a, 3, 1)); }},
    {"aten.selu.default",
     [](Element x, const Values&) {
       return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
     }},
    {"aten.celu.default",
     [](Element x, const Values& a) { return elu(x, parameter(a, 1, 1), 1, 1 / parameter(a, 1, 1)); }},
    {"aten.softplus.default",
     [](Element x, const Values& a) { return softplus(x, parameter(a, 1, 1), parameter(a, 2, 20)); }},
    {"aten.log_sigmoid.default", [](Element x, const Values&) { return log_sigmoid(x); }},
    {"aten.softshrink.default",
     [](Element x, const Values& a) {
       const double lambda = parameter(a, 1, 0.5);
       return where(gt(x, lambda), x - lambda, where(lt(x, -lambda), x + lambda, x * 0.0));
     }},
    {"aten.hardshrink.default",
     [](Element x, const Values& a) {
       const double lambda = parameter(a, 1, 0.5);
       return where(ge(x, -lambda) & le(x, lambda), x.number(0), x);
     }},
    {"aten.tanhshrink.default", [](Element x, const Values&) { return x - tanh(x); }},
    {"aten.softsign.default", [](Element x, const Values&) { return x / (1.0 + abs(x)); }},
};

/// The derivative of gelu.
Element gelu_slope(Element x, bool by_tanh) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588, kInverseSqrtTwoPi = 0.39894228040143267794,
                   kCubic = 0.044715;
  if (!by_tanh) return 0.5 * (1.0 + erf(x * kSqrtHalf)) + x * exp(x * x * -0.5) * kInverseSqrtTwoPi;
  Element t = tanh((x + x * x * x * kCubic) * kSqrtTwoOverPi);
  // Not 1 - t * t: where t is nearly 1 its square has but few bits of the difference.
  return 0.5 * (1.0 + t) + 0.5 * x * ((1.0 - t) * (1.0 + t)) * ((1.0 + x * x * (3 * kCubic)) * kSqrtTwoOverPi);
}

Element shrink_slope(Element g, Element x, const Values& a) {
  const double lambda = parameter(a, 2, 0.5);
  return where(ge(x, -lambda) & le(x, lambda), g.number(0), g);
}

/// The gradient of an activation's input, from that of its result and a tensor that forward kept.
using Backward = Element (*)(Element grad, Element kept, const Values& args);
const std::pair<const char*, Backward> kBackward[] = {
    {"aten.sigmoid_backward.default", [](Element g, Element y, const Values&) { return g * (1.0 - y) * y; }},
    {"aten.tanh_backward.default", [](Element g, Element y, const Values&) { return g * (1.0 - y * y); }},
    {"aten.silu_backward.default",
     [](Element g, Element x, const Values&) {
       Element s = sigmoid(x);
       return g * s * (1.0 + x * (1.0 - s));
     }},
    {"aten.gelu_backward.default",
     [](Element g, Element x, const Values& a) {
       return g * gelu_slope(x, a.size() > 2 && a[2].is<std::string>() && a[2].as_string() == "tanh");
     }},
    {"aten.mish_backward.default",
     [](Element g, Element x, const Values&) {
       Element t = tanh(softplus(x, 1, 20));
       return g * (t + x * sigmoid(x) * (1.0 - t * t));
     }},
    {"aten.leaky_relu_backward.default",
     [](Element g, Element x, const Values& a) { return where(gt(x, 0.0), g, g * parameter(a, 2, 0.01)); }},
    {"aten.hardtanh_backward.default",
     [](Element g, Element x, const Values& a) {
       return where(le(x, parameter(a, 2, -1)) | ge(x, parameter(a, 3, 1)), g.number(0), g);
     }},
    {"aten.hardsigmoid_backward.default",
     [](Element g, Element x, const Values&) {
       constexpr float kSixth = 1.0f / 6.0f;  // eager's, in doubles too
       return where(gt(x, -3.0) & lt(x, 3.0), g * static_cast<double>(kSixth), g.number(0));
     }},
    {"aten.hardswish_backward.default",
     [](Element g, Element x, const Values&) {
       return where(le(x, -3.0), g.number(0), where(lt(x, 3.0), g * (x / 3.0 + 0.5), g));
     }},
    {"aten.softplus_backward.default",
     [](Element g, Element x, const Values& a) {
       Element scaled = x * parameter(a, 2, 1), e = exp(scaled);
       return where(gt(scaled, parameter(a, 3, 20)), g, g * e / (e + 1.0));
     }},
    {"aten.softshrink_backward.default", shrink_slope},
    {"aten.hardshrink_backward.default", shrink_slope},
    {"aten.log_sigmoid_backward.default", [](Element g, Element x, const Values&) { return g * sigmoid(-x); }},
    {"aten.logit_backward.default",
     [](Element g, Element x, const Values& a) {
       const bool bounded = a.size() > 2 && !a[2].is_none() && a[2].as_double() >= 0;
       const double low = bounded ? a[2].as_double() : 0.0;
       Element slope = g / (x * (1.0 - x));
       return where(lt(x, low) | gt(x, 1.0 - low), g.number(bounded ? 0 : std::numeric_limits<double>::quiet_NaN()),
                    slope);
     }},
};

/// threshold(self, threshold, value): eager compares 16-bit floats in f32 on a CPU, and with a bound of their own type
/// on a GPU.
Element is_within(Context& ctx, Element x, double bound) {
  const DType type = ctx.result().dtype;
  return device_of(ctx).is_host() ? le(x, bound) : le(x.cast(type), x.number(bound).cast(type));
}

Lowered threshold(Context& ctx, const Values& args) {
  Element x = operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype));
  return result(ctx, where(is_within(ctx, x, args[1].as_double()), x.number(args[2].as_double()), x));
}

/// threshold_backward(grad, self, threshold)
Lowered threshold_backward(Context& ctx, const Values& args) {
  const DType t = register_type(ctx.result().dtype);
  Element g = operand(ctx, args[0], ctx.result().sizes, t), x = operand(ctx, args[1], ctx.result().sizes, t);
  return result(ctx, where(is_within(ctx, x, parameter(args, 2, 0)), g.number(0), g));
}

/// elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)
Lowered elu_backward(Context& ctx, const Values& args) {
  const DType t = register_type(ctx.result().dtype);
  const double negative = parameter(args, 1, 1) * parameter(args, 2, 1), positive = parameter(args, 2, 1),
               inner = parameter(args, 3, 1);
  Element g = operand(ctx, args[0], ctx.result().sizes, t), x = operand(ctx, args[5], ctx.result().sizes, t);
  Element below = args[4].as_bool() ? g * inner * (x + negative) : g * (inner * negative) * exp(x * inner);
  return result(ctx, where(le(x, 0.0), below, g * positive));
}

/// _prelu_kernel_backward(grad, self, weight): of self, and of weight as broadcast.
Lowered prelu_backward(Context& ctx, const Values& args) {
  const Exprs& sizes = ctx.result(0).sizes;
  const DType t = register_type(ctx.result(0).dtype);
  Element g = operand(ctx, args[0], sizes, t), x = operand(ctx, args[1], sizes, t), w = operand(ctx, args[2], sizes, t);
  return std::vector<TensorBox>{result(ctx, where(gt(x, 0.0), g, w * g), ctx.result(0)),
                                result(ctx, where(gt(x, 0.0), g.number(0), x * g), ctx.result(1))};
}

/// glu_backward(grad, self, dim): of a, then of b, where y = a * sigmoid(b).
Lowered glu_backward(Context& ctx, const Values& args) {
  const TensorBox grad = ctx.tensor(args[0]), box = ctx.tensor(args[1]);
  const Exprs& sizes = ctx.result().sizes;
  const std::size_t dim = dimension(ctx, args[2], box.rank());
  const DType t = register_type(box.dtype());
  const Expr half = grad.sizes[dim], i = ctx.graph.ivar(dim);
  Exprs place = ctx.graph.ivars(box.rank()), other = place;
  // The element of the gradient, and that of the other half, for each element of self.
  place[dim] = sym::mod(i, half);
  other[dim] = sym::mod(i + half, half * 2);
  Element g = element_at(ctx, grad, place, sizes).cast(t), mine = element(ctx, box, sizes).cast(t),
          its = element_at(ctx, box, other, sizes).cast(t);
  Element gate = sigmoid(mine);
  return result(ctx, where(condition(ctx, sym::lt(i, half)), g * sigmoid(its), g * its * gate * (1.0 - gate)));
}

Lowered prelu(Context& ctx, const Values& args) {
  const Exprs& sizes = ctx.result().sizes;
  const DType t = register_type(ctx.result().dtype);
  Element x = operand(ctx, args[0], sizes, t);
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
  return result(
      ctx, element_at(ctx, box, first, meta.sizes).cast(t) * sigmoid(element_at(ctx, box, second, meta.sizes).cast(t)));
}

Lowered log_sigmoid_forward(Context& ctx, const Values& args) {
  Element x = operand(ctx, args[0], ctx.result(0).sizes, register_type(ctx.result(0).dtype));
  // The second result is a buffer for backward on the CPU.
  return std::vector<TensorBox>{result(ctx, log_sigmoid(x), ctx.result(0)), result(ctx, exp(-abs(x)), ctx.result(1))};
}

}  // namespace

void add_activations(Table& t) {
  for (auto& [name, f] : kActivations)
    t[name] = [f = f](Context& ctx, const Values& args) -> Lowered {
      return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype)), args));
    };
  for (auto& [name, f] : kBackward)
    t[name] = [f = f](Context& ctx, const Values& args) -> Lowered {
      const DType reg = register_type(ctx.result().dtype);
      return result(
          ctx, f(operand(ctx, args[0], ctx.result().sizes, reg), operand(ctx, args[1], ctx.result().sizes, reg), args));
    };
  t["aten.threshold.default"] = threshold;
  t["aten.threshold_backward.default"] = threshold_backward;
  t["aten.prelu.default"] = t["aten._prelu_kernel.default"] = prelu;
  t["aten.glu.default"] = glu;
  t["aten.log_sigmoid_forward.default"] = log_sigmoid_forward;
  t["aten.elu_backward.default"] = elu_backward;
  t["aten._prelu_kernel_backward.default"] = prelu_backward;
  t["aten.glu_backward.default"] = glu_backward;
}

}  // namespace coil::lowering
