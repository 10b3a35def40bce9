// The rarer functions.
#include <fmt/format.h>

#include "codegen/cpp/prelude_pieces.h"

namespace coil::codegen {

void add_more_math_pieces(std::vector<PreludePiece>& out) {
  for (std::string_view f : {"sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "lgamma", "log2", "log10", "log1p"}) {
    std::string text = R"(
extern "C" double $f(double); extern "C" float $ff(float);
COIL_FN f32 c_$f(f32 x) { return $ff(x); }
COIL_FN f64 c_$f(f64 x) { return $f(x); }
COIL_FN f32v c_$f(f32v x) { return c_map(x, $ff); }
COIL_FN f64v c_$f(f64v x) { return c_map(x, $f); }
)";
    out.push_back({fmt::format("c_{}", f), replace_all(text, "$f", f)});
  }
  for (std::string_view f : {"pow", "atan2", "hypot", "nextafter"}) {
    std::string text = R"(
extern "C" double $f(double, double); extern "C" float $ff(float, float);
COIL_FN f32 c_$f(f32 x, f32 y) { return $ff(x, y); }
COIL_FN f64 c_$f(f64 x, f64 y) { return $f(x, y); }
COIL_FN f32v c_$f(f32v x, f32v y) { return c_map2(x, y, $ff); }
COIL_FN f64v c_$f(f64v x, f64v y) { return c_map2(x, y, $f); }
)";
    if (f == "pow") {
      // Integers by squaring; a negative exponent gives 0 unless the base is 1 or -1 (ATen/native/Pow.h).
      text += R"(
template <class T> COIL_FN T c_pow(T x, T y) {
  if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? (y & 1 ? (T)-1 : (T)1) : (T)0;
  T r = 1;
  for (; y; y >>= 1, x = (T)(x * x)) r = y & 1 ? (T)(r * x) : r;
  return r;
}
)" + for_each("COIL_FN $tv c_pow($tv x, $tv y) { return c_map2(x, y, [](auto a, auto b) { return c_pow(a, b); }); }\n", "t", {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"});
    }
    out.push_back({fmt::format("c_{}", f), replace_all(text, "$f", f)});
  }
}

}  // namespace coil::codegen
