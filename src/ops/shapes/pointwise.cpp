// Element-wise operators of one tensor, and activations.
#include "ops/shapes/elementwise.h"
#include "ops/shapes/families.h"
#include "ops/shapes/strides.h"

namespace coil::ops::shapes {

namespace {

constexpr std::string_view kSameType = R"(
aten::neg(Tensor self) -> Tensor
aten::negative(Tensor self) -> Tensor
aten::sign(Tensor self) -> Tensor
aten::sgn(Tensor self) -> Tensor
aten::relu(Tensor self) -> Tensor
aten::relu6(Tensor self) -> Tensor
aten::ceil(Tensor self) -> Tensor
aten::floor(Tensor self) -> Tensor
aten::trunc(Tensor self) -> Tensor
aten::fix(Tensor self) -> Tensor
aten::frac(Tensor self) -> Tensor
aten::round(Tensor self) -> Tensor
aten::round.decimals(Tensor self, *, int decimals) -> Tensor
aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor
aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor
aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor
aten::bitwise_not(Tensor self) -> Tensor
aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
aten::clamp_min(Tensor self, Scalar min) -> Tensor
aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor
aten::clamp_max(Tensor self, Scalar max) -> Tensor
aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor
aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor
aten::clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor
)";

constexpr std::string_view kToFloat = R"(
aten::sin(Tensor self) -> Tensor
aten::cos(Tensor self) -> Tensor
aten::tan(Tensor self) -> Tensor
aten::asin(Tensor self) -> Tensor
aten::acos(Tensor self) -> Tensor
aten::atan(Tensor self) -> Tensor
aten::sinh(Tensor self) -> Tensor
aten::cosh(Tensor self) -> Tensor
aten::tanh(Tensor self) -> Tensor
aten::asinh(Tensor self) -> Tensor
aten::acosh(Tensor self) -> Tensor
aten::atanh(Tensor self) -> Tensor
aten::arcsin(Tensor self) -> Tensor
aten::arccos(Tensor self) -> Tensor
aten::arctan(Tensor self) -> Tensor
aten::arcsinh(Tensor self) -> Tensor
aten::arccosh(Tensor self) -> Tensor
aten::arctanh(Tensor self) -> Tensor
aten::exp(Tensor self) -> Tensor
aten::exp2(Tensor self) -> Tensor
aten::expm1(Tensor self) -> Tensor
aten::log(Tensor self) -> Tensor
aten::log2(Tensor self) -> Tensor
aten::log10(Tensor self) -> Tensor
aten::log1p(Tensor self) -> Tensor
aten::sqrt(Tensor self) -> Tensor
aten::rsqrt(Tensor self) -> Tensor
aten::reciprocal(Tensor self) -> Tensor
aten::sigmoid(Tensor self) -> Tensor
aten::erf(Tensor self) -> Tensor
aten::erfc(Tensor self) -> Tensor
aten::erfinv(Tensor self) -> Tensor
aten::lgamma(Tensor self) -> Tensor
aten::digamma(Tensor self) -> Tensor
aten::sinc(Tensor self) -> Tensor
aten::logit(Tensor self, float? eps=None) -> Tensor
aten::i0(Tensor self) -> Tensor
aten::deg2rad(Tensor self) -> Tensor
aten::rad2deg(Tensor self) -> Tensor
)";

constexpr std::string_view kToFloatOnly = R"(
aten::special_entr(Tensor self) -> Tensor
aten::special_erf(Tensor self) -> Tensor
aten::special_erfc(Tensor self) -> Tensor
aten::special_erfcx(Tensor self) -> Tensor
aten::special_erfinv(Tensor self) -> Tensor
aten::special_exp2(Tensor self) -> Tensor
aten::special_expit(Tensor self) -> Tensor
aten::special_expm1(Tensor self) -> Tensor
aten::special_digamma(Tensor self) -> Tensor
aten::special_psi(Tensor self) -> Tensor
aten::special_gammaln(Tensor self) -> Tensor
aten::special_i0(Tensor self) -> Tensor
aten::special_i0e(Tensor self) -> Tensor
aten::special_i1(Tensor self) -> Tensor
aten::special_i1e(Tensor self) -> Tensor
aten::special_log1p(Tensor self) -> Tensor
aten::special_log_ndtr(Tensor self) -> Tensor
aten::special_logit(Tensor self, float? eps=None) -> Tensor
aten::special_ndtr(Tensor self) -> Tensor
aten::special_ndtri(Tensor self) -> Tensor
aten::special_sinc(Tensor self) -> Tensor
aten::special_bessel_j0(Tensor self) -> Tensor
aten::special_bessel_j1(Tensor self) -> Tensor
aten::special_bessel_y0(Tensor self) -> Tensor
aten::special_bessel_y1(Tensor self) -> Tensor
aten::special_modified_bessel_i0(Tensor self) -> Tensor
aten::special_modified_bessel_i1(Tensor self) -> Tensor
aten::special_modified_bessel_k0(Tensor self) -> Tensor
aten::special_modified_bessel_k1(Tensor self) -> Tensor
aten::special_scaled_modified_bessel_k0(Tensor x) -> Tensor
aten::special_scaled_modified_bessel_k1(Tensor x) -> Tensor
aten::special_spherical_bessel_j0(Tensor x) -> Tensor
aten::special_airy_ai(Tensor x) -> Tensor
aten::polygamma(int n, Tensor self) -> Tensor
aten::special_polygamma(int n, Tensor self) -> Tensor
)";

constexpr std::string_view kToBool = R"(
aten::isnan(Tensor self) -> Tensor
aten::isinf(Tensor self) -> Tensor
aten::isfinite(Tensor self) -> Tensor
aten::isposinf(Tensor self) -> Tensor
aten::isneginf(Tensor self) -> Tensor
aten::signbit(Tensor self) -> Tensor
aten::isreal(Tensor self) -> Tensor
)";

constexpr std::string_view kAbsolute = R"(
aten::abs(Tensor self) -> Tensor
aten::absolute(Tensor self) -> Tensor
)";

// Eager takes these for floating types only.
constexpr std::string_view kActivations = R"(
aten::gelu(Tensor self, *, str approximate="none") -> Tensor
aten::silu(Tensor self) -> Tensor
aten::mish(Tensor self) -> Tensor
aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor
aten::selu(Tensor self) -> Tensor
aten::celu(Tensor self, Scalar alpha=1.0) -> Tensor
aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor
aten::hardsigmoid(Tensor self) -> Tensor
aten::hardswish(Tensor self) -> Tensor
)";

constexpr std::string_view kActivationsOnly = R"(
aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor
aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor
aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor
aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor
aten::prelu(Tensor self, Tensor weight) -> Tensor
)";

Value activation(const Call& call) {
  const TensorMeta& self = call.tensor(0);
  if (!is_fractional(self.dtype)) refuse(call, "takes floating types, not {}", torch_name(self.dtype));
  const TensorMeta* operands[] = {&self};
  return elementwise(call, operands, self.dtype);
}

/// Eager writes it dense, whatever the layout of its input.
Value log_sigmoid(const Call& call) {
  TensorMeta made = activation(call).as_tensor();
  return dense(call.env, made, made.sizes);
}

Value square(const Call& call) {
  return elementwise(call, call.tensor(0).dtype == DType::Bool ? DType::I64 : call.tensor(0).dtype);
}

Value absolute(const Call& call) {
  const TensorMeta* operands[] = {&call.tensor(0)};
  return elementwise(call, operands, real_type(call.tensor(0).dtype));
}

/// The gate halves of `glu`.
Value glu(const Call& call) {
  TensorMeta half = call.tensor(0);
  std::size_t dim = dim_argument(call, half.rank());
  if (half.rank() == 0) refuse(call, "takes a tensor with dimensions");
  Expr n = half.sizes[dim];
  if (n.is_constant() && *n.constant() % 2 != 0) refuse(call, "dimension {} has odd size {}", dim, *n.constant());
  require_equal(call, call.env.simplify(sym::mod(n, 2)), 0, "half of the dimension");
  half.sizes[dim] = call.env.simplify(sym::floor_div(n, 2));
  const TensorMeta* operands[] = {&half};
  TensorMeta result = elementwise(call, operands, half.dtype);
  if (is_contiguous(call.env, call.tensor(0))) result.strides = dense_strides(call.env, result.sizes);
  return result;
}

}  // namespace

void register_pointwise() {
  define_with_twins(kSameType, same_type);
  define_with_twins(kToFloat, float_type);
  define_each(kToFloatOnly, float_type);
  define_each(kToBool, bool_type);
  define("aten::logical_not(Tensor self) -> Tensor", bool_type);
  define("aten::logical_not_(Tensor(a!) self) -> Tensor(a!)", mask_in_place);
  define_with_twins(kAbsolute, absolute);
  define_each(kActivationsOnly, activation);
  define_with_twins(kActivations, activation);
  define(
      "aten::rrelu_(Tensor(a!) self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, "
      "Generator? generator=None) -> Tensor(a!)",
      in_place(activation), true);
  define(
      "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? "
      "generator=None) -> Tensor",
      log_sigmoid, true);
  define("aten::log_sigmoid(Tensor self) -> Tensor", log_sigmoid);
  define_with_twins("aten::square(Tensor self) -> Tensor", square);
  define("aten::glu(Tensor self, int dim=-1) -> Tensor", glu);
}

}  // namespace coil::ops::shapes
