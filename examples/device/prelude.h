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

#define TOY_FLOAT(name)                                          \
  COIL_FN f32 t_##name(f32 x) { return __builtin_##name##f(x); } \
  COIL_FN f64 t_##name(f64 x) { return __builtin_##name(x); }
#define TOY_FLOATS(name)                                                   \
  COIL_FN f32 t_##name(f32 x, f32 y) { return __builtin_##name##f(x, y); } \
  COIL_FN f64 t_##name(f64 x, f64 y) { return __builtin_##name(x, y); }
TOY_FLOAT(exp)
TOY_FLOAT(exp2)
TOY_FLOAT(expm1) TOY_FLOAT(log) TOY_FLOAT(log2) TOY_FLOAT(log10) TOY_FLOAT(log1p) TOY_FLOAT(sin) TOY_FLOAT(cos)
    TOY_FLOAT(tan) TOY_FLOAT(asin) TOY_FLOAT(acos) TOY_FLOAT(atan) TOY_FLOAT(sinh) TOY_FLOAT(cosh) TOY_FLOAT(tanh)
        TOY_FLOAT(asinh) TOY_FLOAT(acosh) TOY_FLOAT(atanh) TOY_FLOAT(erf) TOY_FLOAT(erfc) TOY_FLOAT(lgamma)
            TOY_FLOAT(sqrt) TOY_FLOAT(floor) TOY_FLOAT(ceil) TOY_FLOAT(trunc) TOY_FLOAT(nearbyint) TOY_FLOATS(pow)
                TOY_FLOATS(atan2) TOY_FLOATS(hypot) TOY_FLOATS(copysign) TOY_FLOATS(fmod)

                    template <class T>
                    COIL_FN T t_max(T x, T y) {
  return x != x || x > y ? x : y;
}
template <class T>
COIL_FN T t_min(T x, T y) {
  return x != x || x < y ? x : y;
}
template <class T>
COIL_FN T t_where(bool condition, T x, T y) {
  return condition ? x : y;
}
template <class T>
COIL_FN T t_neg(T x) {
  return -x;
}
template <class T>
COIL_FN T t_abs(T x) {
  return x < 0 ? -x : x == 0 ? T(0) : x;
}
template <class T>
COIL_FN T t_sign(T x) {
  return (x > 0) - (x < 0);
}
template <class T>
COIL_FN T t_recip(T x) {
  return 1 / x;
}
template <class T>
COIL_FN T t_rsqrt(T x) {
  return 1 / t_sqrt(x);
}
template <class T>
COIL_FN T t_sigmoid(T x) {
  return 1 / (1 + t_exp(-x));
}
template <class T>
COIL_FN T t_round(T x) {
  return t_nearbyint(x);
}
template <class T>
COIL_FN bool t_isnan(T x) {
  return x != x;
}
template <class T>
COIL_FN bool t_isinf(T x) {
  return x == x && x - x != 0;
}
template <class T>
COIL_FN bool t_signbit(T x) {
  return __builtin_signbit(x);
}
template <class T>
COIL_FN T t_not(T x) {
  return ~x;
}
COIL_FN bool t_not(bool x) { return !x; }
/// Of integers. There is no quotient by 0, and it is 0.
template <class T>
COIL_FN T t_truncdiv(T x, T y) {
  return y == 0 ? T(0) : y == T(-1) ? T(0 - x) : T(x / y);
}
template <class T>
COIL_FN T t_fmod(T x, T y) {
  return x - t_truncdiv(x, y) * y;
}
template <class T>
COIL_FN T t_rem(T x, T y) {
  const T rest = t_fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? T(rest + y) : rest;
}
template <class T>
COIL_FN T t_floordiv(T x, T y) {
  return t_truncdiv(T(x - t_rem(x, y)), y);
}
COIL_FN f32 t_truncdiv(f32 x, f32 y) { return t_trunc(x / y); }
COIL_FN f64 t_truncdiv(f64 x, f64 y) { return t_trunc(x / y); }
COIL_FN f32 t_floordiv(f32 x, f32 y) { return y == 0 ? x / y : t_nearbyint((x - t_rem(x, y)) / y); }
COIL_FN f64 t_floordiv(f64 x, f64 y) { return y == 0 ? x / y : t_nearbyint((x - t_rem(x, y)) / y); }
template <class T>
COIL_FN T t_logaddexp(T x, T y) {
  const T most = t_max(x, y), least = t_min(x, y);
  return most - most != 0 ? most : most + t_log1p(t_exp(least - most));
}
/// Whether x is more extreme than the one found so far: a NaN is, by torch's rule.
template <class T>
COIL_FN bool t_above(T x, T found) {
  return x > found || (x != x && found == found);
}
template <class T>
COIL_FN bool t_below(T x, T found) {
  return x < found || (x != x && found == found);
}
COIL_FN i64 t_check(i64 index, i64 size, i64* failed) {
  if (index < 0) index += size;
  if (index >= 0 && index < size) return index;
  *failed = 1;
  return 0;
}
