// Element-wise operators in terms of fewer. Aliases take their main name; fused and special forms are written out.
// Kept for lowering: add sub mul div (with rounding modes) remainder fmod pow maximum minimum fmax fmin, neg abs sign
// sgn, exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal, sin … atanh, atan2, erf erfc erfinv lgamma digamma
// i0, floor ceil round trunc, comparisons, logical_* bitwise_* and shifts, isnan isinf, where, clamp, relu sigmoid gelu
// silu tanh hardtanh leaky_relu elu hardswish hardsigmoid mish softplus.
#include <cmath>
#include <limits>
#include <map>

#include "passes/graph/decompositions/rewriter.h"

namespace coil::passes {

namespace {

/// Other names of operators that take the same arguments.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"aten.negative.default", "aten.neg.default"},
    {"aten.absolute.default", "aten.abs.default"},
    {"aten.fix.default", "aten.trunc.default"},
    {"aten.clip.default", "aten.clamp.default"},
    {"aten.clip.Tensor", "aten.clamp.Tensor"},
    {"aten.arcsin.default", "aten.asin.default"},
    {"aten.arccos.default", "aten.acos.default"},
    {"aten.arctan.default", "aten.atan.default"},
    {"aten.arcsinh.default", "aten.asinh.default"},
    {"aten.arccosh.default", "aten.acosh.default"},
    {"aten.arctanh.default", "aten.atanh.default"},
    {"aten.arctan2.default", "aten.atan2.default"},
    {"aten.subtract.Tensor", "aten.sub.Tensor"},
    {"aten.multiply.Tensor", "aten.mul.Tensor"},
    {"aten.divide.Tensor", "aten.div.Tensor"},
    {"aten.divide.Tensor_mode", "aten.div.Tensor_mode"},
    {"aten.true_divide.Tensor", "aten.div.Tensor"},
    {"aten.not_equal.Tensor", "aten.ne.Tensor"},
    {"aten.not_equal.Scalar", "aten.ne.Scalar"},
    {"aten.less.Tensor", "aten.lt.Tensor"},
    {"aten.less.Scalar", "aten.lt.Scalar"},
    {"aten.less_equal.Tensor", "aten.le.Tensor"},
    {"aten.less_equal.Scalar", "aten.le.Scalar"},
    {"aten.greater.Tensor", "aten.gt.Tensor"},
    {"aten.greater.Scalar", "aten.gt.Scalar"},
    {"aten.greater_equal.Tensor", "aten.ge.Tensor"},
    {"aten.greater_equal.Scalar", "aten.ge.Scalar"},
    {"aten.max.other", "aten.maximum.default"},
    {"aten.min.other", "aten.minimum.default"},
    {"aten.clamp_min.Tensor", "aten.maximum.default"},
    {"aten.clamp_max.Tensor", "aten.minimum.default"},
    {"aten.__and__.Tensor", "aten.bitwise_and.Tensor"},
    {"aten.__and__.Scalar", "aten.bitwise_and.Scalar"},
    {"aten.__or__.Tensor", "aten.bitwise_or.Tensor"},
    {"aten.__or__.Scalar", "aten.bitwise_or.Scalar"},
    {"aten.__xor__.Tensor", "aten.bitwise_xor.Tensor"},
    {"aten.__xor__.Scalar", "aten.bitwise_xor.Scalar"},
    {"aten.__lshift__.Tensor", "aten.bitwise_left_shift.Tensor"},
    {"aten.__lshift__.Scalar", "aten.bitwise_left_shift.Tensor_Scalar"},
    {"aten.__rshift__.Tensor", "aten.bitwise_right_shift.Tensor"},
    {"aten.__rshift__.Scalar", "aten.bitwise_right_shift.Tensor_Scalar"},
    {"aten.special_digamma.default", "aten.digamma.default"},
    {"aten.special_psi.default", "aten.digamma.default"},
    {"aten.special_erf.default", "aten.erf.default"},
    {"aten.special_erfc.default", "aten.erfc.default"},
    {"aten.special_erfinv.default", "aten.erfinv.default"},
    {"aten.special_exp2.default", "aten.exp2.default"},
    {"aten.special_expit.default", "aten.sigmoid.default"},
    {"aten.special_expm1.default", "aten.expm1.default"},
    {"aten.special_gammaln.default", "aten.lgamma.default"},
    {"aten.special_i0.default", "aten.i0.default"},
    {"aten.special_log1p.default", "aten.log1p.default"},
    {"aten.special_gammainc.default", "aten.igamma.default"},
    {"aten.special_gammaincc.default", "aten.igammac.default"},
    {"aten.special_polygamma.default", "aten.polygamma.default"},
    {"aten.special_logit.default", "aten.logit.default"},
    {"aten.special_sinc.default", "aten.sinc.default"},
    {"aten.special_xlogy.default", "aten.xlogy.Tensor"},
    {"aten.special_xlogy.other_scalar", "aten.xlogy.Scalar_Other"},
    {"aten.special_xlogy.self_scalar", "aten.xlogy.Scalar_Self"},
};

/// `op.Scalar(tensor, number)` as `op.Tensor(tensor, number)`: a number may stand for a tensor.
constexpr std::pair<std::string_view, std::string_view> kScalarForms[] = {
    {"aten.add.Scalar", "aten.add.Tensor"},      {"aten.sub.Scalar", "aten.sub.Tensor"},
    {"aten.mul.Scalar", "aten.mul.Tensor"},      {"aten.div.Scalar", "aten.div.Tensor"},
    {"aten.subtract.Scalar", "aten.sub.Tensor"}, {"aten.multiply.Scalar", "aten.mul.Tensor"},
    {"aten.divide.Scalar", "aten.div.Tensor"},   {"aten.true_divide.Scalar", "aten.div.Tensor"},
};

fx::Node* alpha_call(Rewriter& r, std::string_view target, const Value& a, const Value& b) {
  if (r.has("alpha") && r["alpha"] != Value(1)) return r.call(target, {a, b}, {{"alpha", r["alpha"]}});
  return r.call(target, {a, b});
}

Value reversed_sub(Rewriter& r) {
  if (r.node->target == "aten.rsub.Scalar") {  // other - alpha * self
    Value x = r.to(r["self"], r.result().dtype);
    if (r["alpha"] != Value(1)) x = r.mul(x, r["alpha"]);
    return r.add(r.call("aten.neg.default", {x}), r["other"]);
  }
  return alpha_call(r, "aten.sub.Tensor", r["other"], r["self"]);
}

Value floor_divide(Rewriter& r) {
  return r.call("aten.div.Tensor_mode", {r["self"], r["other"]}, {{"rounding_mode", "floor"}});
}

Value rounded_scalar(Rewriter& r) {
  return r.call("aten.div.Tensor_mode", {r["self"], r["other"]}, {{"rounding_mode", r["rounding_mode"]}});
}

Value plain_quotient(Rewriter& r) { return r.has("rounding_mode") ? Value(None{}) : r.div(r["self"], r["other"]); }

Value clamp_one_side(Rewriter& r) {
  if (r.has("min")) return r.call("aten.clamp.default", {r["self"], r["min"], None{}});
  return r.call("aten.clamp.default", {r["self"], None{}, r["max"]});
}

Value clamp_tensor(Rewriter& r) {
  Value x = r["self"];
  if (r.has("min")) x = r.call("aten.maximum.default", {x, r["min"]});
  if (r.has("max")) x = r.call("aten.minimum.default", {x, r["max"]});
  return x;
}

Value square(Rewriter& r) {
  Value x = r.to(r["self"], r.result().dtype);
  return r.mul(x, x);
}

Value frac(Rewriter& r) { return r.sub(r["self"], r.call("aten.trunc.default", {r["self"]})); }
Value relu6(Rewriter& r) { return r.call("aten.hardtanh.default", {r["self"], 0, 6}); }

Decomposition scaled_by(double factor) {
  return [factor](Rewriter& r) -> Value { return r.mul(r["self"], factor); };
}

/// self + value * product. Of integers, eager takes the number without its fraction.
Value add_scaled(Rewriter& r, const Value& product) {
  Value value = r["value"];
  if (value.is<double>() && !is_fractional(r.result().dtype)) value = static_cast<std::int64_t>(value.as_double());
  Value scaled = value == Value(1) ? product : Value(r.mul(product, value));
  return r.to(r.add(r["self"], scaled), r.result().dtype);
}

Value addcmul(Rewriter& r) { return add_scaled(r, r.mul(r["tensor1"], r["tensor2"])); }
Value addcdiv(Rewriter& r) { return add_scaled(r, r.div(r["tensor1"], r["tensor2"])); }

/// Eager's two formulas, chosen by the weight for exactness at both ends.
Value lerp(Rewriter& r) {
  const Value &start = r["self"], &end = r["end"];
  Value weight = r["weight"], span = r.sub(end, start);
  auto low = [&] { return r.add(start, r.mul(weight, span)); };
  auto high = [&](const Value& rest) { return r.sub(end, r.mul(span, rest)); };
  if (weight.is<fx::Node*>() && !weight.as_node()->is_tensor()) {
    weight = r.full({}, weight, r.dtype(start), r.device());
  } else if (r.node->target == "aten.lerp.Scalar") {
    double w = r.real("weight");
    return std::abs(w) < 0.5 ? low() : high(1.0 - w);
  }
  Value near = r.call("aten.lt.Scalar", {r.call("aten.abs.default", {weight}), 0.5});
  return r.where(near, low(), high(r.add(r.call("aten.neg.default", {weight}), 1)));
}

Value is_close(Rewriter& r) {
  const Value &a = r["self"], &b = r["other"];
  Value same = r.call("aten.eq.Tensor", {a, b});
  if (r.flag("equal_nan") && is_fractional(r.dtype(a)))
    same = r.call("aten.logical_or.default",
                  {same, r.call("aten.logical_and.default",
                                {r.call("aten.isnan.default", {a}), r.call("aten.isnan.default", {b})})});
  if (r.real("rtol") == 0 && r.real("atol") == 0) return same;
  auto abs = [&](const Value& x) { return r.call("aten.abs.default", {x}); };
  Value x = is_fractional(r.dtype(a)) ? a : r.to(a, DType::F32),
        y = is_fractional(r.dtype(b)) ? b : r.to(b, DType::F32);
  Value allowed = r.add(abs(r.mul(y, r["rtol"])), r["atol"]), error = abs(r.sub(x, y));
  Value finite = r.call("aten.lt.Scalar", {error, std::numeric_limits<double>::infinity()});
  Value close = r.call("aten.logical_and.default", {finite, r.call("aten.le.Tensor", {error, allowed})});
  return r.call("aten.logical_or.default", {same, close});
}

Value is_finite(Rewriter& r) {
  if (!is_floating(r.dtype(r["self"]))) return r.full(r.result().sizes, true, DType::Bool, r.result().device);
  Value size = r.call("aten.abs.default", {r["self"]});
  return r.call("aten.lt.Scalar", {size, std::numeric_limits<double>::infinity()});
}

Decomposition is_infinity(double infinity) {
  return [infinity](Rewriter& r) -> Value { return r.call("aten.eq.Scalar", {r["self"], infinity}); };
}

Value xlogy(Rewriter& r) {
  const Value &x = r["self"], &y = r["other"];
  auto is_tensor = [](const Value& v) { return v.is<fx::Node*>() && v.as_node()->is_tensor(); };
  DType type = r.result().dtype;
  Value a = is_tensor(x) ? r.to(x, type) : r.full({}, x, type), b = is_tensor(y) ? r.to(y, type) : r.full({}, y, type);
  Value product = r.mul(a, r.call("aten.log.default", {b}));
  Value kept = r.where(r.call("aten.eq.Scalar", {a, 0}), 0, product);
  return r.where(r.call("aten.isnan.default", {b}), b, kept);
}

/// x * log1p(y), 0 where x is 0, NaN where y is.
Value xlog1py(Rewriter& r) {
  const Value &x = r["self"], &y = r["other"];
  auto is_tensor = [](const Value& v) { return v.is<fx::Node*>() && v.as_node()->is_tensor(); };
  DType type = r.result().dtype;
  Value a = is_tensor(x) ? r.to(x, type) : r.full({}, x, type), b = is_tensor(y) ? r.to(y, type) : r.full({}, y, type);
  Value kept = r.where(r.call("aten.eq.Scalar", {a, 0}), 0, r.mul(a, r.call("aten.log1p.default", {b})));
  return r.where(r.call("aten.isnan.default", {b}), b, kept);
}

/// -x log x; 0 at 0, -inf below.
Value entropy(Rewriter& r) {
  Value x = r.to(r["self"], r.result().dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value made = r.mul(r.call("aten.neg.default", {x}), r.call("aten.log.default", {x}));
  made = r.where(r.call("aten.eq.Scalar", {x, 0}), 0, made);
  return r.where(r.call("aten.lt.Scalar", {x, 0}), -kInfinity, made);
}

/// The normal distribution's share below x: half of erfc, which is exact in the lower tail.
Value normal_share(Rewriter& r) {
  constexpr double kSqrtHalf = 0.70710678118654752440;
  Value x = r.to(r["self"], r.result().dtype);
  return r.mul(r.call("aten.erfc.default", {r.mul(x, -kSqrtHalf)}), 0.5);
}

Value logit(Rewriter& r) {
  Value x = is_floating(r.dtype(r["self"])) ? r["self"] : r.to(r["self"], DType::F32);
  if (r.has("eps") && r.real("eps") >= 0) {
    const double low = r.real("eps");
    // Where the bounds cross, the lower one counts below it, and the upper one, which clamp would take, above.
    Value from_above = r.call("aten.clamp.default", {x, None{}, 1.0 - low});
    x = r.where(r.call("aten.lt.Scalar", {x, low}), low, from_above);
  }
  return r.call("aten.log.default", {r.div(x, r.call("aten.rsub.Scalar", {x, 1}))});
}

Value sinc(Rewriter& r) {
  Value x = is_fractional(r.dtype(r["self"])) ? r["self"] : r.to(r["self"], DType::F32);
  Value turn = r.mul(x, M_PI);
  return r.where(r.call("aten.eq.Scalar", {x, 0}), 1, r.div(r.call("aten.sin.default", {turn}), turn));
}

Value nan_to_num(Rewriter& r) {
  Value x = r["self"];
  DType type = r.dtype(x);
  if (!is_floating(type)) return r.call("aten.clone.default", {x});
  double most = std::numeric_limits<double>::max();
  if (type == DType::F32) most = std::numeric_limits<float>::max();
  if (type == DType::F16) most = 65504;
  if (type == DType::BF16) most = 3.3895313892515355e38;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double nan = r.has("nan") ? r.real("nan") : 0, high = r.has("posinf") ? r.real("posinf") : most,
         low = r.has("neginf") ? r.real("neginf") : -most;
  Value known = r.where(r.call("aten.isnan.default", {x}), nan, x);
  known = r.where(r.call("aten.eq.Scalar", {x, kInfinity}), high, known);
  return r.where(r.call("aten.eq.Scalar", {x, -kInfinity}), low, known);
}

Value float_power(Rewriter& r) {
  auto wide = [&](const Value& v) { return v.is<fx::Node*>() && v.as_node()->is_tensor() ? r.to(v, DType::F64) : v; };
  std::string_view form = r.node->target;
  form.remove_prefix(std::string_view("aten.float_power").size());
  std::string target = "aten.pow" + std::string(form);
  return r.call(target, {wide(r["self"]), wide(r["exponent"])});
}

Value ldexp(Rewriter& r) {
  return r.to(r.mul(r["self"], r.call("aten.pow.Scalar", {2.0, r["other"]})), r.result().dtype);
}

/// log(exp(a) + exp(b)), from the greater of the two; equal infinities stay.
Value log_add_exp(Rewriter& r) {
  Value a = r.to(r["self"], r.result().dtype), b = r.to(r["other"], r.result().dtype);
  bool binary = r.node->target == "aten.logaddexp2.default";
  Value most = r.call("aten.maximum.default", {a, b}),
        gap = r.call("aten.neg.default", {r.call("aten.abs.default", {r.sub(a, b)})});
  Value rest =
      binary ? Value(r.mul(r.call("aten.log1p.default", {r.call("aten.exp2.default", {gap})}), 1.0 / std::log(2.0)))
             : Value(r.call("aten.log1p.default", {r.call("aten.exp.default", {gap})}));
  Value endless =
      r.call("aten.logical_and.default", {r.call("aten.isinf.default", {a}), r.call("aten.eq.Tensor", {a, b})});
  return r.where(endless, a, r.add(most, rest));
}

Value hypot(Rewriter& r) {
  auto size_of = [&](const Value& x) { return Value(r.call("aten.abs.default", {r.to(x, r.result().dtype)})); };
  auto infinite = [&](const Value& x) {
    return Value(r.call("aten.eq.Scalar", {x, std::numeric_limits<double>::infinity()}));
  };
  const Value a = size_of(r["self"]), b = size_of(r["other"]), most = r.call("aten.maximum.default", {a, b});
  // The larger one is divided out, so that squares do not overflow; it is also the result beside 0.
  const Value ratio =
      r.div(r.call("aten.minimum.default", {a, b}), r.where(r.call("aten.eq.Scalar", {most, 0}), 1.0, most));
  const Value length = r.mul(most, r.call("aten.sqrt.default", {r.call("aten.add.Scalar", {r.mul(ratio, ratio), 1})}));
  return r.where(r.call("aten.logical_or.default", {infinite(a), infinite(b)}), std::numeric_limits<double>::infinity(),
                 length);
}

// Activations.

Value log_sigmoid(Rewriter& r) {
  const Value& x = r["self"];
  Value decay = r.call("aten.exp.default", {r.call("aten.neg.default", {r.call("aten.abs.default", {x})})});
  return r.sub(r.call("aten.clamp.default", {x, None{}, 0}), r.call("aten.log1p.default", {decay}));
}

/// Whether one of the operator's numbers is known only as the program runs; kernels have theirs in their text.
bool has_free_number(const Rewriter& r) {
  return std::ranges::any_of(r.node->args,
                             [](const Value& v) { return v.is<fx::Node*>() && !v.as_node()->is_tensor(); });
}

/// A number as a tensor without dimensions, in the type that kernels compute `x` in.
Value number_beside(Rewriter& r, const Value& x, std::string_view name) {
  return r.full({}, r[name], compute_dtype(r.dtype(x)), r.device());
}

Value leaky_relu(Rewriter& r) {
  if (!has_free_number(r)) return None{};
  const Value x = r.widened(r["self"]);
  const Value made = r.where(r.call("aten.gt.Scalar", {x, 0}), x, r.mul(x, number_beside(r, x, "negative_slope")));
  return r.to(made, r.result().dtype);
}

/// x * scale where it is positive, else alpha * scale * (exp(x * input_scale) - 1).
Value elu_of_numbers(Rewriter& r, const Value& alpha, const Value& scale, const Value& input_scale) {
  const Value x = r.widened(r["self"]);
  const Value below = r.mul(r.call("aten.expm1.default", {r.mul(x, input_scale)}), r.mul(alpha, scale));
  return r.to(r.where(r.call("aten.gt.Scalar", {x, 0}), r.mul(x, scale), below), r.result().dtype);
}

Value elu(Rewriter& r) {
  if (!has_free_number(r)) return None{};
  const Value& x = r["self"];
  return elu_of_numbers(r, number_beside(r, x, "alpha"), number_beside(r, x, "scale"),
                        number_beside(r, x, "input_scale"));
}

Value celu(Rewriter& r) {
  if (has_free_number(r)) {
    const Value alpha = number_beside(r, r["self"], "alpha"), one = r.full({}, 1.0, r.dtype(alpha), r.device());
    return elu_of_numbers(r, alpha, one, r.div(one, alpha));
  }
  double alpha = r.real("alpha");
  return r.call("aten.elu.default", {r["self"], alpha, 1.0, 1.0 / alpha});
}

Value softplus(Rewriter& r) {
  if (!has_free_number(r)) return None{};
  const Value x = r.widened(r["self"]), beta = number_beside(r, x, "beta"), scaled = r.mul(x, beta);
  const Value soft = r.div(r.call("aten.log1p.default", {r.call("aten.exp.default", {scaled})}), beta);
  const Value linear = r.call("aten.gt.Tensor", {scaled, number_beside(r, x, "threshold")});
  return r.to(r.where(linear, x, soft), r.result().dtype);
}

Value selu(Rewriter& r) {
  return r.call("aten.elu.default",
                {r["self"], 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0});
}

Value threshold(Rewriter& r) {
  if (!has_free_number(r)) return None{};
  return r.where(r.call("aten.le.Scalar", {r["self"], r["threshold"]}), r["value"], r["self"]);
}

/// The weight has one element, or one for each of dimension 1.
Value prelu(Rewriter& r) {
  const Value& x = r["self"];
  Value weight = r["weight"];
  if (r.node->target == "aten.prelu.default" && r.rank(weight) == 1 && r.rank(x) != 1) {
    Exprs sizes(r.rank(x), 1);
    if (r.rank(x) > 1) sizes[1] = r.meta(weight).sizes[0];
    weight = r.reshape(weight, sizes);
  }
  return r.where(r.call("aten.gt.Scalar", {x, 0}), x, r.mul(weight, x));
}

Value hard_shrink(Rewriter& r) {
  double lambda = r.real("lambd");
  const Value& x = r["self"];
  Value inside = r.call("aten.logical_and.default",
                        {r.call("aten.ge.Scalar", {x, -lambda}), r.call("aten.le.Scalar", {x, lambda})});
  return r.where(inside, 0, x);
}

Value soft_shrink(Rewriter& r) {
  double lambda = r.real("lambd");
  const Value& x = r["self"];
  Value above = r.where(r.call("aten.gt.Scalar", {x, lambda}), r.sub(x, lambda), r.mul(x, 0));
  return r.where(r.call("aten.lt.Scalar", {x, -lambda}), r.add(x, lambda), above);
}

Value glu(Rewriter& r) {
  const Value& x = r["self"];
  std::int64_t d = r.dim("dim", r.rank(x));
  Expr half = r.result().sizes[static_cast<std::size_t>(d)];
  return r.mul(r.slice(x, d, 0, half), r.call("aten.sigmoid.default", {r.slice(x, d, half, half * 2)}));
}

Value where_numbers(Rewriter& r) {
  auto tensor = [&](const Value& v) {
    if (v.is<fx::Node*>() && v.as_node()->is_tensor()) return v;
    return r.full({}, v, r.result().dtype, r.result().device);
  };
  return r.call("aten.where.self", {r["condition"], tensor(r["self"]), tensor(r["other"])});
}

/// a * b + c; kernels contract it.
Value fused_product(Rewriter& r) { return r.add(r.mul(r["a"], r["b"]), r["c"]); }

void add_activations(DecompositionTable& t) {
  t["aten.log_sigmoid.default"] = log_sigmoid;
  t["aten.celu.default"] = celu;
  t["aten.elu.default"] = elu;
  t["aten.leaky_relu.default"] = leaky_relu;
  t["aten.softplus.default"] = softplus;
  t["aten.selu.default"] = selu;
  t["aten.threshold.default"] = threshold;
  t["aten.prelu.default"] = prelu;
  t["aten._prelu_kernel.default"] = prelu;
  t["aten.hardshrink.default"] = hard_shrink;
  t["aten.softshrink.default"] = soft_shrink;
  t["aten.glu.default"] = glu;
}

}  // namespace

void decompose_pointwise(DecompositionTable& t) {
  for (auto [alias, main] : kAliases)
    t[alias] = [main = main](Rewriter& r) -> Value { return r.call(main, r.node->args); };
  for (auto [scalar, tensor] : kScalarForms)
    t[scalar] = [tensor = tensor](Rewriter& r) -> Value { return alpha_call(r, tensor, r["self"], r["other"]); };
  t["aten.rsub.Tensor"] = reversed_sub;
  t["aten.rsub.Scalar"] = reversed_sub;
  t["aten.floor_divide.default"] = floor_divide;
  t["aten.floor_divide.Scalar"] = floor_divide;
  t["aten.div.Scalar_mode"] = rounded_scalar;
  t["aten.divide.Scalar_mode"] = rounded_scalar;
  t["aten.div.Tensor_mode"] = plain_quotient;
  t["aten.clamp_min.default"] = clamp_one_side;
  t["aten.clamp_max.default"] = clamp_one_side;
  t["aten.clamp.Tensor"] = clamp_tensor;
  t["aten.square.default"] = square;
  t["aten._neg_view.default"] = [](Rewriter& r) -> Value { return r.call("aten.neg.default", {r["self"]}); };
  t["aten.frac.default"] = frac;
  t["aten.relu6.default"] = relu6;
  t["aten.deg2rad.default"] = scaled_by(M_PI / 180);
  t["aten.rad2deg.default"] = scaled_by(180 / M_PI);
  t["aten.addcmul.default"] = addcmul;
  t["aten.addcdiv.default"] = addcdiv;
  t["prims.fma.default"] = fused_product;
  t["aten.lerp.Scalar"] = lerp;
  t["aten.lerp.Tensor"] = lerp;
  t["aten.isclose.default"] = is_close;
  t["aten.isfinite.default"] = is_finite;
  t["aten.isposinf.default"] = is_infinity(std::numeric_limits<double>::infinity());
  t["aten.isneginf.default"] = is_infinity(-std::numeric_limits<double>::infinity());
  for (std::string_view op : {"aten.xlogy.Tensor", "aten.xlogy.Scalar_Other", "aten.xlogy.Scalar_Self"}) t[op] = xlogy;
  for (std::string_view op :
       {"aten.special_xlog1py.default", "aten.special_xlog1py.other_scalar", "aten.special_xlog1py.self_scalar"})
    t[op] = xlog1py;
  t["aten.special_entr.default"] = entropy;
  t["aten.special_ndtr.default"] = normal_share;
  t["aten.logit.default"] = logit;
  t["aten.sinc.default"] = sinc;
  t["aten.nan_to_num.default"] = nan_to_num;
  for (std::string_view op :
       {"aten.float_power.Tensor_Tensor", "aten.float_power.Tensor_Scalar", "aten.float_power.Scalar"})
    t[op] = float_power;
  t["aten.ldexp.Tensor"] = ldexp;
  t["aten.logaddexp.default"] = log_add_exp;
  t["aten.logaddexp2.default"] = log_add_exp;
  t["aten.hypot.default"] = hypot;
  add_activations(t);
  for (std::string_view op : {"aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar"})
    t[op] = where_numbers;
}

}  // namespace coil::passes
