// What every kernel for the CPU begins with: scalars, vectors of COIL_L lanes, and pairs of half vectors where elements
// have 64 bits.
#pragma once

// @piece types
#define COIL_FN static inline __attribute__((always_inline))
// A part of a kernel with loops over scalars, which all of the compiler's optimizations are worth.
#if defined(__GNUC__) && !defined(__clang__)
#define COIL_PART static __attribute__((noinline, optimize("O2")))
#pragma GCC diagnostic ignored "-Wpsabi"
#else
#define COIL_PART static __attribute__((noinline))
#endif
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long u64;
typedef float f32;
typedef double f64;
#if COIL_L == 16
#define COIL_IOTA_LO 0, 1, 2, 3, 4, 5, 6, 7
#define COIL_IOTA_HI 8, 9, 10, 11, 12, 13, 14, 15
#elif COIL_L == 8
#define COIL_IOTA_LO 0, 1, 2, 3
#define COIL_IOTA_HI 4, 5, 6, 7
#else
#define COIL_IOTA_LO 0, 1
#define COIL_IOTA_HI 2, 3
#endif
#define COIL_IOTA COIL_IOTA_LO, COIL_IOTA_HI
#define COIL_LO(x) __builtin_shufflevector(x, x, COIL_IOTA_LO)
#define COIL_HI(x) __builtin_shufflevector(x, x, COIL_IOTA_HI)
#define COIL_CAT(x, y) __builtin_shufflevector(x, y, COIL_IOTA)
#define COIL_CV __builtin_convertvector
#define COIL_VECTOR(t, n) __attribute__((vector_size(sizeof(t) * n)))
typedef i8 i8v COIL_VECTOR(i8, COIL_L);
typedef i16 i16v COIL_VECTOR(i16, COIL_L);
typedef i32 i32v COIL_VECTOR(i32, COIL_L);
typedef u8 u8v COIL_VECTOR(u8, COIL_L);
typedef u16 u16v COIL_VECTOR(u16, COIL_L);
typedef u32 u32v COIL_VECTOR(u32, COIL_L);
typedef f32 f32v COIL_VECTOR(f32, COIL_L);
typedef i32 i32h COIL_VECTOR(i32, COIL_L / 2);
typedef u32 u32h COIL_VECTOR(u32, COIL_L / 2);
typedef f32 f32h COIL_VECTOR(f32, COIL_L / 2);
typedef i64 i64h COIL_VECTOR(i64, COIL_L / 2);
typedef u64 u64h COIL_VECTOR(u64, COIL_L / 2);
typedef f64 f64h COIL_VECTOR(f64, COIL_L / 2);
template <class H> struct twice {
  H a, b;
  auto operator[](i64 i) const { return i < COIL_L / 2 ? a[i] : b[i - COIL_L / 2]; }
};
typedef twice<i64h> i64v;
typedef twice<u64h> u64v;
typedef twice<f64h> f64v;
struct boolv {
  i32v m;
};
#define COIL_OP(op) \
  template <class H> COIL_FN twice<H> operator op(twice<H> x, twice<H> y) { return {x.a op y.a, x.b op y.b}; }
COIL_OP(+)
COIL_OP(-)
COIL_OP(*)
COIL_OP(/)
COIL_OP(&)
COIL_OP(|)
COIL_OP(^)
COIL_OP(<<)
COIL_OP(>>)
#undef COIL_OP
#define COIL_OP(op)                                                     \
  template <class H> COIL_FN i64v operator op(twice<H> x, twice<H> y) { \
    return {(i64h)(x.a op y.a), (i64h)(x.b op y.b)};                    \
  }
COIL_OP(<)
COIL_OP(<=)
COIL_OP(>)
COIL_OP(>=)
COIL_OP(==)
COIL_OP(!=)
#undef COIL_OP
template <class H> COIL_FN twice<H> operator-(twice<H> x) { return {-x.a, -x.b}; }
template <class H> COIL_FN twice<H> operator~(twice<H> x) { return {~x.a, ~x.b}; }
COIL_FN boolv operator&(boolv x, boolv y) { return {x.m & y.m}; }
COIL_FN boolv operator|(boolv x, boolv y) { return {x.m | y.m}; }
COIL_FN boolv operator^(boolv x, boolv y) { return {x.m ^ y.m}; }
COIL_FN boolv operator~(boolv x) { return {~x.m}; }
