#include "support/float_functions.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "support/error.h"

namespace coil {
namespace {

constexpr FloatSignature kSignatures[] = {
#define X(e, ...) {__VA_ARGS__},
    COIL_FLOAT_FUNCTIONS(X)
#undef X
};

std::int64_t whole(double x) {
  if (!(std::fabs(x) < 0x1p63)) fail("a size is made of the float {}, which does not fit in 64 bits", x);
  return static_cast<std::int64_t>(x);
}

double remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double value(FloatFunction f, double a, double b) {
  switch (f) {
    case FloatFunction::Add: return a + b;
    case FloatFunction::Mul: return a * b;
    case FloatFunction::Div: return a / b;
    case FloatFunction::Pow: return std::pow(a, b);
    case FloatFunction::Mod: return remainder(a, b);
    case FloatFunction::Min: return std::min(a, b);
    case FloatFunction::Max: return std::max(a, b);
    case FloatFunction::Abs: return std::fabs(a);
    case FloatFunction::Floor: return std::floor(a);
    case FloatFunction::Sqrt: return std::sqrt(a);
    case FloatFunction::Exp: return std::exp(a);
    case FloatFunction::Log: return std::log(a);
    case FloatFunction::Log2: return std::log2(a);
    case FloatFunction::Sin: return std::sin(a);
    case FloatFunction::Cos: return std::cos(a);
    case FloatFunction::Tan: return std::tan(a);
    case FloatFunction::Asin: return std::asin(a);
    case FloatFunction::Acos: return std::acos(a);
    case FloatFunction::Atan: return std::atan(a);
    case FloatFunction::Sinh: return std::sinh(a);
    case FloatFunction::Cosh: return std::cosh(a);
    case FloatFunction::Tanh: return std::tanh(a);
    default: break;
  }
  COIL_CHECK(false, "no function of floats");
  return 0;
}

}  // namespace

const FloatSignature& signature_of(FloatFunction f) { return kSignatures[static_cast<std::size_t>(f)]; }

std::optional<FloatFunction> float_function_named(std::string_view name) {
  for (int i = 0; i < kFloatFunctions; ++i)
    if (kSignatures[i].name == name) return static_cast<FloatFunction>(i);
  return std::nullopt;
}

double round_decimal(double x, std::int64_t digits) {
  // Beyond these every double has fewer digits, or is less than half of the last.
  if (!std::isfinite(x) || x == 0 || digits > 323) return x;
  if (digits < -309) return std::copysign(0.0, x);
  char text[800];
  const auto print = [&](std::chars_format format, int precision) {
    return std::string_view(
        text, static_cast<std::size_t>(std::to_chars(text, std::end(text), x, format, precision).ptr - text));
  };
  std::string_view rounded;
  std::string unit;
  if (digits >= 0) {
    rounded = print(std::chars_format::fixed, static_cast<int>(digits));
  } else {
    // All digits of the integer part, of which the last `-digits` go; with fewer than those, one unit or none.
    const std::string_view exact = print(std::chars_format::scientific, 60);
    const int places = std::stoi(std::string(exact.substr(exact.find('e') + 1))), last = static_cast<int>(-digits);
    if (places >= last) {
      rounded = print(std::chars_format::scientific, places - last);
    } else {
      const std::string_view mantissa = exact.substr(x < 0, exact.find('e') - (x < 0));
      const bool more =
          places == last - 1 &&
          (mantissa[0] > '5' || (mantissa[0] == '5' && mantissa.find_first_not_of("0.", 1) != std::string_view::npos));
      if (!more) return std::copysign(0.0, x);
      unit = fmt::format("{}1e{}", x < 0 ? "-" : "", last);
      rounded = unit;
    }
  }
  double result = 0;
  if (std::from_chars(rounded.data(), rounded.data() + rounded.size(), result).ec == std::errc::result_out_of_range)
    return std::copysign(HUGE_VAL, x);
  return result;
}

std::int64_t apply_float_function(FloatFunction f, std::int64_t a, std::int64_t b) {
  const double x = float_of_bits(a), y = float_of_bits(b);
  switch (f) {
    case FloatFunction::FromInt: return float_bits(static_cast<double>(a));
    case FloatFunction::IntTrueDiv: return float_bits(static_cast<double>(a) / static_cast<double>(b));
    case FloatFunction::TruncToInt: return whole(std::trunc(x));
    case FloatFunction::FloorToInt: return whole(std::floor(x));
    case FloatFunction::CeilToInt: return whole(std::ceil(x));
    case FloatFunction::RoundToInt: return whole(std::nearbyint(x));
    case FloatFunction::RoundDecimal: return float_bits(round_decimal(x, b));
    case FloatFunction::OfBits:
    case FloatFunction::ToBits: return a;
    case FloatFunction::Eq: return x == y;
    case FloatFunction::Ne: return x != y;
    case FloatFunction::Lt: return x < y;
    case FloatFunction::Le: return x <= y;
    default: return float_bits(value(f, x, y));
  }
}

}  // namespace coil
