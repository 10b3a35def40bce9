// What stands in front of the device's kernels: types, and the functions that their text calls. There are no headers,
// and the functions of floats are those of the system's library.
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long;
using f32 = float;
using f64 = double;
#define COIL_FN static inline

// Functions of the system's library, and functions of any type.
#define TOY_FLOAT(name)                                          \
  COIL_FN f32 t_##name(f32 x) { return __builtin_##name##f(x); } \
  COIL_FN f64 t_##name(f64 x) { return __builtin_##name(x); }
#define TOY_FLOATS(name)                                                   \
  COIL_FN f32 t_##name(f32 x, f32 y) { return __builtin_##name##f(x, y); } \
  COIL_FN f64 t_##name(f64 x, f64 y) { return __builtin_##name(x, y); }
#define TOY_ONE(type, name, value) \
  template <class T>               \
  COIL_FN type t_##name(T x) {     \
    return value;                  \
  }
#define TOY_TWO(type, name, value)  \
  template <class T>                \
  COIL_FN type t_##name(T x, T y) { \
    return value;                   \
  }
// clang-format off
TOY_FLOAT(exp) TOY_FLOAT(exp2) TOY_FLOAT(expm1) TOY_FLOAT(log) TOY_FLOAT(log2) TOY_FLOAT(log10) TOY_FLOAT(log1p)
TOY_FLOAT(sin) TOY_FLOAT(cos) TOY_FLOAT(tan) TOY_FLOAT(asin) TOY_FLOAT(acos) TOY_FLOAT(atan) TOY_FLOAT(sinh)
TOY_FLOAT(cosh) TOY_FLOAT(tanh) TOY_FLOAT(asinh) TOY_FLOAT(acosh) TOY_FLOAT(atanh) TOY_FLOAT(erf) TOY_FLOAT(erfc)
TOY_FLOAT(lgamma) TOY_FLOAT(sqrt) TOY_FLOAT(floor) TOY_FLOAT(ceil) TOY_FLOAT(trunc) TOY_FLOAT(nearbyint)
TOY_FLOATS(pow) TOY_FLOATS(atan2) TOY_FLOATS(hypot) TOY_FLOATS(copysign) TOY_FLOATS(fmod);
// clang-format on

TOY_ONE(T, abs, x < 0 ? -x : x == 0 ? T(0) : x);
TOY_ONE(T, sign, (x > 0) - (x < 0));
TOY_ONE(T, rsqrt, 1 / t_sqrt(x));
TOY_ONE(T, sigmoid, 1 / (1 + t_exp(-x)));
TOY_ONE(T, round, t_nearbyint(x));
TOY_ONE(bool, isinf, x == x && x - x != 0);
TOY_ONE(bool, signbit, __builtin_signbit(x));
TOY_TWO(T, max, x != x || x > y ? x : y);
TOY_TWO(T, min, x != x || x < y ? x : y);

// Divisions of integers; there is no quotient by 0, and it is 0.
TOY_TWO(T, truncdiv, y == 0 ? T(0) : y == T(-1) ? T(0 - x) : T(x / y));
TOY_TWO(T, fmod, x - t_truncdiv(x, y) * y);
TOY_TWO(T, rem, t_fmod(x, y) != 0 && (t_fmod(x, y) < 0) != (y < 0) ? T(t_fmod(x, y) + y) : t_fmod(x, y));
TOY_TWO(T, floordiv, t_truncdiv(T(x - t_rem(x, y)), y));
COIL_FN f32 t_truncdiv(f32 x, f32 y) { return t_trunc(x / y); }
COIL_FN f64 t_truncdiv(f64 x, f64 y) { return t_trunc(x / y); }
COIL_FN f32 t_floordiv(f32 x, f32 y) { return y == 0 ? x / y : t_nearbyint((x - t_rem(x, y)) / y); }
COIL_FN f64 t_floordiv(f64 x, f64 y) { return y == 0 ? x / y : t_nearbyint((x - t_rem(x, y)) / y); }
