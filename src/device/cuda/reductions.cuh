// How CUDA's lanes exchange values of any type, and what blocks tell each other.
#pragma once
#include "memory.cuh"

// @piece lanes
// ---- Across threads. Orders are fixed, so that results are the same in every run.
template <class T> C_FN T c_lane_xor(T x, int o) {
  if (sizeof(T) == 8) {
    u64 w = 0;
    memcpy(&w, &x, sizeof x);
    w = c_shfl_xor(w, o);
    memcpy(&x, &w, sizeof x);
  } else {
    u32 w = 0;
    memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4);
    w = c_shfl_xor(w, o);
    memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4);
  }
  return x;
}
template <class T> C_FN T c_lane_up(T x, int o) {
  if (sizeof(T) == 8) {
    u64 w = 0;
    memcpy(&w, &x, sizeof x);
    w = c_shfl_up(w, o);
    memcpy(&x, &w, sizeof x);
  } else {
    u32 w = 0;
    memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4);
    w = c_shfl_up(w, o);
    memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4);
  }
  return x;
}
template <class T> C_FN T c_lane_from(T x, int o) {
  if (sizeof(T) == 8) {
    u64 w = 0;
    memcpy(&w, &x, sizeof x);
    w = c_shfl_from(w, o);
    memcpy(&x, &w, sizeof x);
  } else {
    u32 w = 0;
    memcpy(&w, &x, sizeof(T) < 4 ? sizeof(T) : 4);
    w = c_shfl_from(w, o);
    memcpy(&x, &w, sizeof(T) < 4 ? sizeof(T) : 4);
  }
  return x;
}
template <class T> C_METHOD T c_infinity();
template <> C_METHOD f32 c_infinity<f32>() { return c_f32_of(0x7f800000u); }
template <> C_METHOD f64 c_infinity<f64>() { return c_f64_of(0x7ff0000000000000ull); }
C_FN f64 c_quick_recip(f64 x) { return 1 / x; }
C_FN f64 c_exp_of_less(f64 d) { return c_exp(d); }
// What blocks of a launch tell each other: a value in a slot of two words that are zero before, once. Four bytes go
// with their mark in one store.
template <class T> C_FN void c_publish(u64* slot, T x) {
  u64 w = 0;
  memcpy(&w, &x, sizeof x);
  if (sizeof(T) <= 4) {
    *(volatile u64*)slot = w << 32 | 1;
    return;
  }
  ((volatile u64*)slot)[1] = w;
  c_fence();
  *(volatile u64*)slot = 1;
}
template <class T> C_FN T c_told(const u64* slot) {
  u64 w;
  while (!((w = *(const volatile u64*)slot) & 1)) {}
  c_fence();
  w = sizeof(T) <= 4 ? w >> 32 : ((const volatile u64*)slot)[1];
  T x;
  memcpy(&x, &w, sizeof x);
  return x;
}
