#include "codegen/triton/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace coil::codegen {
namespace {

using ir::ScalarOp;

struct Row {
  ScalarOp op;
  std::string_view floats, integers, bools;  ///< of these operands; empty: none
};

// Spellings without a parenthesis in front of their operands are plain.
// (-x is 0 - x in Triton, which has not the sign of -0.)
constexpr Row kRows[] = {
    {ScalarOp::Add, "{0} + {1}", "{0} + {1}", "{0} | {1}"},
    {ScalarOp::Sub, "{0} - {1}", "{0} - {1}", "{0} ^ {1}"},
    {ScalarOp::Mul, "{0} * {1}", "{0} * {1}", "{0} & {1}"},
    {ScalarOp::Div, "c_div_float({0}, {1})", "", ""},
    {ScalarOp::FloorDiv, "c_floordiv_float({0}, {1})", "c_floordiv({0}, {1})", ""},
    {ScalarOp::TruncDiv, "libdevice.trunc(c_div_float({0}, {1}))", "c_truncdiv({0}, {1})", ""},
    {ScalarOp::Rem, "c_rem_float({0}, {1})", "c_rem({0}, {1})", ""},
    {ScalarOp::Fmod, "libdevice.fmod({0}, {1})", "c_fmod({0}, {1})", ""},
    {ScalarOp::Pow, "libdevice.pow({0}, {1})", "c_pow_int({0}, {1})", ""},
    {ScalarOp::Max, "c_max({0}, {1})", "c_max({0}, {1})", "{0} | {1}"},
    {ScalarOp::Min, "c_min({0}, {1})", "c_min({0}, {1})", "{0} & {1}"},
    {ScalarOp::FMax, "c_fmax({0}, {1})", "c_fmax({0}, {1})", "{0} | {1}"},
    {ScalarOp::FMin, "c_fmin({0}, {1})", "c_fmin({0}, {1})", "{0} & {1}"},
    {ScalarOp::Atan2, "libdevice.atan2({0}, {1})", "", ""},
    {ScalarOp::Hypot, "libdevice.hypot({0}, {1})", "", ""},
    {ScalarOp::Copysign, "libdevice.copysign({0}, {1})", "", ""},
    {ScalarOp::Nextafter, "libdevice.nextafter({0}, {1})", "", ""},
    {ScalarOp::And, "", "{0} & {1}", "{0} & {1}"},
    {ScalarOp::Or, "", "{0} | {1}", "{0} | {1}"},
    {ScalarOp::Xor, "", "{0} ^ {1}", "{0} ^ {1}"},
    {ScalarOp::Not, "", "~{0}", "~{0}"},
    {ScalarOp::Shl, "", "c_shl({0}, {1})", ""},
    {ScalarOp::Shr, "", "c_shr({0}, {1})", ""},
    {ScalarOp::Eq, "{0} == {1}", "{0} == {1}", "{0} == {1}"},
    {ScalarOp::Ne, "{0} != {1}", "{0} != {1}", "{0} != {1}"},
    {ScalarOp::Lt, "{0} < {1}", "{0} < {1}", "{0} < {1}"},
    {ScalarOp::Le, "{0} <= {1}", "{0} <= {1}", "{0} <= {1}"},
    {ScalarOp::Gt, "{0} > {1}", "{0} > {1}", "{0} > {1}"},
    {ScalarOp::Ge, "{0} >= {1}", "{0} >= {1}", "{0} >= {1}"},
    {ScalarOp::Neg, "{0} * -1.0", "-{0}", ""},
    {ScalarOp::Abs, "tl.abs({0})", "tl.abs({0})", "{0}"},
    {ScalarOp::Sign, "c_sign({0})", "c_sign({0})", "{0}"},
    {ScalarOp::Sqrt, "c_sqrt({0})", "", ""},
    {ScalarOp::Rsqrt, "libdevice.rsqrt({0})", "", ""},
    {ScalarOp::Recip, "c_recip({0})", "", ""},
    {ScalarOp::Floor, "tl.floor({0})", "", ""},
    {ScalarOp::Ceil, "tl.ceil({0})", "", ""},
    {ScalarOp::Trunc, "libdevice.trunc({0})", "", ""},
    {ScalarOp::RoundEven, "libdevice.rint({0})", "", ""},
    {ScalarOp::IsNan, "{0} != {0}", "", ""},
    {ScalarOp::IsInf, "tl.abs({0}) == float(\"inf\")", "", ""},
    {ScalarOp::Signbit, "libdevice.signbit({0}) != 0", "{0} < 0", ""},
    {ScalarOp::Exp, "libdevice.exp({0})", "", ""},
    {ScalarOp::Exp2, "libdevice.exp2({0})", "", ""},
    {ScalarOp::Expm1, "libdevice.expm1({0})", "", ""},
    {ScalarOp::Log, "libdevice.log({0})", "", ""},
    {ScalarOp::Log2, "libdevice.log2({0})", "", ""},
    {ScalarOp::Log10, "libdevice.log10({0})", "", ""},
    {ScalarOp::Log1p, "libdevice.log1p({0})", "", ""},
    {ScalarOp::Sin, "libdevice.sin({0})", "", ""},
    {ScalarOp::Cos, "libdevice.cos({0})", "", ""},
    {ScalarOp::Tan, "libdevice.tan({0})", "", ""},
    {ScalarOp::Asin, "libdevice.asin({0})", "", ""},
    {ScalarOp::Acos, "libdevice.acos({0})", "", ""},
    {ScalarOp::Atan, "libdevice.atan({0})", "", ""},
    {ScalarOp::Sinh, "libdevice.sinh({0})", "", ""},
    {ScalarOp::Cosh, "libdevice.cosh({0})", "", ""},
    {ScalarOp::Tanh, "libdevice.tanh({0})", "", ""},
    {ScalarOp::Asinh, "libdevice.asinh({0})", "", ""},
    {ScalarOp::Acosh, "libdevice.acosh({0})", "", ""},
    {ScalarOp::Atanh, "libdevice.atanh({0})", "", ""},
    {ScalarOp::Erf, "libdevice.erf({0})", "", ""},
    {ScalarOp::Erfc, "libdevice.erfc({0})", "", ""},
    {ScalarOp::Erfinv, "libdevice.erfinv({0})", "", ""},
    {ScalarOp::Sigmoid, "c_sigmoid({0})", "", ""},
    {ScalarOp::Lgamma, "libdevice.lgamma({0})", "", ""},
};

/// The functions of device/triton/special.py.
constexpr Row kSpecial[] = {
    {ScalarOp::Gcd, "", "c_gcd({0}, {1})", ""},
    {ScalarOp::Digamma, "c_digamma({0})", "", ""},
    {ScalarOp::I0, "c_i0({0})", "", ""},
    {ScalarOp::I0e, "c_i0e({0})", "", ""},
    {ScalarOp::I1, "c_i1({0})", "", ""},
    {ScalarOp::I1e, "c_i1e({0})", "", ""},
    {ScalarOp::K0, "c_k0({0})", "", ""},
    {ScalarOp::K0e, "c_k0e({0})", "", ""},
    {ScalarOp::K1, "c_k1({0})", "", ""},
    {ScalarOp::K1e, "c_k1e({0})", "", ""},
    {ScalarOp::J0, "c_j0({0})", "", ""},
    {ScalarOp::J1, "c_j1({0})", "", ""},
    {ScalarOp::Y0, "c_y0({0})", "", ""},
    {ScalarOp::Y1, "c_y1({0})", "", ""},
    {ScalarOp::Erfcx, "c_erfcx({0})", "", ""},
    {ScalarOp::Ndtri, "c_ndtri({0})", "", ""},
    {ScalarOp::Zeta, "c_zeta({0}, {1})", "", ""},
    {ScalarOp::Igamma, "c_igamma({0}, {1})", "", ""},
    {ScalarOp::Igammac, "c_igammac({0}, {1})", "", ""},
    {ScalarOp::ChebyshevT, "c_chebyshev_t({0}, {1})", "", ""},
    {ScalarOp::ChebyshevU, "c_chebyshev_u({0}, {1})", "", ""},
    {ScalarOp::ChebyshevV, "c_chebyshev_v({0}, {1})", "", ""},
    {ScalarOp::ChebyshevW, "c_chebyshev_w({0}, {1})", "", ""},
    {ScalarOp::HermiteH, "c_hermite_h({0}, {1})", "", ""},
    {ScalarOp::HermiteHe, "c_hermite_he({0}, {1})", "", ""},
    {ScalarOp::Laguerre, "c_laguerre({0}, {1})", "", ""},
    {ScalarOp::Legendre, "c_legendre({0}, {1})", "", ""},
    {ScalarOp::PoissonDraw, "c_poisson_draw({0}, {1})", "", ""},
};

const Row* find_row(std::span<const Row> rows, ScalarOp op) {
  const auto found = std::ranges::find(rows, op, &Row::op);
  return found == rows.end() ? nullptr : &*found;
}

struct Type {
  DType dtype;
  std::string_view name, signature;
};

constexpr Type kTypes[] = {
    {DType::U8, "tl.uint8", "u8"},        {DType::I8, "tl.int8", "i8"},       {DType::I16, "tl.int16", "i16"},
    {DType::I32, "tl.int32", "i32"},      {DType::I64, "tl.int64", "i64"},    {DType::F16, "tl.float16", "fp16"},
    {DType::F32, "tl.float32", "fp32"},   {DType::F64, "tl.float64", "fp64"}, {DType::Bool, "tl.int1", "i1"},
    {DType::BF16, "tl.bfloat16", "bf16"}, {DType::U16, "tl.uint16", "u16"},   {DType::U32, "tl.uint32", "u32"},
    {DType::U64, "tl.uint64", "u64"},     {DType::F8E4M3, "tl.uint8", "u8"},  {DType::F8E5M2, "tl.uint8", "u8"},
};

const Type* find_type(DType d) {
  const auto* found = std::ranges::find(kTypes, d, &Type::dtype);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

std::optional<TritonSpelling> triton_spelling(ScalarOp op, DType operand, bool coarse) {
  if (coarse && operand == DType::F32) {
    if (op == ScalarOp::Div) return TritonSpelling{"{0} / {1}", true};
    if (op == ScalarOp::Exp) return TritonSpelling{"tl.exp({0})"};
    if (op == ScalarOp::Sigmoid) return TritonSpelling{"tl.sigmoid({0})"};
  }
  const Row *special = find_row(kSpecial, op), *row = special ? special : find_row(kRows, op);
  if (!row) return std::nullopt;
  // Triton's own ~ is of signed integers in its interpreter.
  if (op == ScalarOp::Not && operand == DType::U8) return TritonSpelling{"{0} ^ 255", true};
  if (op == ScalarOp::Not && operand == DType::U16) return TritonSpelling{"{0} ^ 65535", true};
  if (op == ScalarOp::Not && operand == DType::U32) return TritonSpelling{"{0} ^ 4294967295", true};
  if (op == ScalarOp::Not && operand == DType::U64) return TritonSpelling{"{0} ^ 18446744073709551615", true};
  if (op == ScalarOp::Abs && is_integral(operand) && !is_signed(operand)) return TritonSpelling{"{0}", true};
  const std::string_view text = operand == DType::Bool ? row->bools
                                : is_floating(operand) ? row->floats
                                                       : row->integers;
  if (text.empty()) return std::nullopt;
  return TritonSpelling{text, text.find("({") == std::string_view::npos, special != nullptr};
}

std::string triton_type(DType d) {
  const Type* type = find_type(d);
  return type ? std::string(type->name) : "";
}

std::string triton_loaded(const std::string& element, DType d) {
  if (is_float8(d)) return fmt::format("c_get_{}({})", short_name(d), element);
  return d == DType::F16 || d == DType::BF16 ? fmt::format("tl.cast({}, tl.float32)", element) : element;
}

std::string triton_stored(const std::string& value, DType d) {
  if (is_float8(d)) return fmt::format("c_put_{}({})", short_name(d), value);
  return d == DType::BF16 || d == DType::F16 ? fmt::format("tl.cast({}, {})", value, triton_type(d)) : value;
}

std::string_view triton_signature(DType d) {
  const Type* type = find_type(d);
  return type ? type->signature : "";
}

std::string triton_literal(ir::Scalar n) {
  if (is_floating(n->dtype)) {
    if (std::isnan(n->number)) return "float(\"nan\")";
    if (std::isinf(n->number)) return n->number < 0 ? "float(\"-inf\")" : "float(\"inf\")";
    const double x = n->dtype == DType::F32 ? static_cast<double>(static_cast<float>(n->number)) : n->number;
    const std::string text = fmt::format("{}", x);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  if (n->dtype == DType::Bool) return n->integer ? "True" : "False";
  return n->dtype == DType::U64 ? std::to_string(static_cast<std::uint64_t>(n->integer)) : std::to_string(n->integer);
}

}  // namespace coil::codegen
