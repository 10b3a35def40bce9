// What the kernels of attention on the CPU and of its gradient have in common: a template that
// codegen/cpp/attention_text.cpp fills.
//
// $s: the kernel's symbol; $d, $e: the dtype and its C type in memory; $E: an element in registers. With bf16 dot
// products ($pairs) an element is two bf16 side by side in 32 bits.
#pragma once
#include "math.h"

// @piece attention_parts
#if $pairs
// The builtins take vectors of this type from GCC 13 on.
#if defined(__clang__) || __GNUC__ >= 13
typedef __bf16 $s_bf __attribute__((vector_size(64)));
#else
typedef short $s_bf __attribute__((vector_size(64)));
#endif
#ifdef __clang__
#define $s_DOT(acc, x, y) (f32v) __builtin_ia32_dpbf16ps_512(acc, ($s_bf)(x), ($s_bf)(y))
#else
#define $s_DOT(acc, x, y) (f32v) __builtin_ia32_dpbf16ps_v16sf(acc, ($s_bf)(x), ($s_bf)(y))
#endif
#endif
// Adds the products of A(i, t) = a[i * SI + t * ST] and the N vectors, one or two, that begin at b[t * SB].
template <int R, int N, int SI, int ST, int SB>
COIL_FN void $s_tile(const $E* a, const $E* b, long steps, f32v (&acc)[R][N]) {
  for (long t = 0; t < steps; t++) {
    const $Ev y0 = c_load_$Ev(b + t * SB), y1 = c_load_$Ev(b + t * SB + (N - 1) * COIL_L);
#pragma GCC unroll 16
    for (int i = 0; i < R; i++) {
      const $Ev x = c_splat_$Ev(a[i * SI + t * ST]);
      acc[i][0] = $dot0;
      if (N == 2) acc[i][N - 1] = $dot1;
    }
  }
}
typedef $e $s_e __attribute__((may_alias));
// A row with its elements side by side: the row itself, or a copy in `room`.
static const $s_e* $s_row(const $s_e* p, long stride, long n, $s_e* room) {
  if (stride == 1) return p;
  for (long i = 0; i < n; i++) room[i] = p[i * stride];
  return room;
}
// exp for arguments up to 0, and 0 where it would be denormal, as in eager's attention: sums are 1 or more, and
// products with denormals take Intel's processors over a hundred cycles. NaN stays.
COIL_FN f32v $s_exp(f32v x) {
  const f32v low = c_splat_f32v(-87.33f);
  f32v n, q = c_exp_parts(c_pick(low > x, low, x), n);
  return c_pick(low > x, f32v{}, c_scale(q + 1.0f, n));
}
// Log2 L rounds in which pairs of vectors exchange halves. GCC takes long to find the instructions for shuffles that
// are constants, and has variable ones.
#if !defined(__clang__) && COIL_L > 4
COIL_PART void $s_transpose(f32v* x, f32* out, long stride) {
  const i32v lane = c_iota_i32v(0);
  for (int h = COIL_L / 2; h; h /= 2) {
    const i32v low = c_pick((lane & h) != 0, lane - h + COIL_L, lane),
               high = c_pick((lane & h) != 0, lane + COIL_L, lane + h);
    for (int i = 0; i < COIL_L; i++) {
      if (i & h) continue;
      const f32v a = x[i], b = x[i + h];
      x[i] = __builtin_shuffle(a, b, low), x[i + h] = __builtin_shuffle(a, b, high);
    }
  }
  for (int i = 0; i < COIL_L; i++) c_store_f32(out + i * stride, x[i]);
}
#else
COIL_PART void $s_transpose(f32v* in, f32* out, long stride) { $transpose; }
#endif
#if $mask
typedef $me $s_me __attribute__((may_alias));
// What is added to the scores of a query and a vector of keys, `n` of them.
COIL_FN f32v $s_mask(const $s_me* p, long key_stride, long n) {
  if (key_stride == 1) return $mask_vector;
  f32 one[COIL_L] = {};
  for (long i = 0; i < n; i++) one[i] = $mask_strided;
  return c_load_f32v(one);
}
#endif
// Up to L rows of `dims` elements, transposed: out[t * out_stride + row]. Lanes without a row are zeros.
#if $pairs
COIL_PART void $s_pack_lanes(const $s_e* q, long stride, long dim_stride, long rows, long dims, u32* out,
                             long out_stride) {
  $s_e room[2 * COIL_L];
  for (long d = 0; d < dims / 2; d += COIL_L) {
    const long n = dims / 2 - d < COIL_L ? dims / 2 - d : COIL_L;
    f32v x[COIL_L];
    for (long r = 0; r < COIL_L; r++)
      x[r] = r < rows ? c_loadn_f32v($s_row(q + r * stride + 2 * d * dim_stride, dim_stride, 2 * n, room), n) : f32v{};
    $s_transpose(x, (f32*)out + d * out_stride, out_stride);
  }
}
#else
// At most a vector of the `left` elements from p on.
COIL_FN f32v $s_load(const $s_e* p, long stride, long left, $s_e* room) {
  if (left >= COIL_L) return c_load_$dv($s_row(p, stride, COIL_L, room));
  return c_loadn_$dv($s_row(p, stride, left, room), left);
}
COIL_PART void $s_pack_lanes(const $s_e* q, long stride, long dim_stride, long rows, long dims, f32* out,
                             long out_stride) {
  $s_e room[COIL_L];
  for (long d = 0; d < dims; d += COIL_L) {
    f32v x[COIL_L];
    for (long r = 0; r < COIL_L; r++)
      x[r] = r < rows ? $s_load(q + r * stride + d * dim_stride, dim_stride, dims - d, room) : f32v{};
    $s_transpose(x, out + d * out_stride, out_stride);
  }
}
#endif
