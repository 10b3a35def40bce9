// Exponentials, logarithms, powers, and the circular and hyperbolic functions with their inverses. Branches are those
// of C99; the inverses are Kahan's (Branch Cuts for Complex Elementary Functions, 1987).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "passes/graph/complex/parts.h"

namespace coil::passes {

namespace {

/// A complex argument, both parts of the result's sizes.
Parts whole(ComplexRewriter& r, const Value& v) { return r.filled(r.parts(v), r.result().sizes, r.part_type()); }
Parts self(ComplexRewriter& r) { return whole(r, r.node->args[0]); }

Parts times_i(ComplexRewriter& r, const Parts& z) { return {r.negated(z.im), z.re}; }
Parts over_i(ComplexRewriter& r, const Parts& z) { return {z.im, r.negated(z.re)}; }
Value plus_number(ComplexRewriter& r, const Value& x, double n) { return r.call("aten.add.Scalar", {x, n}); }
Value atan2(ComplexRewriter& r, const Value& y, const Value& x) { return r.call("aten.atan2.default", {y, x}); }
Value is_zero(ComplexRewriter& r, const Value& x) { return r.call("aten.eq.Scalar", {x, 0}); }

Parts exp(ComplexRewriter& r, const Parts& z) { return r.polar(r.unary("exp", z.re), z.im); }
Parts log(ComplexRewriter& r, const Parts& z) { return {r.unary("log", r.magnitude(z)), r.angle(z)}; }

/// exp(z) - 1, without taking 1 from a number near it.
Parts expm1(ComplexRewriter& r, const Parts& z) {
  const Value half = r.unary("sin", r.mul(z.im, 0.5));
  const Value re = r.sub(r.mul(r.unary("expm1", z.re), r.unary("cos", z.im)), r.mul(r.mul(half, half), 2.0));
  return {re, r.mul(r.unary("exp", z.re), r.unary("sin", z.im))};
}

/// log(1 + z): of a small z by |1 + z|² - 1, of a large one as it stands, since squares overflow.
Parts log1p(ComplexRewriter& r, const Parts& z) {
  const Parts beside = {plus_number(r, z.re, 1), z.im};
  const Value near = r.mul(r.unary("log1p", r.add(r.mul(z.re, plus_number(r, z.re, 2)), r.mul(z.im, z.im))), 0.5);
  const Value small = r.call("aten.lt.Scalar", {r.magnitude(z), 0.5});
  return {r.where(small, near, r.unary("log", r.magnitude(beside))), r.angle(beside)};
}

Parts sqrt(ComplexRewriter& r, const Parts& z) {
  const Value a = r.unary("abs", z.re);
  const Value s = r.unary("sqrt", r.add(r.mul(r.magnitude(z), 0.5), r.mul(a, 0.5)));
  const Value other = r.where(is_zero(r, s), 0.0, r.div(r.mul(z.im, 0.5), s));
  const Value right = r.call("aten.ge.Scalar", {z.re, 0});
  return {r.where(right, s, r.unary("abs", other)), r.where(right, other, r.call("aten.copysign.Tensor", {s, z.im}))};
}

Parts sinh(ComplexRewriter& r, const Parts& z) {
  return {r.mul(r.unary("sinh", z.re), r.unary("cos", z.im)), r.mul(r.unary("cosh", z.re), r.unary("sin", z.im))};
}
Parts cosh(ComplexRewriter& r, const Parts& z) {
  return {r.mul(r.unary("cosh", z.re), r.unary("cos", z.im)), r.mul(r.unary("sinh", z.re), r.unary("sin", z.im))};
}

/// With t = tanh x and u = tan y: (t (1 + u²) + i u / cosh² x) / (1 + t² u²), where nothing overflows.
Parts tanh(ComplexRewriter& r, const Parts& z) {
  const Value t = r.unary("tanh", z.re), u = r.unary("tan", z.im), c = r.unary("reciprocal", r.unary("cosh", z.re));
  const Value tu = r.mul(t, u), below = plus_number(r, r.mul(tu, tu), 1);
  return {r.div(r.mul(t, plus_number(r, r.mul(u, u), 1)), below), r.div(r.mul(u, r.mul(c, c)), below)};
}

Parts sin(ComplexRewriter& r, const Parts& z) { return over_i(r, sinh(r, times_i(r, z))); }
Parts cos(ComplexRewriter& r, const Parts& z) { return cosh(r, times_i(r, z)); }
Parts tan(ComplexRewriter& r, const Parts& z) { return over_i(r, tanh(r, times_i(r, z))); }

/// The roots of 1 - z and 1 + z.
std::pair<Parts, Parts> roots_around_one(ComplexRewriter& r, const Parts& z) {
  const Value minus_re = r.negated(z.re);
  return {sqrt(r, {plus_number(r, minus_re, 1), r.negated(z.im)}), sqrt(r, {plus_number(r, z.re, 1), z.im})};
}

Parts asin(ComplexRewriter& r, const Parts& z) {
  const auto [a, b] = roots_around_one(r, z);
  return {atan2(r, z.re, r.product(a, b).re), r.unary("asinh", r.product(r.conjugate(a), b).im)};
}
Parts acos(ComplexRewriter& r, const Parts& z) {
  const auto [a, b] = roots_around_one(r, z);
  return {r.mul(atan2(r, a.re, b.re), 2.0), r.unary("asinh", r.product(r.conjugate(b), a).im)};
}
Parts acosh(ComplexRewriter& r, const Parts& z) {
  const Parts a = sqrt(r, {plus_number(r, z.re, -1), z.im}), b = sqrt(r, {plus_number(r, z.re, 1), z.im});
  return {r.unary("asinh", r.product(r.conjugate(a), b).re), r.mul(atan2(r, a.im, b.re), 2.0)};
}
Parts atanh(ComplexRewriter& r, const Parts& z) {
  const Value below = plus_number(r, r.negated(z.re), 1), above = plus_number(r, z.re, 1), height = r.mul(z.im, z.im);
  const Value re = r.mul(r.unary("log1p", r.div(r.mul(z.re, 4.0), r.add(r.mul(below, below), height))), 0.25);
  return {re, r.mul(atan2(r, r.mul(z.im, 2.0), r.sub(r.mul(below, above), height)), 0.5)};
}
Parts asinh(ComplexRewriter& r, const Parts& z) { return times_i(r, asin(r, over_i(r, z))); }
Parts atan(ComplexRewriter& r, const Parts& z) { return times_i(r, atanh(r, over_i(r, z))); }

Parts exp2(ComplexRewriter& r, const Parts& z) { return exp(r, r.scaled(z, std::numbers::ln2)); }
Parts log2(ComplexRewriter& r, const Parts& z) { return r.scaled(log(r, z), 1 / std::numbers::ln2); }
Parts log10(ComplexRewriter& r, const Parts& z) { return r.scaled(log(r, z), 1 / std::numbers::ln10); }
Parts rsqrt(ComplexRewriter& r, const Parts& z) { return r.quotient(r.one(), sqrt(r, z)); }
Parts sigmoid(ComplexRewriter& r, const Parts& z) {
  const Parts decay = exp(r, {r.negated(z.re), r.negated(z.im)});
  return r.quotient(r.one(), {plus_number(r, decay.re, 1), decay.im});
}
Parts silu(ComplexRewriter& r, const Parts& z) { return r.product(z, sigmoid(r, z)); }

template <Parts (*f)(ComplexRewriter&, const Parts&)>
Made of(ComplexRewriter& r) {
  return f(r, self(r));
}

Parts raised(ComplexRewriter& r, const Parts& z, std::int64_t n) {
  Parts made = z;
  for (std::int64_t i = 1; i < n; ++i) made = r.product(made, z);
  return made;
}

/// z to a real power.
Parts to_the(ComplexRewriter& r, const Parts& z, const Value& exponent) {
  const char* pow = exponent.is<fx::Node*>() ? "aten.pow.Tensor_Tensor" : "aten.pow.Tensor_Scalar";
  return r.polar(r.call(pow, {r.magnitude(z), exponent}), r.mul(r.angle(z), exponent));
}

/// exp(w log z), and 0 where that vanishes, whatever its angle.
Parts to_the(ComplexRewriter& r, const Parts& z, const Parts& w) {
  const Parts turned = r.product(w, log(r, z));
  const Value length = r.unary("exp", turned.re), vanishes = is_zero(r, length);
  return r.polar(length, r.where(vanishes, 0.0, turned.im));
}

std::optional<double> constant_exponent(const Value& v) {
  if (const auto* d = v.get_if<double>()) return *d;
  const auto* e = v.get_if<Expr>();
  const auto n = e ? e->constant() : std::nullopt;
  return n ? std::optional(static_cast<double>(*n)) : std::nullopt;
}

Made power(ComplexRewriter& r) {
  const Parts z = whole(r, r["self"]);
  const Value& exponent = r["exponent"];
  if (const auto n = constant_exponent(exponent)) {
    constexpr double kMostProducts = 8;
    if (*n == 0) return r.one();
    if (*n == 0.5) return sqrt(r, z);
    if (*n == -0.5) return rsqrt(r, z);
    if (*n != std::trunc(*n) || std::abs(*n) > kMostProducts) return to_the(r, z, Value(*n));
    const Parts made = raised(r, z, static_cast<std::int64_t>(std::abs(*n)));
    return *n < 0 ? r.quotient(r.one(), made) : made;
  }
  if (!r.is_complex_node(exponent)) return to_the(r, z, r.parts(exponent).re);
  return to_the(r, z, whole(r, exponent));
}

/// Beside the largest real part, so that no term overflows (logsumexp_out_impl in ATen/native/ReduceOps.cpp).
Made logsumexp(ComplexRewriter& r) {
  Parts z = r.whole(r.node->args[0]);
  const auto is_empty = [](const Expr& n) { return n.is_constant(0); };
  Value most;
  if (std::ranges::none_of(r.meta(z.re).sizes, is_empty)) {
    most = r.call("aten.amax.default", {z.re, r["dim"], true});
    most = r.where(r.call("aten.isinf.default", {most}), 0.0, most);
    z.re = r.sub(z.re, most);
  }
  const Parts made = log(r, on_both(exp(r, z), [&](const Value& part) -> Value {
                           return r.call("aten.sum.dim_IntList", {part, r["dim"], r.flag("keepdim")});
                         }));
  return most.is_none() ? made : Parts{r.add(made.re, r.reshape(most, r.result().sizes)), made.im};
}

/// Each part by itself, from the first number to the last.
Parts spaced(ComplexRewriter& r) {
  const TensorMeta& made = r.result();
  const DType type = r.part_type();
  const auto number = [&](const Value& v) {
    const Parts z = v.is<fx::Node*>() ? r.parts(v) : Parts{r.full({}, v, type, made.device), None{}};
    return z.im.is_none() ? Parts{z.re, r.full({}, 0, type, made.device)} : z;
  };
  const Parts first = number(r["start"]), last = number(r["end"]);
  const auto between = [&](const Value& from, const Value& to) -> Value {
    return r.call("aten.linspace.Tensor_Tensor", {from, to, r["steps"]}, {{"dtype", type}, {"device", made.device}});
  };
  return {between(first.re, last.re), between(first.im, last.im)};
}
Made linspace(ComplexRewriter& r) { return spaced(r); }
Made logspace(ComplexRewriter& r) {
  const auto number = [&](double n) { return r.full({}, n, r.part_type(), r.result().device); };
  return to_the(r, Parts{number(r.real("base")), number(0)}, spaced(r));
}

}  // namespace

void add_complex_functions(ComplexRules& t) {
  t["aten.exp.default"] = of<exp>;
  t["aten.exp2.default"] = of<exp2>;
  t["aten.expm1.default"] = of<expm1>;
  t["aten.log.default"] = of<log>;
  t["aten.log2.default"] = of<log2>;
  t["aten.log10.default"] = of<log10>;
  t["aten.log1p.default"] = of<log1p>;
  t["aten.logsumexp.default"] = logsumexp;
  for (std::string_view name : {"aten.linspace.default", "aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar",
                                "aten.linspace.Scalar_Tensor"})
    t[name] = linspace;
  for (std::string_view name : {"aten.logspace.default", "aten.logspace.Tensor_Tensor", "aten.logspace.Tensor_Scalar",
                                "aten.logspace.Scalar_Tensor"})
    t[name] = logspace;
  t["aten.sqrt.default"] = of<sqrt>;
  t["aten.rsqrt.default"] = of<rsqrt>;
  t["aten.sigmoid.default"] = of<sigmoid>;
  t["aten.silu.default"] = of<silu>;
  t["aten.sin.default"] = of<sin>;
  t["aten.cos.default"] = of<cos>;
  t["aten.tan.default"] = of<tan>;
  t["aten.sinh.default"] = of<sinh>;
  t["aten.cosh.default"] = of<cosh>;
  t["aten.tanh.default"] = of<tanh>;
  t["aten.asin.default"] = t["aten.arcsin.default"] = of<asin>;
  t["aten.acos.default"] = t["aten.arccos.default"] = of<acos>;
  t["aten.atan.default"] = t["aten.arctan.default"] = of<atan>;
  t["aten.asinh.default"] = t["aten.arcsinh.default"] = of<asinh>;
  t["aten.acosh.default"] = t["aten.arccosh.default"] = of<acosh>;
  t["aten.atanh.default"] = t["aten.arctanh.default"] = of<atanh>;
  for (std::string_view name :
       {"aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar", "aten.float_power.Tensor_Scalar",
        "aten.float_power.Tensor_Tensor", "aten.float_power.Scalar"})
    t[name] = power;
}

}  // namespace coil::passes
