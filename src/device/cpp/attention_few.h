// Attention of few queries on the CPU: a template that codegen/cpp/attention_few.cpp fills.
//
// The lanes of every vector are dims, so that keys and values are read where they lie, once for $R rows: queries of the
// heads that share them. (Where lanes are queries, as in attention.h, most would have none.) Dims of q, k, v and of the
// result lie side by side.
//
// $s, $d, $e, $D, $DV as in attention.h; $DP and $VP: dims of q and of v with whole vectors; $BK: keys in a block.
#pragma once
#include "attention_parts.h"

// @piece attention_few
COIL_FN f32v $s_dims(const $s_e* p, long d, long dims) {
  return dims - d >= COIL_L ? c_load_$dv(p + d) : c_loadn_$dv(p + d, dims - d);
}
struct $s_rows {
  f32 q[$R * $DP] __attribute__((aligned(64)));
  f32 o[$R * $VP] __attribute__((aligned(64)));
  f32 s[$R * $BK] __attribute__((aligned(64)));
  f32v sum[$R];
  f32 top[$R], alpha[$R];
  const void* mask[$R];
};
// Scores of up to L keys, the dot products with all rows; lanes of no key are those of the last one again.
COIL_PART void $s_scores($s_rows& b, const $s_e* k, long stride, long keys, f32* s) {
  f32v parts[$R][COIL_L];
  for (long i = 0; i < COIL_L; i++) {
    const $s_e* row = k + (i < keys ? i : keys - 1) * stride;
    f32v acc[$R] = {};
#pragma GCC unroll 16
    for (long d = 0; d < $D; d += COIL_L) {
      const f32v key = $s_dims(row, d, $D);
#pragma GCC unroll 16
      for (int r = 0; r < $R; r++) acc[r] = c_fma(key, c_load_f32v(b.q + r * $DP + d), acc[r]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < $R; r++) parts[r][i] = acc[r];
  }
  for (int r = 0; r < $R; r++) {
    f32 turned[COIL_L * COIL_L] __attribute__((aligned(64)));
    $s_transpose(parts[r], turned, COIL_L);
    f32v sum = c_load_f32v(turned);
    for (long i = 1; i < COIL_L; i++) sum = sum + c_load_f32v(turned + i * COIL_L);
    c_store_f32(s + r * $BK, sum * $scalef);
  }
}
// Scores of a row and `nk` keys become exponentials; what was summed up before is to be multiplied by alpha.
COIL_PART void $s_weigh($s_rows& b, int r, const long* z, long k0, long nk) {
  $names;
  f32* s = b.s + r * $BK;
  f32v most = c_splat_f32v(-__builtin_inff());
  for (long i = 0; i < nk; i += COIL_L) {
    const long n = nk - i < COIL_L ? nk - i : COIL_L;
    f32v x = c_load_f32v(s + i);
#if $mask
    x = x + $s_mask((const $s_me*)b.mask[r] + (k0 + i) * z[MaskKeyStride], z[MaskKeyStride], n);
#endif
    if (n < COIL_L) x = c_pick(c_iota_i32v(0) < (i32)n, x, c_splat_f32v(-__builtin_inff()));
    c_store_f32(s + i, x);
    most = c_pick(x > most, x, most);
  }
  f32 top = b.top[r];
  for (long i = 0; i < COIL_L; i++) top = c_lane(most, i) > top ? c_lane(most, i) : top;
  const f32v base = c_splat_f32v(top == -__builtin_inff() ? 0.0f : top);
  b.alpha[r] = c_lane($s_exp(c_splat_f32v(b.top[r]) - base), 0);
  b.top[r] = top;
  f32v sum = {};
  for (long i = 0; i < nk; i += COIL_L) {
    const f32v x = $s_exp(c_load_f32v(s + i) - base);
    sum = sum + x;
    c_store_f32(s + i, x);
  }
  b.sum[r] = b.sum[r] * b.alpha[r] + sum;
}
// A block's keys are added up by themselves first, so that the error does not grow with the number of all keys.
COIL_PART void $s_values($s_rows& b, const $s_e* v, long stride, long nk, bool first) {
  f32v acc[$R][$VP / COIL_L] = {};
  for (long j = 0; j < nk; j++) {
    f32v p[$R];
#pragma GCC unroll 16
    for (int r = 0; r < $R; r++) p[r] = c_splat_f32v(b.s[r * $BK + j]);
#pragma GCC unroll 32
    for (long d = 0; d < $VP / COIL_L; d++) {
      const f32v x = $s_dims(v + j * stride, d * COIL_L, $DV);
#pragma GCC unroll 16
      for (int r = 0; r < $R; r++) acc[r][d] = c_fma(p[r], x, acc[r][d]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < $R; r++)
#pragma GCC unroll 32
    for (long d = 0; d < $VP / COIL_L; d++) {
      f32* at = b.o + r * $VP + d * COIL_L;
      c_store_f32(at, first ? acc[r][d] : c_load_f32v(at) * b.alpha[r] + acc[r][d]);
    }
}
COIL_PART void $s_finish($s_rows& b, int r, $s_e* out) {
  f32 sum = 0;
  for (long i = 0; i < COIL_L; i++) sum += c_lane(b.sum[r], i);
  const f32v scale = c_splat_f32v(sum == 0.0f ? 0.0f : 1.0f / sum);
  for (long d = 0; d < $DV; d += COIL_L) {
    const f32v x = c_load_f32v(b.o + r * $VP + d) * scale;
    if ($DV - d >= COIL_L)
      c_store_$d(out + d, x);
    else
      c_storen_$d(out + d, x, $DV - d);
  }
}
extern "C" void $s(void* const* buffers, const long* z, long begin, long end) {
  $names;
  const long shared = z[Heads] / z[KeyHeads], rows = shared * z[Queries], turns = (rows + $R - 1) / $R;
  $s_rows b;
  for (long at = begin; at < end; at++) {
    const long first = at % turns * $R, kh = at / turns % z[KeyHeads], batch = at / turns / z[KeyHeads];
    const $s_e* k = (const $s_e*)buffers[1] + batch * z[KeyBatchStride] + kh * z[KeyHeadStride];
    const $s_e* v = (const $s_e*)buffers[2] + batch * z[ValueBatchStride] + kh * z[ValueHeadStride];
    $s_e* out[$R];
    for (int r = 0; r < $R; r++) {
      // Rows that are not there are the last one again.
      const long row = first + r < rows ? first + r : rows - 1, h = kh * shared + row / z[Queries],
                 i = row % z[Queries];
      const $s_e* q =
          (const $s_e*)buffers[0] + batch * z[QueryBatchStride] + h * z[QueryHeadStride] + i * z[QueryStride];
      for (long d = 0; d < $D; d += COIL_L) c_store_f32(b.q + r * $DP + d, $s_dims(q, d, $D));
      b.mask[r] = $mask_pointer;
      out[r] = ($s_e*)buffers[$OUT] + batch * z[OutBatchStride] + h * z[OutHeadStride] + i * z[OutStride];
      b.top[r] = -__builtin_inff(), b.sum[r] = f32v{};
    }
    for (long j = 0; j < $R * $VP; j++) b.o[j] = 0;
    for (long k0 = 0; k0 < z[Keys]; k0 += $BK) {
      const long nk = z[Keys] - k0 < $BK ? z[Keys] - k0 : $BK;
      for (long i = 0; i < nk; i += COIL_L) $s_scores(b, k + (k0 + i) * z[KeyStride], z[KeyStride], nk - i, b.s + i);
      for (int r = 0; r < $R; r++) $s_weigh(b, r, z, k0, nk);
      $s_values(b, v + k0 * z[ValueStride], z[ValueStride], nk, k0 == 0);
    }
    for (int r = 0; r < $R; r++) $s_finish(b, r, out[r]);
  }
}
