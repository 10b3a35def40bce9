// Fused attention on the CPU: a template that codegen/cpp/attention.cpp fills.
//
// The lanes of every vector are queries. Scores are kept as S[key][query], so that the softmax runs down vectors with
// no sums across lanes; q comes transposed; k and v are read one element at a time and broadcast, in the order they lie
// in. Both products are then one micro-kernel: rows i of A(i, t) against vectors of B[t], R rows by N vectors in
// registers.
//
// With bf16 dot products ($pairs) an element is two bf16 side by side in 32 bits: two of k's and q's dims, two keys of
// v and P.
//
// Keys are packed once for a few blocks of queries, which take turns at them. A tile's columns of v lie together.
//
// $s: the kernel's symbol; $d, $e: the dtype and its C type in memory; $E: an element in registers. $D and $DV: dims of
// q and of v; $T: steps over $D, $TP with whole vectors; $KW: elements in a row of packed k, $VW: of $DV with whole
// vectors; $BQ and $BK: queries and keys in a block; $G: blocks that take turns; $R: rows of a tile; $VROOM: elements
// of packed v, whose steps are $VST apart.
#pragma once
#include "attention_parts.h"

// @piece attention
// Scores of R keys: S[i] = scale * sum over t of K(i, t) Q[t].
template <int N> COIL_PART void $s_scores(const $E* k, const $E* q, f32* s) {
  f32v acc[$R][N] = {};
  $s_tile<$R, N, $KW, 1, N * COIL_L>(k, q, $T, acc);
#pragma GCC unroll 16
  for (int i = 0; i < $R; i++)
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) c_store_f32(s + (i * N + j) * COIL_L, acc[i][j] * $scalef);
}
// R columns of the output: O[i] = alpha O[i] + sum over keys of V(key, i) P[key]. The block's keys are added up by
// themselves first, so that the error does not grow with the number of all keys.
template <int R, int N> COIL_PART void $s_values(const $E* v, const $E* p, long steps, f32* o, const f32v* alpha) {
  f32v acc[R][N] = {};
  $s_tile<R, N, 1, $VST, N * COIL_L>(v, p, steps, acc);
#pragma GCC unroll 16
  for (int i = 0; i < R; i++)
#pragma GCC unroll 8
    for (int j = 0; j < N; j++) {
      f32* at = o + (i * N + j) * COIL_L;
      c_store_f32(at, alpha ? c_load_f32v(at) * alpha[j] + acc[i][j] : acc[i][j]);
    }
}
#if $pairs
COIL_PART void $s_pack_k(const $s_e* k, long stride, long dim_stride, long keys, u32* out) {
  $s_e room[$D];
  long i = 0;
  for (; i < keys; i++) __builtin_memcpy(out + i * $KW, $s_row(k + i * stride, dim_stride, $D, room), $D * 2);
  for (; i % $R; i++) __builtin_memset(out + i * $KW, 0, $KW * 4);
}
COIL_PART void $s_pack_v(const $s_e* v, long stride, long dim_stride, long keys, u32* out) {
  $s_e room[$DV], room2[$DV];
  for (long i = 0; i < keys; i += 2) {
    const $s_e* row = $s_row(v + i * stride, dim_stride, $DV, room);
    const $s_e* row2 = $s_row(v + (i + 1 < keys ? i + 1 : i) * stride, dim_stride, $DV, room2);
    u32v keep = c_splat_u32v(i + 1 < keys ? 0xffff0000u : 0u);
    for (long d = 0; d < $DV; d += COIL_L) {
      long n = $DV - d < COIL_L ? $DV - d : COIL_L;
      c_store_u32(out + i / 2 * $VW + d,
                  ((u32v)c_loadn_bf16v(row2 + d, n) & keep) | ((u32v)c_loadn_bf16v(row + d, n) >> 16));
    }
  }
}
#else
COIL_PART void $s_pack_k(const $s_e* k, long stride, long dim_stride, long keys, f32* out) {
  $s_e room[COIL_L];
  long i = 0;
  for (; i < keys; i++)
    for (long d = 0; d < $D; d += COIL_L) {
      const f32v x = $s_load(k + i * stride + d * dim_stride, dim_stride, $D - d, room);
      if ($D - d >= COIL_L)
        c_store_f32(out + i * $KW + d, x);
      else
        c_storen_f32(out + i * $KW + d, x, $D - d);
    }
  for (; i % $R; i++) __builtin_memset(out + i * $KW, 0, $KW * 4);
}
// `columns` of v, of which there are `left` in a row, one key's behind the other's. What a vector writes beyond them
// the next key overwrites.
COIL_PART void $s_pack_tile(const $s_e* v, long stride, long dim_stride, long keys, long columns, long left, f32* out) {
  $s_e room[COIL_L];
  for (long i = 0; i < keys; i++)
    for (long d = 0; d < columns; d += COIL_L)
      c_store_f32(out + i * columns + d, $s_load(v + i * stride + d * dim_stride, dim_stride, left - d, room));
}
COIL_PART void $s_pack_v(const $s_e* v, long stride, long dim_stride, long keys, f32* out) { $pack_tiles; }
#endif
#if $mask
// The mask of L queries and the block's keys, as numbers to add, transposed.
COIL_PART void $s_pack_mask(const $s_me* m, long stride, long key_stride, long rows, long keys, f32* out,
                            long out_stride) {
  for (long j = 0; j < keys; j += COIL_L) {
    long n = keys - j < COIL_L ? keys - j : COIL_L;
    f32v x[COIL_L];
    for (long r = 0; r < COIL_L; r++) {
      const $s_me* p = m + r * stride + j * key_stride;
      x[r] = r < rows ? $s_mask(p, key_stride, n) : f32v{};
    }
    $s_transpose(x, out + j * out_stride, out_stride);
  }
}
#endif
// A block of queries, at most two vectors `n`, on its way through the keys that it sees. Rows of o and of scores are
// n * L queries wide.
struct $s_queries {
  $E q[$TP * $BQ] __attribute__((aligned(64)));
  f32 o[$VW * $BQ] __attribute__((aligned(64)));
  f32v top[2], sum[2];
  long first, rows, keys, n;
  const void* mask;
  $s_e* out;
  f32* logs;
};
COIL_PART void $s_begin($s_queries& b, const $s_e* qp, const long* z) {
  $names;
  b.n = b.rows > COIL_L ? 2 : 1;
  for (long j = 0; j < b.n; j++) {
    $s_pack_lanes(qp + j * COIL_L * z[QueryStride], z[QueryStride], z[QueryDimStride], b.rows - j * COIL_L, $D,
                  b.q + j * COIL_L, b.n * COIL_L);
    b.top[j] = c_splat_f32v(-__builtin_inff()), b.sum[j] = f32v{};
  }
#if $causal
  b.keys = z[Keys] < b.first + b.rows ? z[Keys] : b.first + b.rows;
#else
  b.keys = z[Keys];
#endif
}
// Against `nk` packed keys, the first of which is k0.
COIL_PART void $s_meet($s_queries& b, const long* z, long k0, long nk, const $E* kbuf, const $E* vbuf) {
  $names;
  f32 s[($BK + COIL_L) * $BQ] __attribute__((aligned(64)));
  f32v alpha[2];
  const long n = b.n, width = n * COIL_L, rows = b.rows, first = b.first;
  f32* o = b.o;
  if (n == 2)
    for (long i = 0; i < nk; i += $R) $s_scores<2>(kbuf + i * $KW, b.q, s + i * width);
  else
    for (long i = 0; i < nk; i += $R) $s_scores<1>(kbuf + i * $KW, b.q, s + i * width);
#if $mask
  // Added to the scores before the softmax. A mask that is the same for all queries is read as one number a key.
  const $s_me* mask = (const $s_me*)b.mask + k0 * z[MaskKeyStride];
  f32 room[$MASKROOM * $BQ] __attribute__((aligned(64)));
  if (z[MaskQueryStride]) {
    for (long j = 0; j < n; j++)
      $s_pack_mask(mask + j * COIL_L * z[MaskQueryStride], z[MaskQueryStride], z[MaskKeyStride], rows - j * COIL_L, nk,
                   room + j * COIL_L, width);
    for (long i = 0; i < nk * width; i += COIL_L) c_store_f32(s + i, c_load_f32v(s + i) + c_load_f32v(room + i));
  } else {
    for (long i = 0; i < nk; i++) {
      const f32v same = c_splat_f32v($mask_one);
      for (long j = 0; j < width; j += COIL_L) c_store_f32(s + i * width + j, c_load_f32v(s + i * width + j) + same);
    }
  }
#endif
#if $causal
  for (long i = first > k0 ? first - k0 : 0; i < nk; i++) {
    for (long j = 0; j < width; j += COIL_L) {
      f32* at = s + i * width + j;
      c_store_f32(at,
                  c_pick(c_iota_i32v((i32)(first - k0 + j - i)) < 0, c_splat_f32v(-__builtin_inff()), c_load_f32v(at)));
    }
  }
#endif
  for (long j = 0; j < n; j++) {
    f32* at = s + j * COIL_L;
    f32v most = b.top[j], other = most;
    for (long i = 0; i + 1 < nk; i += 2) {
      const f32v x = c_load_f32v(at + i * width), y = c_load_f32v(at + (i + 1) * width);
      most = c_pick(x > most, x, most), other = c_pick(y > other, y, other);
    }
    if (nk & 1) {
      const f32v x = c_load_f32v(at + (nk - 1) * width);
      most = c_pick(x > most, x, most);
    }
    most = c_pick(other > most, other, most);
    const f32v base = c_pick(most == -__builtin_inff(), f32v{}, most);
    alpha[j] = $s_exp(b.top[j] - base);
    b.top[j] = most;
    f32v l = {};
#if $pairs
    // Pairs of keys; a last key without a partner gets one that counts nothing.
    if (nk & 1) c_store_f32(at + nk * width, c_splat_f32v(-__builtin_inff()));
    for (long i = 0; i < nk; i += 2) {
      const f32v x = $s_exp(c_load_f32v(at + i * width) - base), y = $s_exp(c_load_f32v(at + (i + 1) * width) - base);
      l = l + (x + y);
      c_store_u32(at + i / 2 * width, c_bits_bf16(x) | c_bits_bf16(y) << 16);
    }
#else
    for (long i = 0; i < nk; i++) {
      const f32v x = $s_exp(c_load_f32v(at + i * width) - base);
      l = l + x;
      c_store_f32(at + i * width, x);
    }
#endif
    b.sum[j] = b.sum[j] * alpha[j] + l;
  }
  const f32v* scale = k0 ? alpha : 0;
  if (n == 2) {
    $values2;
  } else {
    $values1;
  }
}
COIL_PART void $s_finish($s_queries& b, const long* z) {
  $names;
  const long width = b.n * COIL_L;
  for (long j = 0; j < b.n; j++) {
    const f32v r = c_pick(b.sum[j] == 0.0f, f32v{}, 1.0f / b.sum[j]);
    const long there = b.rows - j * COIL_L < COIL_L ? b.rows - j * COIL_L : COIL_L;
#if $log_sums
    const f32v logs = b.top[j] + c_log(b.sum[j]);
    for (long i = 0; i < there; i++) b.logs[(j * COIL_L + i) * z[$LOG + 2]] = c_lane(logs, i);
#endif
    for (long d = 0; d < $DV; d += COIL_L) {
      f32v x[COIL_L];
      f32 y[COIL_L * COIL_L] __attribute__((aligned(64)));
      for (long i = 0; i < COIL_L; i++)
        x[i] = b.keys > 0 && d + i < $DV ? c_load_f32v(b.o + (d + i) * width + j * COIL_L) * r : f32v{};
      $s_transpose(x, y, COIL_L);
      const long count = $DV - d < COIL_L ? $DV - d : COIL_L;
      for (long i = 0; i < there; i++) {
        $s_e* out = b.out + (j * COIL_L + i) * z[OutStride] + d * z[OutDimStride];
        const f32v row = c_load_f32v(y + i * COIL_L);
        if (z[OutDimStride] == 1 && count == COIL_L)
          c_store_$d(out, row);
        else if (z[OutDimStride] == 1)
          c_storen_$d(out, row, count);
        else
          for (long e = 0; e < count; e++) c_store_$d(out + e * z[OutDimStride], y[i * COIL_L + e]);
      }
    }
  }
}
extern "C" void $s(void* const* buffers, const long* z, long begin, long end) {
  $names;
  $E kbuf[$BK * $KW] __attribute__((aligned(64))), vbuf[$VROOM] __attribute__((aligned(64)));
  $s_queries group[$G];
  const long blocks = (z[Queries] + $BQ - 1) / $BQ, shared = z[Heads] / z[KeyHeads];
  // When all keys fit, they are packed once for all that read them.
  const bool fit = z[Keys] <= $BK;
  for (long at = begin, packed = -1; at < end;) {
    const long head = at / blocks / shared, bk = head / z[KeyHeads], kh = head % z[KeyHeads];
    const $s_e* k = (const $s_e*)buffers[1] + bk * z[KeyBatchStride] + kh * z[KeyHeadStride];
    const $s_e* v = (const $s_e*)buffers[2] + bk * z[ValueBatchStride] + kh * z[ValueHeadStride];
    long count = 0, keys = 0;
    for (; count < $G && at < end && at / blocks / shared == head; count++, at++) {
      $s_queries& one = group[count];
      const long first = at % blocks * $BQ, h = at / blocks % z[Heads], b = at / blocks / z[Heads];
      one.first = first, one.rows = z[Queries] - first < $BQ ? z[Queries] - first : $BQ;
      one.mask = $mask_pointer;
      one.out = ($s_e*)buffers[$OUT] + b * z[OutBatchStride] + h * z[OutHeadStride] + first * z[OutStride];
      one.logs = $log_pointer;
      $s_begin(one, (const $s_e*)buffers[0] + b * z[QueryBatchStride] + h * z[QueryHeadStride] + first * z[QueryStride],
               z);
      if (one.keys > keys) keys = one.keys;
    }
    for (long k0 = 0; k0 < keys; k0 += $BK) {
      const long last = fit ? z[Keys] : keys, nk = last - k0 < $BK ? last - k0 : $BK;
      if (!fit || packed != head) {
        $s_pack_k(k + k0 * z[KeyStride], z[KeyStride], z[KeyDimStride], nk, kbuf);
        $s_pack_v(v + k0 * z[ValueStride], z[ValueStride], z[ValueDimStride], nk, vbuf);
        packed = head;
      }
      for (long c = 0; c < count; c++)
        if (k0 < group[c].keys) $s_meet(group[c], z, k0, group[c].keys - k0 < nk ? group[c].keys - k0 : nk, kbuf, vbuf);
    }
    for (long c = 0; c < count; c++) $s_finish(group[c], z);
  }
}
