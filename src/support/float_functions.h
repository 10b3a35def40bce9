// Python's functions of floats that sizes go through (`int(n * 0.75)`), over 64-bit words: a float is its bits. Sizes
// are integers wherever they are used, so these begin and end with one.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coil {

// X(enumerator, name in text (torch's own where it has one), operands: f a float, i an integer, what it gives)
// clang-format off
#define COIL_FLOAT_FUNCTIONS(X)                                                                                       \
  X(FromInt, "ToFloat", "i", 'f') X(IntTrueDiv, "IntTrueDiv", "ii", 'f')                                              \
  X(Add, "FloatAdd", "ff", 'f') X(Mul, "FloatMul", "ff", 'f') X(Div, "FloatTrueDiv", "ff", 'f')                       \
  X(Pow, "FloatPow", "ff", 'f')                                                                                       \
  X(Mod, "FloatMod", "ff", 'f') X(Min, "FloatMin", "ff", 'f') X(Max, "FloatMax", "ff", 'f')                           \
  X(Abs, "FloatAbs", "f", 'f') X(Floor, "FloatFloor", "f", 'f')                                                       \
  X(Sqrt, "OpaqueUnaryFn_sqrt", "f", 'f') X(Exp, "OpaqueUnaryFn_exp", "f", 'f') X(Log, "OpaqueUnaryFn_log", "f", 'f') \
  X(Log2, "OpaqueUnaryFn_log2", "f", 'f') X(Sin, "OpaqueUnaryFn_sin", "f", 'f') X(Cos, "OpaqueUnaryFn_cos", "f", 'f') \
  X(Tan, "OpaqueUnaryFn_tan", "f", 'f') X(Asin, "OpaqueUnaryFn_asin", "f", 'f')                                       \
  X(Acos, "OpaqueUnaryFn_acos", "f", 'f')                                                                             \
  X(Atan, "OpaqueUnaryFn_atan", "f", 'f') X(Sinh, "OpaqueUnaryFn_sinh", "f", 'f')                                     \
  X(Cosh, "OpaqueUnaryFn_cosh", "f", 'f')                                                                             \
  X(Tanh, "OpaqueUnaryFn_tanh", "f", 'f')                                                                             \
  X(TruncToInt, "TruncToInt", "f", 'i') X(FloorToInt, "FloorToInt", "f", 'i') X(CeilToInt, "CeilToInt", "f", 'i')     \
  X(RoundToInt, "RoundToInt", "f", 'i')                                                                               \
  X(Eq, "FloatEq", "ff", 'i') X(Ne, "FloatNe", "ff", 'i') X(Lt, "FloatLt", "ff", 'i') X(Le, "FloatLe", "ff", 'i')     \
  X(RoundDecimal, "RoundDecimal", "fi", 'f')                                                                          \
  X(OfBits, "FloatOfBits", "i", 'f') X(ToBits, "BitsOfFloat", "f", 'i')
// clang-format on

// Plans hold their numbers: new ones come last.
enum class FloatFunction : std::uint8_t {
#define X(e, ...) e,
  COIL_FLOAT_FUNCTIONS(X)
#undef X
};

struct FloatSignature {
  std::string_view name, takes;
  char gives = 'f';
};
constexpr int kFloatFunctions = static_cast<int>(FloatFunction::ToBits) + 1;
const FloatSignature& signature_of(FloatFunction);
std::optional<FloatFunction> float_function_named(std::string_view name);

inline std::int64_t float_bits(double x) { return std::bit_cast<std::int64_t>(x); }
inline double float_of_bits(std::int64_t x) { return std::bit_cast<double>(x); }

/// Python's round(x, digits): the double nearest to the decimal number that x, exactly, rounds to; half goes to the
/// even digit. Digits may be negative.
double round_decimal(double x, std::int64_t digits);
/// The value as Python has it (half rounds to even, a remainder has the divisor's sign), operands and result as words;
/// `b` counts only for functions of two. Throws Error where an integer does not fit in 64 bits.
std::int64_t apply_float_function(FloatFunction, std::int64_t a, std::int64_t b = 0);

}  // namespace coil
