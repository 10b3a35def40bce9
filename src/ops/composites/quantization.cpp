// Affine quantization: numbers rounded to a grid of whole numbers between `quant_min` and `quant_max`, and back. Fake
// quantization does both and stays in floats (ATen/native/quantized/FakeQuantPerTensorAffine.cpp);
// `quantized_decomposed` is what PyTorch's exported quantized models are written in
// (torch/ao/quantization/fx/_decomposed.py).
#include "ops/composites/steps.h"

namespace coil::ops::composites {

namespace {

/// A vector of parameters along dimension `axis` of `x`.
Value along(Steps& s, const Value& parameters, const Value& x, std::int64_t axis) {
  Exprs sizes(s.rank(x), 1);
  sizes[static_cast<std::size_t>(s.wrapped(axis, s.rank(x)))] = s.size(parameters, 0);
  return s.reshape(parameters, sizes);
}

/// A tensor of one element, as a number of this type.
Value number_of(Steps& s, const Value& one, DType type) { return s.reshape(s.to(one, type), {}); }

Value clamp(Steps& s, const Value& x, const Value& low, const Value& high) {
  return s.call("aten.clamp.default", {x, low, high});
}

Value between(Steps& s, const Value& x) {
  return s.call("aten.logical_and.default",
                {s.call("aten.ge.Scalar", {x, s["quant_min"]}), s.call("aten.le.Scalar", {x, s["quant_max"]})});
}

// --- fake quantization

struct Grid {
  Value scale, inverse, zero_point;
  bool whole = true;  ///< the zero point is an integer: it is added after rounding
};

/// (the nearest points of the grid, which elements lay in its range). An element that is no number goes to `quant_min`,
/// and so do, where `wraps`, those too large for an int64: eager's kernel for channels converts.
Values fake_quantized(Steps& s, const Grid& grid, bool wraps) {
  const Value& x = s["self"];
  const DType type = compute_dtype(s.dtype(x));
  Value steps = s.mul(s.to(x, type), grid.inverse);
  Value q =
      grid.whole ? s.add(grid.zero_point, s.unary("round", steps)) : s.unary("round", s.add(steps, grid.zero_point));
  const Value mask = between(s, q), least = s.full({}, s["quant_min"], s.dtype(q));
  constexpr double kWidest = 9223372036854775808.0;
  const Value in_reach =
      wraps ? s.call("aten.lt.Scalar", {s.unary("abs", q), kWidest}) : s.unary("logical_not", s.unary("isnan", q));
  q = clamp(s, s.where(in_reach, q, least), s["quant_min"], s["quant_max"]);
  return {s.to(s.mul(s.sub(q, grid.zero_point), grid.scale), s.dtype(x)), mask};
}

Grid grid_of_numbers(Steps& s) {
  const auto scale = static_cast<float>(s.real("scale"));
  return {static_cast<double>(scale), static_cast<double>(1.0f / scale),
          s.full({}, s["zero_point"], compute_dtype(s.dtype(s["self"])))};
}

Grid grid_of_tensors(Steps& s) {
  const Value scale = number_of(s, s["scale"], DType::F32);
  return {scale, s.unary("reciprocal", scale), number_of(s, s["zero_point"], DType::F32)};
}

Grid grid_of_channels(Steps& s) {
  const Value &x = s["self"], scale = along(s, s.to(s["scale"], DType::F32), x, s.number("axis")),
              &zero = s["zero_point"];
  return {scale, s.unary("reciprocal", scale), along(s, s.to(zero, DType::F32), x, s.number("axis")),
          !is_floating(s.dtype(zero))};
}

Value fake_per_tensor(Steps& s) { return fake_quantized(s, grid_of_numbers(s), false)[0]; }
Value fake_per_tensor_masked(Steps& s) { return fake_quantized(s, grid_of_numbers(s), false); }
Value fake_per_tensor_of_tensors(Steps& s) { return fake_quantized(s, grid_of_tensors(s), false)[0]; }
Value fake_per_channel(Steps& s) { return fake_quantized(s, grid_of_channels(s), true)[0]; }
Value fake_per_channel_masked(Steps& s) { return fake_quantized(s, grid_of_channels(s), true); }

/// With a switch that is a tensor.
Value fake_switched(Steps& s) {
  const Value on = s.call("aten.ne.Scalar", {number_of(s, s["fake_quant_enabled"], DType::I64), 0});
  const Values made = fake_quantized(s, grid_of_tensors(s), false);
  return Values{s.where(on, made[0], s["self"]),
                s.call("aten.logical_or.default", {made[1], s.unary("logical_not", on)})};
}

// --- quantized_decomposed

DType dtype_of(Steps& s) { return s["dtype"].as_dtype(); }
DType out_dtype(Steps& s) { return s.has("out_dtype") ? s["out_dtype"].as_dtype() : DType::F32; }

Value quantized(Steps& s, const Value& steps, const Value& zero_point) {
  Value q = s.add(s.unary("round", steps), zero_point);
  if (s.op.schema.target.ends_with(".tensor2"))  // the limits are tensors
    q = s.call("aten.clamp.Tensor",
               {q, number_of(s, s["quant_min"], DType::F32), number_of(s, s["quant_max"], DType::F32)});
  else
    q = clamp(s, q, s["quant_min"], s["quant_max"]);
  return s.to(q, dtype_of(s));
}

Value wide(Steps& s) { return s.to(s["input"], DType::F32); }

Value quantize_per_tensor(Steps& s) { return quantized(s, s.mul(wide(s), 1.0 / s.real("scale")), s["zero_point"]); }

/// Python's numbers are doubles: the reciprocal is taken as one.
Value quantize_per_tensor_of_tensors(Steps& s) {
  const Value inverse = s.to(s.unary("reciprocal", number_of(s, s["scale"], DType::F64)), DType::F32);
  return quantized(s, s.mul(wide(s), inverse), number_of(s, s["zero_point"], DType::F32));
}

Value dequantize_per_tensor(Steps& s) {
  return s.mul(s.sub(s.to(s["input"], out_dtype(s)), s["zero_point"]), s["scale"]);
}

Value dequantize_per_tensor_of_tensors(Steps& s) {
  const DType type = out_dtype(s);
  return s.mul(s.sub(s.to(s["input"], type), number_of(s, s["zero_point"], type)), number_of(s, s["scale"], type));
}

Value quantize_per_channel(Steps& s) {
  const std::int64_t axis = s.number("axis");
  return quantized(s, s.mul(wide(s), s.unary("reciprocal", along(s, s["scales"], s["input"], axis))),
                   along(s, s["zero_points"], s["input"], axis));
}

Value dequantize_per_channel(Steps& s) {
  const std::int64_t axis = s.number("axis");
  Value x = s["input"];
  if (s.has("zero_points")) x = s.sub(x, along(s, s["zero_points"], x, axis));
  return s.to(s.mul(x, along(s, s["scales"], x, axis)), out_dtype(s));
}

/// With the zero point added before rounding.
Value quantized_late(Steps& s, const Value& x, const Value& scales, const Value& zero_points) {
  const Value q = s.unary("round", s.add(s.mul(x, s.unary("reciprocal", scales)), zero_points));
  return s.to(clamp(s, q, s["quant_min"], s["quant_max"]), dtype_of(s));
}

Value quantize_per_token(Steps& s) { return quantized_late(s, s["input"], s["scales"], s["zero_points"]); }

Value dequantize_per_token(Steps& s) {
  return s.to(s.mul(s.sub(s["input"], s["zero_points"]), s["scales"]), s["output_dtype"].as_dtype());
}

/// Rows cut into groups: one group a row.
Value groups(Steps& s, const Value& x) {
  if (s.rank(x) != 2) s.refuse("takes a matrix");
  Expr group = s.number("group_size");
  if (s.env.statically_known_true(sym::gt(group, s.size(x, 1)))) group = s.size(x, 1);
  return s.reshape(x, {s.env.simplify(sym::floor_div(s.size(x, 0) * s.size(x, 1), group)), group});
}

Value column(Steps& s, const Value& x) { return s.reshape(x, {s.env.simplify(sym::product(s.sizes(x))), 1}); }

Value quantize_per_group(Steps& s) {
  return s.reshape(quantized_late(s, groups(s, s["input"]), column(s, s["scales"]), column(s, s["zero_points"])),
                   s.sizes(s["input"]));
}

Value dequantize_per_group(Steps& s) {
  Value x = groups(s, s["input"]);
  x = s.has("zero_points") ? s.sub(x, column(s, s["zero_points"])) : s.to(x, promote_types(s.dtype(x), DType::I32));
  return s.to(s.reshape(s.mul(x, column(s, s["scales"])), s.sizes(s["input"])), s["output_dtype"].as_dtype());
}

Value fake_quant_per_channel(Steps& s) {
  const Value& x = s["input"];
  const Value scale = along(s, s.to(s["scales"], DType::F32), x, s.number("axis")),
              zero = along(s, s.to(s["zero_points"], DType::I32), x, s.number("axis"));
  const Value q = s.add(s.unary("round", s.mul(x, s.unary("reciprocal", scale))), zero);
  return s.mul(s.sub(clamp(s, q, s["quant_min"], s["quant_max"]), zero), scale);
}

struct Extremes {
  Value least, most;
};

/// The range of the values, with 0 in it.
Extremes extremes(Steps& s, const Value& x, const std::vector<std::int64_t>& dims, bool keep) {
  auto reduced = [&](const char* target) { return s.call(target, {x, Steps::list(dims), keep}); };
  return {s.call("aten.clamp_max.default", {reduced("aten.amin.default"), 0}),
          s.call("aten.clamp_min.default", {reduced("aten.amax.default"), 0})};
}

/// Scale and zero point of the whole tensor (determine_qparams of torch/ao/quantization/utils.py), each of one element.
Value choose(Steps& s, bool symmetric) {
  const std::int64_t low = s.number("quant_min"), high = s.number("quant_max");
  auto [least, most] = extremes(s, s["input"], {}, false);
  const Value eps = s.full({1}, static_cast<double>(static_cast<float>(s.real("eps"))), DType::F32);
  Value scale, zero;
  if (symmetric) {
    most = s.call("aten.maximum.default", {s.unary("neg", least), most});
    scale = s.call("aten.maximum.default", {s.div(most, static_cast<double>(high - low) / 2), eps});
    zero = s.full({1}, dtype_of(s) == DType::U8 ? 128 : 0, DType::I64);
  } else {
    scale = s.call("aten.maximum.default", {s.div(s.sub(most, least), static_cast<double>(high - low)), eps});
    const Value steps = s.to(s.unary("round", s.div(least, scale)), DType::I32);
    zero = clamp(s, s.sub(s.full({}, low, DType::I32), steps), low, high);
  }
  return Values{s.to(scale, DType::F64), s.to(zero, DType::I64)};
}

Value choose_affine(Steps& s) { return choose(s, false); }
Value choose_symmetric(Steps& s) { return choose(s, true); }

/// Scale and zero point of every row, in int8, as XNNPACK chooses them: the zero point is the one nearer to its own end
/// of the range.
Value choose_per_token(Steps& s) {
  constexpr int kLow = -128, kHigh = 127;
  constexpr double kEps = 1.1920928955078125e-07;
  const auto [least, most] = extremes(s, s["input"], {-1}, true);
  const Value scale = s.call("aten.clamp_min.default", {s.div(s.sub(most, least), double{kHigh - kLow}), kEps});
  const Value down = s.div(least, scale), up = s.div(most, scale);
  auto from = [&](int end, const Value& x) { return s.call("aten.rsub.Scalar", {x, double(end)}); };
  const Value errors = s.add(s.add(down, double{kLow}), s.add(up, double{kHigh}));
  const Value zero = s.where(s.call("aten.gt.Scalar", {errors, 0}), from(kLow, down), from(kHigh, up));
  return Values{s.to(scale, DType::F64), s.to(s.unary("round", clamp(s, zero, kLow, kHigh)), DType::I64)};
}

Value convert(Steps& s) { return s.to(s["input"], dtype_of(s)); }

// --- products of narrow numbers

/// Bytes, whose products are added up as 32-bit integers.
Value integer_product(Steps& s) {
  if (s.dtype(s["self"]) != DType::I8 || s.dtype(s["mat2"]) != DType::I8) s.refuse("takes two matrices of int8");
  return s.call("aten.mm.default", {s.to(s["self"], DType::I32), s.to(s["mat2"], DType::I32)});
}

/// 8-bit floats with a scale for each matrix, or for each row of the one and each column of the other
/// (ATen/native/Blas.cpp).
Value scaled_product(Steps& s) {
  const Value &a = s["self"], &b = s["mat2"];
  for (const Value* x : {&a, &b})
    if (size_of(s.dtype(*x)) != 1 || !is_floating(s.dtype(*x))) s.refuse("takes matrices of 8-bit floats");
  auto scale = [&](const char* name) { return s.rank(s[name]) == 2 ? s[name] : s.reshape(s[name], {}); };
  Value y = s.mul(s.mul(s.call("aten.mm.default", {s.to(a, DType::F32), s.to(b, DType::F32)}), scale("scale_a")),
                  scale("scale_b"));
  if (s.has("bias")) y = s.add(y, s.to(s["bias"], DType::F32));
  const DType out = s.has("out_dtype") ? s["out_dtype"].as_dtype() : s.dtype(a);
  if (size_of(out) == 1 && s.has("scale_result")) y = s.mul(y, s.reshape(s["scale_result"], {}));
  return s.to(y, out);
}

constexpr Composite kQuantization[] = {
    {"aten::fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> "
     "Tensor",
     fake_per_tensor},
    {"aten::fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int "
     "quant_min, int quant_max) -> Tensor",
     fake_per_tensor_of_tensors},
    {"aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, int quant_min, int "
     "quant_max) -> (Tensor output, Tensor mask)",
     fake_per_tensor_masked},
    {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, "
     "Tensor fake_quant_enabled, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     fake_switched},
    {"aten::fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, "
     "int quant_max) -> Tensor",
     fake_per_channel},
    {"aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, int axis, int "
     "quant_min, int quant_max) -> (Tensor output, Tensor mask)",
     fake_per_channel_masked},
    {"quantized_decomposed::quantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
     "quant_max, ScalarType dtype) -> Tensor",
     quantize_per_tensor},
    {"quantized_decomposed::quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
     "int quant_max, ScalarType dtype) -> Tensor",
     quantize_per_tensor_of_tensors},
    {"quantized_decomposed::quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
     "quant_min, Tensor quant_max, ScalarType dtype) -> Tensor",
     quantize_per_tensor_of_tensors},
    {"quantized_decomposed::dequantize_per_tensor(Tensor input, float scale, int zero_point, int quant_min, int "
     "quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_tensor},
    {"quantized_decomposed::dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, int quant_min, "
     "int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_tensor_of_tensors},
    {"quantized_decomposed::dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor "
     "quant_min, Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_tensor_of_tensors},
    {"quantized_decomposed::quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
     "quant_min, int quant_max, ScalarType dtype) -> Tensor",
     quantize_per_channel},
    {"quantized_decomposed::dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int "
     "quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor",
     dequantize_per_channel},
    {"quantized_decomposed::quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
     "quant_max, ScalarType dtype) -> Tensor",
     quantize_per_token},
    {"quantized_decomposed::dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int "
     "quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor",
     dequantize_per_token},
    {"quantized_decomposed::quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
     "int quant_max, ScalarType dtype, int group_size) -> Tensor",
     quantize_per_group},
    {"quantized_decomposed::dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int "
     "quant_min, int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor",
     dequantize_per_group},
    {"quantized_decomposed::fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int "
     "quant_min, int quant_max) -> Tensor",
     fake_quant_per_channel},
    {"quantized_decomposed::choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType "
     "dtype) -> (Tensor, Tensor)",
     choose_affine},
    {"quantized_decomposed::choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, "
     "ScalarType dtype) -> (Tensor, Tensor)",
     choose_symmetric},
    {"quantized_decomposed::choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)",
     choose_per_token},
    {"aten::_int_mm(Tensor self, Tensor mat2) -> Tensor", integer_product},
    {"aten::_scaled_mm(Tensor self, Tensor mat2, Tensor scale_a, Tensor scale_b, Tensor? bias=None, Tensor? "
     "scale_result=None, ScalarType? out_dtype=None, bool use_fast_accum=False) -> Tensor",
     scaled_product},
    {"quantized_decomposed::convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", convert},
};

}  // namespace

std::span<const Composite> quantization() { return kQuantization; }

}  // namespace coil::ops::composites
