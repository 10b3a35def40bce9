// What stands for Metal's compiler and library on a CPU, for tests of kernels' values where there is no Metal: address
// spaces as macros, Metal's functions over those of C++, the threads of a threadgroup as grid/fibers.h's.
#pragma once
#include "../grid/fibers.h"

// @piece shim
#include <cmath>
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef c_dim uint3;
struct uint2 {
  uint x, y;
};
template <class To, class From> static inline To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type is of one size");
  To r;
  std::memcpy(&r, &x, sizeof r);
  return r;
}
// Sixteen bits, made of a float to the nearest.
struct half {
  half(float x) {
    const uint bits = as_type<uint>(x), sign = (bits >> 16) & 0x8000u, u = bits & 0x7fffffffu;
    if (u > 0x7f800000u) {
      word = 0x7fffu;
    } else if (u >= 0x477ff000u) {
      word = (ushort)(sign | 0x7c00u);
    } else {
      const uint e = (u & 0x7f800000u) < 0x38800000u ? 0x38800000u : u & 0x7f800000u;
      const float big = as_type<float>(e + (13u << 23));
      const uint r = as_type<uint>(as_type<float>(u) + big) - as_type<uint>(big);
      word = (ushort)(sign | (r + ((e - 0x38800000u) >> 13)));
    }
  }
  half() = default;
  operator float() const {
    const float x = as_type<float>((uint)(word & 0x7fffu) << 13) * 0x1p112f;
    const uint u = as_type<uint>(x) | ((word & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
    return as_type<float>(u | (uint)(word & 0x8000u) << 16);
  }
  ushort word;
};
#define kernel static
#define device
#define constant const
#define threadgroup static thread_local
#define thread
// A package's inputs lie at any multiple of an element's size; memory of Metal's own begins at multiples of more.
#define alignas(bytes)
namespace metal {
namespace mem_flags {
enum { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
}
static inline void threadgroup_barrier(int) { c_meet_all(); }
static inline void simdgroup_barrier(int) { c_wait(); }
// @for $f: exp, exp2, log, log2, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, asinh, acosh, atanh
static inline float $f(float x) { return std::$f(x); }
// @end
// @for $f: fabs, sqrt, rint, floor, ceil, trunc
static inline float $f(float x) { return std::$f(x); }
// @end
// @for $f: atan2, pow, fmax
static inline float $f(float x, float y) { return std::$f(x, y); }
// @end
static inline float fma(float x, float y, float z) { return std::fma(x, y, z); }
static inline uint clz(uint x) { return (uint)__builtin_clz(x); }
static inline ulong clz(ulong x) { return (ulong)__builtin_clzl(x); }
static inline uint mulhi(uint x, uint y) { return (uint)(((ulong)x * y) >> 32); }
template <class T> static T simd_shuffle_xor(T x, ushort o) { return c_exchange(x, c_here->now ^ o); }
template <class T> static T simd_shuffle_up(T x, ushort o) {
  const uint t = c_here->now;
  return c_exchange(x, t % 32 >= o ? t - o : t);
}
template <class T> static T simd_shuffle(T x, ushort o) { return c_exchange(x, c_here->now / 32 * 32 + o); }
enum memory_order { memory_order_relaxed };
struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};
struct atomic_float {
  float value;
};
template <class A, class T> static auto atomic_fetch_add_explicit(A* p, T x, memory_order) {
  const auto old = p->value;
  p->value += x;
  return old;
}
template <class A, class T> static void atomic_store_explicit(A* p, T x, memory_order) { p->value = x; }
template <class A> static auto atomic_load_explicit(const A* p, memory_order) { return p->value; }
static inline bool atomic_compare_exchange_weak_explicit(atomic_uint* p, uint* seen, uint now, memory_order,
                                                         memory_order) {
  const bool same = p->value == *seen;
  if (same)
    p->value = now;
  else
    *seen = p->value;
  return same;
}
}  // namespace metal
