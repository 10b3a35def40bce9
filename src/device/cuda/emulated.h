// The machine of CUDA kernels on a CPU, whose threads are grid/fibers.h's.
#pragma once
#include "../grid/fibers.h"

// @piece machine
#include <sched.h>
#include <time.h>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>
using namespace std;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
#define C_FN static inline
#define C_METHOD inline
#define C_LARGE_FN static inline
#define __device__
#define __global__ static
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __restrict__ __restrict
#define __shared__ static thread_local
struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
#define threadIdx c_thread_at
#define blockIdx c_block_at
#define c_sync c_meet_all
template <int N> C_FN void c_sync_first() { c_meet(N); }
#define c_sync_warp c_wait
C_FN void c_fence() {}
C_FN void c_begin() {}
C_FN u32 c_blocks() { return (u32)c_grid_blocks; }
C_FN u64 c_nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}
struct alignas(16) c_line {
  u32 low, first, high, second;
};
C_FN void c_put_line(c_line* to, u32 low, u32 first, u32 high, u32 second) {
  __atomic_store_n((u64*)to, low | (u64)first << 32, __ATOMIC_RELEASE);
  __atomic_store_n((u64*)to + 1, high | (u64)second << 32, __ATOMIC_RELEASE);
}
C_FN c_line c_get_line(const c_line* at) {
  const u64 a = __atomic_load_n((const u64*)at, __ATOMIC_ACQUIRE),
            b = __atomic_load_n((const u64*)at + 1, __ATOMIC_ACQUIRE);
  c_line r;
  r.low = (u32)a, r.first = (u32)(a >> 32), r.high = (u32)b, r.second = (u32)(b >> 32);
  return r;
}
C_FN bool c_stop(const i64* status) { return status && *status; }
C_FN void c_fail(i64* status) { *status = 1; }
template <class T> static T c_shfl_xor(T x, int o) { return c_exchange(x, c_here->now ^ o); }
template <class T> static T c_shfl_up(T x, int o) {
  const u32 t = c_here->now;
  return c_exchange(x, t % 32 >= (u32)o ? t - o : t);
}
template <class T> static T c_shfl_from(T x, int o) { return c_exchange(x, c_here->now / 32 * 32 + o); }
C_FN u32 c_popc(u32 x) { return (u32)__builtin_popcount(x); }
C_FN u32 c_match(u32 x) {
  c_block* b = c_here;
  b->slots[b->now] = x & 255;
  c_wait();
  u32 same = 0;
  for (u32 lane = 0; lane < 32; ++lane) same |= (u32)(b->slots[b->now / 32 * 32 + lane] == (x & 255)) << lane;
  c_wait();
  return same;
}
C_FN void c_cluster_begin() {}
C_FN void c_cluster_begun() {}
#define c_cluster_sync c_meet_all
template <class A, class B> static A c_as(B x) {
  A r;
  memcpy(&r, &x, sizeof r);
  return r;
}
C_FN void c_opaque(u32&) {}
#define C_DYNAMIC_SHARED(name) static thread_local uint4 name[227 * 64]
C_FN uint4 c_read_once(const void* p) { return *(const uint4*)p; }
C_FN void c_copy_ahead(void* to, const void* from, bool there) {
  if (there)
    memcpy(to, from, 16);
  else
    memset(to, 0, 16);
}
C_FN void c_copies_arrive() {}
C_FN void c_copies_begun() {}
template <int N> C_FN void c_copies_arrive_but() {}
C_FN void c_matrix_add(f32 (&d)[4], const f32 (&a)[4], const f32 (&b)[2]) {
  c_block* const block = c_here;
  block->matrices.resize(block->fibers.size());
  const u32 lane = block->now % 32;
  auto* const warp = &block->matrices[block->now - lane];
  for (int i = 0; i < 6; ++i) warp[lane][(size_t)i] = c_as<f32>(c_as<u32>(i < 4 ? a[i] : b[i - 4]) & 0xffffe000u);
  c_wait();
  for (u32 e = 0; e < 4; ++e)
    for (u32 k = 0; k < 8; ++k)
      d[e] += warp[lane / 4 * 4 + k % 4][e / 2 + k / 4 * 2] * warp[(lane % 4 * 2 + e % 2) * 4 + k % 4][4 + k / 4];
  c_wait();
}
// What each lane of the warp names, once all have.
C_FN const u16* const* c_rows_of_lanes(const u16* row) {
  c_block* const block = c_here;
  block->rows.resize(block->fibers.size());
  block->rows[block->now] = row;
  c_wait();
  return &block->rows[block->now / 32 * 32];
}
C_FN void c_load_matrices(u32 (&r)[4], const u16* row) {
  const u16* const* const rows = c_rows_of_lanes(row);
  const u32 lane = c_here->now % 32;
  for (u32 m = 0; m < 4; ++m) memcpy(&r[m], rows[m * 8 + lane / 4] + lane % 4 * 2, 4);
  c_wait();
}
C_FN void c_load_transposed(u32 (&r)[4], const u16* row) {
  const u16* const* const rows = c_rows_of_lanes(row);
  const u32 lane = c_here->now % 32;
  for (u32 m = 0; m < 4; ++m) {
    const u16* const* const pair = rows + m * 8 + lane % 4 * 2;
    r[m] = pair[0][lane / 4] | (u32)pair[1][lane / 4] << 16;
  }
  c_wait();
}
template <class T> static T* c_shared_of(T* p, u32) { return p; }
template <class T> C_FN void c_turn(int k, int n, T& c, T& s) {
  const f64 angle = 6.283185307179586477 * k / n;
  c = (T)cos(angle);
  s = (T)sin(angle);
}
C_FN f32 c_f32_of(u32 x) { return c_as<f32>(x); }
C_FN u32 c_bits_of(f32 x) { return c_as<u32>(x); }
C_FN f64 c_f64_of(u64 x) { return c_as<f64>(x); }
C_FN u64 c_bits_of(f64 x) { return c_as<u64>(x); }
C_FN f32 c_max_nan(f32 x, f32 y) { return x != x || y != y ? c_f32_of(0x7fffffffu) : x > y ? x : y; }
C_FN f32 c_min_nan(f32 x, f32 y) { return x != x || y != y ? c_f32_of(0x7fffffffu) : x < y ? x : y; }
C_FN u16 c_put_bf16(f32 x) {
  u32 u = c_bits_of(x);
  return x != x ? 0x7fffu : (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
C_FN f32 c_get_f16(u16 h) {
  u32 u = (h & 0x7fffu) << 13;
  const f32 x = c_f32_of(u) * 0x1p112f;
  u = c_bits_of(x) | ((h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u);
  return c_f32_of(u | (u32)(h & 0x8000u) << 16);
}
C_FN u16 c_put_f16(f32 x) {
  u32 u = c_bits_of(x), s = (u >> 16) & 0x8000u, e, r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return 0x7fffu;
  if (u >= 0x477ff000u) return (u16)(s | 0x7c00u);
  e = (u & 0x7f800000u) < 0x38800000u ? 0x38800000u : u & 0x7f800000u;
  const f32 big = c_f32_of(e + (13u << 23));
  r = c_bits_of(c_f32_of(u) + big) - c_bits_of(big);
  return (u16)(s | (r + ((e - 0x38800000u) >> 13)));
}
C_FN u32 c_put_bf16_pair(f32 x, f32 y) { return c_put_bf16(x) | (u32)c_put_bf16(y) << 16; }
C_FN u32 c_put_f16_pair(f32 x, f32 y) { return c_put_f16(x) | (u32)c_put_f16(y) << 16; }
template <bool BF16> C_FN void c_matrix_add_16(f32 (&d)[4], const u32 (&a)[4], const u32* b) {
  c_block* const block = c_here;
  block->matrices.resize(block->fibers.size());
  const u32 lane = block->now % 32;
  auto* const warp = &block->matrices[block->now - lane];
  for (int i = 0; i < 6; ++i) warp[lane][(size_t)i] = c_f32_of(i < 4 ? a[i] : b[i - 4]);
  c_wait();
  const auto get = [&](u32 of, u32 word, u32 half) {
    const u16 bits = (u16)(c_bits_of(warp[of][word]) >> 16 * half);
    return BF16 ? c_f32_of((u32)bits << 16) : c_get_f16(bits);
  };
  for (u32 e = 0; e < 4; ++e)
    for (u32 k = 0; k < 16; ++k)
      d[e] += get(lane / 4 * 4 + k % 8 / 2, e / 2 + k / 8 * 2, k % 2) *
              get((lane % 4 * 2 + e % 2) * 4 + k % 8 / 2, 4 + k / 8, k % 2);
  c_wait();
}
C_FN f32 c_ex2(f32 x) { return exp2f(x); }
C_FN f32 c_rcp_fast(f32 x) { return 1 / x; }
C_FN f32 c_product_of(f32 x, f32 y) { return x * y; }
C_FN f64 c_product_of(f64 x, f64 y) { return x * y; }
C_FN u32 c_mul_high(u32 x, u32 y) { return (u32)(((u64)x * y) >> 32); }
C_FN f64 c_erfinv_machine(f64 y) {
  if (!(fabs(y) < 1)) return fabs(y) == 1 ? copysign(INFINITY, y) : NAN;
  const f64 a = 0.147, l = log1p(-y * y), b = 2 / (3.14159265358979323846 * a) + l / 2;
  f64 x = copysign(sqrt(sqrt(b * b - l / a) - b), y);
  for (int k = 0; k < 4; ++k) {
    const f64 e = (fabs(y) > 0.5 ? copysign(1.0, y) * (1 - fabs(y) - erfc(fabs(x))) : erf(x) - y) /
                  (1.12837916709551257390 * exp(-x * x));
    x -= e / (1 + x * e);
  }
  return x;
}
template <class T> static T c_cas(T* p, T old, T now) {
  const T seen = *p;
  if (seen == old) *p = now;
  return seen;
}
template <class T> static void c_atomic_add(T* p, T x) { *p += x; }
#define C_ADDS_RUNS 0
typedef i32 c_counter;
C_FN i32 c_counted(const c_counter* p) { return *p; }
C_FN void c_count_from(c_counter* p, i32 x) { *p = x; }
C_FN i32 c_count(c_counter* p) { return (*p)++; }
