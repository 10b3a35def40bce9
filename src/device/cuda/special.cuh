// What shared/special.h is written in, on a GPU.
#pragma once
#include "math.cuh"

// @piece special
#define COIL_SPECIAL static __device__
#define COIL_INFINITY c_f64_of(0x7ff0000000000000ull)
#define COIL_NAN c_f64_of(0x7ff8000000000000ull)
#define COIL_LARGE 1e300
#define COIL_SMALL 1e-300
#define COIL_ERFCX_SERIES 25
#define COIL_FROM_C(f)
#define COIL_OF_ONE(f) \
  C_FN f32 f(f32 x) { return (f32)f((f64)x); }
#define COIL_OF_TWO(f) \
  C_FN f32 f(f32 x, f32 y) { return (f32)f((f64)x, (f64)y); }
#define COIL_OF_THREE(f) \
  C_FN f32 f(f32 x, f32 y, f32 z) { return (f32)f((f64)x, (f64)y, (f64)z); }
