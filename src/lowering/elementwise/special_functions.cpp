// Special functions of one and of two tensors: scalar operators, and what is made of them. Results have f32's precision
// at least (device/shared/special.h), where eager computes in the tensor's own type.
#include <cmath>

#include "lowering/common.h"

namespace coil::lowering {

namespace {

using Unary = Element (*)(Element);
using Binary = Element (*)(Element, Element);

template <ScalarOp op>
Element one(Element a) {
  return apply(op, a);
}
template <ScalarOp op>
Element two(Element a, Element b) {
  return apply(op, a, b);
}

/// Past this degree eager's Hermite polynomials are NaN; a degree that is no int64 becomes the least one, which is
/// negative.
template <ScalarOp op>
Element hermite(Element x, Element n) {
  Element of_degree = where(ge(n, x.dtype() == DType::F64 ? 513.0 : 129.0), x.number(std::nan("")), apply(op, x, n));
  return where(ge(n, 9223372036854775808.0), x.number(0), of_degree);
}

/// Over [0, 1] what the polynomial is over [-1, 1].
template <ScalarOp op>
Element shifted(Element x, Element n) {
  return apply(op, x + x - 1.0, n);
}

Element log_ndtr(Element x) {
  Element t = x * M_SQRT1_2;
  return where(lt(x, -1.0), log(apply(ScalarOp::Erfcx, -t) * 0.5) - t * t, log1p(erfc(t) * -0.5));
}

Element spherical_bessel_j0(Element x) {
  Element z = x * x;
  Element series = (((z * (1.0 / 362880) - 1.0 / 5040) * z + 1.0 / 120) * z - 1.0 / 6) * z + 1.0;
  return where(isinf(x), x.number(0), where(lt(abs(x), 0.5), series, sin(x) / x));
}

const std::pair<std::string_view, Unary> kOfOneValue[] = {
    {"i0", one<ScalarOp::I0>},
    {"special_i0e", one<ScalarOp::I0e>},
    {"special_i1", one<ScalarOp::I1>},
    {"special_i1e", one<ScalarOp::I1e>},
    {"special_modified_bessel_i0", one<ScalarOp::I0>},
    {"special_modified_bessel_i1", one<ScalarOp::I1>},
    {"special_modified_bessel_k0", one<ScalarOp::K0>},
    {"special_modified_bessel_k1", one<ScalarOp::K1>},
    {"special_scaled_modified_bessel_k0", one<ScalarOp::K0e>},
    {"special_scaled_modified_bessel_k1", one<ScalarOp::K1e>},
    {"special_bessel_j0", one<ScalarOp::J0>},
    {"special_bessel_j1", one<ScalarOp::J1>},
    {"special_bessel_y0", one<ScalarOp::Y0>},
    {"special_bessel_y1", one<ScalarOp::Y1>},
    {"special_spherical_bessel_j0", spherical_bessel_j0},
    {"special_airy_ai", one<ScalarOp::AiryAi>},
    {"special_erfcx", one<ScalarOp::Erfcx>},
    {"special_ndtri", one<ScalarOp::Ndtri>},
    {"special_log_ndtr", log_ndtr},
};

const std::pair<std::string_view, Binary> kOfTwoValues[] = {
    {"igamma", two<ScalarOp::Igamma>},
    {"igammac", two<ScalarOp::Igammac>},
};

/// With forms for a number in the first and in the second place.
const std::pair<std::string_view, Binary> kPolynomials[] = {
    {"chebyshev_polynomial_t", two<ScalarOp::ChebyshevT>},
    {"chebyshev_polynomial_u", two<ScalarOp::ChebyshevU>},
    {"chebyshev_polynomial_v", two<ScalarOp::ChebyshevV>},
    {"chebyshev_polynomial_w", two<ScalarOp::ChebyshevW>},
    {"shifted_chebyshev_polynomial_t", shifted<ScalarOp::ChebyshevT>},
    {"shifted_chebyshev_polynomial_u", shifted<ScalarOp::ChebyshevU>},
    {"shifted_chebyshev_polynomial_v", shifted<ScalarOp::ChebyshevV>},
    {"shifted_chebyshev_polynomial_w", shifted<ScalarOp::ChebyshevW>},
    {"hermite_polynomial_h", hermite<ScalarOp::HermiteH>},
    {"hermite_polynomial_he", hermite<ScalarOp::HermiteHe>},
    {"laguerre_polynomial_l", two<ScalarOp::Laguerre>},
    {"legendre_polynomial_p", two<ScalarOp::Legendre>},
};

LoweringFunction of_one(Unary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    return result(ctx, f(operand(ctx, args[0], ctx.result().sizes, register_type(ctx.result().dtype))));
  };
}

LoweringFunction of_two(Binary f) {
  return [f](Context& ctx, const ops::Values& args) -> Lowered {
    const DType t = register_type(ctx.result().dtype);
    const Exprs& sizes = ctx.result().sizes;
    return result(ctx, f(operand(ctx, args[0], sizes, t), operand(ctx, args[1], sizes, t)));
  };
}

/// polygamma(n, self) = (-1)^(n + 1) n! zeta(n + 1, self); the digamma function for n = 0.
Lowered polygamma(Context& ctx, const ops::Values& args) {
  const std::int64_t n = constant(ctx, args[0]);
  if (n < 0) refuse(ctx, "takes no negative order");
  Element x = operand(ctx, args[1], ctx.result().sizes, register_type(ctx.result().dtype));
  if (n == 0) return result(ctx, digamma(x));
  const double factor = std::exp(std::lgamma(static_cast<double>(n) + 1));
  Element made = apply(ScalarOp::Zeta, x.number(static_cast<double>(n) + 1), x) * (n % 2 ? factor : -factor);
  if (n == 1) {  // by reflection, whose sine is not quite zero at the poles below zero
    Element mirrored = x.number(M_PI) / sin(x * M_PI);
    made = where(lt(x, 0.0) & eq(x, floor(x)), mirrored * mirrored, where(eq(x, INFINITY), x.number(0), made));
  }
  return result(ctx, made);
}

}  // namespace

void add_special_functions(Table& t) {
  for (auto& [name, f] : kOfOneValue) t[fmt::format("aten.{}.default", name)] = of_one(f);
  for (auto& [name, f] : kOfTwoValues) t[fmt::format("aten.{}.default", name)] = of_two(f);
  for (auto& [name, f] : kPolynomials)
    for (std::string_view form : {"default", "x_scalar", "n_scalar"})
      t[fmt::format("aten.special_{}.{}", name, form)] = of_two(f);
  for (std::string_view form : {"default", "other_scalar", "self_scalar"})
    t[fmt::format("aten.special_zeta.{}", form)] = of_two(two<ScalarOp::Zeta>);
  t["aten.polygamma.default"] = polygamma;
}

}  // namespace coil::lowering
