// What shared/special.h is written in, for the CPU.
#pragma once
#include "more_math.h"

// @piece COIL_SPECIAL COIL_INFINITY COIL_NAN COIL_FROM_C COIL_LARGE COIL_SMALL COIL_ERFCX_SERIES
#define COIL_SPECIAL static
#define COIL_INFINITY __builtin_inf()
#define COIL_NAN __builtin_nan("")
#define COIL_LARGE 1e300
#define COIL_SMALL 1e-300
#define COIL_ERFCX_SERIES 25
#define COIL_FROM_C(f) extern "C" double f(double);

// @piece COIL_OF_ONE
#define COIL_OF_ONE(f)                            \
  COIL_FN f32 f(f32 x) { return (f32)f((f64)x); } \
  COIL_FN f32v f(f32v x) {                        \
    return c_map(x, [](f32 y) { return f(y); });  \
  }                                               \
  COIL_FN f64v f(f64v x) {                        \
    return c_map(x, [](f64 y) { return f(y); });  \
  }

// @piece COIL_OF_TWO
#define COIL_OF_TWO(f)                                           \
  COIL_FN f32 f(f32 x, f32 y) { return (f32)f((f64)x, (f64)y); } \
  COIL_FN f32v f(f32v x, f32v y) {                               \
    return c_map2(x, y, [](f32 a, f32 b) { return f(a, b); });   \
  }                                                              \
  COIL_FN f64v f(f64v x, f64v y) {                               \
    return c_map2(x, y, [](f64 a, f64 b) { return f(a, b); });   \
  }

// @piece COIL_OF_THREE
#define COIL_OF_THREE(f)                                                        \
  COIL_FN f32 f(f32 x, f32 y, f32 z) { return (f32)f((f64)x, (f64)y, (f64)z); } \
  COIL_FN f32v f(f32v x, f32v y, f32v z) {                                      \
    return c_map3(x, y, z, [](f32 a, f32 b, f32 c) { return f(a, b, c); });     \
  }                                                                             \
  COIL_FN f64v f(f64v x, f64v y, f64v z) {                                      \
    return c_map3(x, y, z, [](f64 a, f64 b, f64 c) { return f(a, b, c); });     \
  }
