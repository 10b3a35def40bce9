// The gradients of attention on the CPU: a template that codegen/cpp/attention_gradient.cpp fills.
//
// With S = scale q k' + mask and P = exp(S - logs): dP = dy v', dS = scale P (dP - sums over a row of dy y),
// dq = dS k, dk = dS' q and dv = P' dy. A unit of work is a head of keys: it goes through the blocks of its keys, and
// for each of them through the blocks of all queries that read them, so that a block of P and of dS is all that there
// ever is of either. Gradients of keys and values are added up in place, those of the queries in memory, in f32.
//
// Every product is one micro-kernel, rows of a broadcast element against vectors. Rows of packed operands are an odd
// number of cache lines apart, so that those of one panel do not push each other out of the cache.
//
// $s, $d, $e: as in attention_parts.h; $D and $DV: dims of q and of v; $DS and $VS: how far their packed rows are
// apart; $BQ and $BK: queries and keys in a block; $BS: how far rows of a block of P are apart; $R: rows of a tile.
// What a tile computes of rows beyond the last goes to rows that nobody reads.
#pragma once
#include "attention_parts.h"

// @piece attention_gradient
// out(i, j) = or += the sum over t of A(i, t) b[t * SB + j], A(i, t) = a[i * SI + t * ST], for whole tiles of rows and
// whole vectors of the `width` columns.
template <int SI, int ST, int SB, bool Added, int N>
COIL_PART void $s_panel(const f32* a, const f32* b, long rows, long steps, f32* out, long stride) {
  for (long i = 0; i < rows; i += $R) {
    f32v acc[$R][N] = {};
    $s_tile<$R, N, SI, ST, SB>(a + i * SI, b, steps, acc);
#pragma GCC unroll 16
    for (int r = 0; r < $R; r++)
#pragma GCC unroll 2
      for (int j = 0; j < N; j++) {
        f32* at = out + (i + r) * stride + j * COIL_L;
        c_store_f32(at, Added ? c_load_f32v(at) + acc[r][j] : acc[r][j]);
      }
  }
}
template <int SI, int ST, int SB, bool Added>
static void $s_product(const f32* a, const f32* b, long rows, long steps, long width, f32* out, long stride) {
  long j = 0;
  for (; j + COIL_L < width; j += 2 * COIL_L) $s_panel<SI, ST, SB, Added, 2>(a, b + j, rows, steps, out + j, stride);
  if (j < width) $s_panel<SI, ST, SB, Added, 1>(a, b + j, rows, steps, out + j, stride);
}
// Rows as f32 with their elements side by side, and zeros up to whole vectors.
COIL_PART void $s_pack_rows(const $s_e* p, long stride, long dim_stride, long rows, long dims, f32* out,
                            long out_stride) {
  $s_e room[COIL_L];
  for (long i = 0; i < rows; i++)
    for (long d = 0; d < dims; d += COIL_L)
      c_store_f32(out + i * out_stride + d, $s_load(p + i * stride + d * dim_stride, dim_stride, dims - d, room));
}
// Rows of f32 as the operand's dtype.
COIL_PART void $s_write_rows(const f32* p, long p_stride, long rows, long dims, $s_e* out, long stride,
                             long dim_stride) {
  for (long i = 0; i < rows; i++)
    for (long d = 0; d < dims; d += COIL_L) {
      const f32* row = p + i * p_stride + d;
      $s_e* at = out + i * stride + d * dim_stride;
      const long n = dims - d < COIL_L ? dims - d : COIL_L;
      if (dim_stride == 1 && n == COIL_L)
        c_store_$d(at, c_load_f32v(row));
      else if (dim_stride == 1)
        c_storen_$d(at, c_load_f32v(row), n);
      else
        for (long e = 0; e < n; e++) c_store_$d(at + e * dim_stride, row[e]);
    }
}
// Rows of f32 that become the ones in memory, or are added to them.
typedef f32 $s_f32 __attribute__((may_alias));
COIL_PART void $s_add_rows(const f32* p, long p_stride, long rows, long dims, $s_f32* out, long stride, long dim_stride,
                           bool first) {
  for (long i = 0; i < rows; i++)
    for (long d = 0; d < dims; d += COIL_L) {
      const f32* row = p + i * p_stride + d;
      $s_f32* at = out + i * stride + d * dim_stride;
      const long n = dims - d < COIL_L ? dims - d : COIL_L;
      if (dim_stride == 1 && n == COIL_L)
        c_store_f32(at, first ? c_load_f32v(row) : c_load_f32v(at) + c_load_f32v(row));
      else
        for (long e = 0; e < n; e++) at[e * dim_stride] = first ? row[e] : at[e * dim_stride] + row[e];
    }
}
// A head of keys and values, of which a block is packed, and what is added up for it.
struct $s_keys {
  f32 k[($BK)*$DS] __attribute__((aligned(64)));  // rows
  f32 kt[$D * $BS] __attribute__((aligned(64)));  // transposed, as v
  f32 vt[$DV * $BS] __attribute__((aligned(64)));
  f32 dk[($BK + $R) * $DS] __attribute__((aligned(64)));
  f32 dv[($BK + $R) * $VS] __attribute__((aligned(64)));
  long first, count;
};
// A block of queries, and what it and the keys have together.
struct $s_queries {
  f32 q[($BQ + $R) * $DS] __attribute__((aligned(64)));
  f32 dy[($BQ + $R) * $VS] __attribute__((aligned(64)));
  f32 p[($BQ + $R) * $BS] __attribute__((aligned(64)));
  f32 ds[($BQ + $R) * $BS] __attribute__((aligned(64)));
  f32 dq[($BQ + $R) * $DS] __attribute__((aligned(64)));
  f32 along[$BQ];  // sums over a row of dy y
  long first, count;
};
// From scores and dP to P and dS.
COIL_PART void $s_slopes($s_queries& b, const $s_keys& keys, const f32* logs, const void* mask, const long* z) {
  $names;
  for (long i = 0; i < b.count; i++) {
    // A query that sees no key has no probabilities.
    const f32 log = logs[i * z[LogsStride]], base = log == -__builtin_inff() ? __builtin_inff() : log;
    for (long j = 0; j < keys.count; j += COIL_L) {
      f32* at = b.p + i * $BS + j;
      f32* slope = b.ds + i * $BS + j;
      f32v x = c_load_f32v(at) * $scalef;
#if $mask
      const long left = keys.count - j < COIL_L ? keys.count - j : COIL_L;
      x = x +
          $s_mask((const $s_me*)mask + i * z[MaskStride] + (keys.first + j) * z[MaskDimStride], z[MaskDimStride], left);
#endif
#if $causal
      x = c_pick(c_iota_i32v((i32)(keys.first + j - b.first - i)) > 0, c_splat_f32v(-__builtin_inff()), x);
#endif
      const f32v p = $s_exp(x - base);
      c_store_f32(at, p);
      c_store_f32(slope, p * (c_load_f32v(slope) - b.along[i]) * $scalef);
    }
  }
}
// The sums over a row of dy y, where dy is packed.
COIL_PART void $s_sum_along($s_queries& b, const $s_e* y, long stride, long dim_stride) {
  $s_e room[COIL_L];
  for (long i = 0; i < b.count; i++) {
    f32v sum = {};
    for (long d = 0; d < $DV; d += COIL_L)
      sum = sum + c_load_f32v(b.dy + i * $VS + d) * $s_load(y + i * stride + d * dim_stride, dim_stride, $DV - d, room);
    b.along[i] = c_hsum(sum);
  }
}
COIL_PART void $s_pack_keys($s_keys& keys, const $s_e* k, const $s_e* v, const long* z) {
  $names;
  $s_pack_rows(k, z[KeyStride], z[KeyDimStride], keys.count, $D, keys.k, $DS);
  for (long j = 0; j < keys.count; j += COIL_L) {
    $s_pack_lanes(k + j * z[KeyStride], z[KeyStride], z[KeyDimStride], keys.count - j, $D, keys.kt + j, $BS);
    $s_pack_lanes(v + j * z[ValueStride], z[ValueStride], z[ValueDimStride], keys.count - j, $DV, keys.vt + j, $BS);
  }
  __builtin_memset(keys.dk, 0, keys.count * $DS * sizeof(f32));
  __builtin_memset(keys.dv, 0, keys.count * $VS * sizeof(f32));
}
// All of a query head's queries that see the keys of the block.
COIL_PART void $s_meet($s_queries& b, $s_keys& keys, void* const* buffers, long batch, long head, const long* z) {
  $names;
  const $s_e* q = (const $s_e*)buffers[Query] + batch * z[QueryBatchStride] + head * z[QueryHeadStride];
  const $s_e* dy = (const $s_e*)buffers[Slope] + batch * z[SlopeBatchStride] + head * z[SlopeHeadStride];
  const $s_e* y = (const $s_e*)buffers[Out] + batch * z[OutBatchStride] + head * z[OutHeadStride];
  const f32* logs = (const f32*)buffers[Logs] + batch * z[LogsBatchStride] + head * z[LogsHeadStride];
  $s_f32* dq =
      ($s_f32*)buffers[QueryGradient] + batch * z[QueryGradientBatchStride] + head * z[QueryGradientHeadStride];
  const long width = (keys.count + COIL_L - 1) / COIL_L * COIL_L;
  for (b.first = $causal ? keys.first / $BQ * $BQ : 0; b.first < z[Queries]; b.first += $BQ) {
    const long i = b.first, n = b.count = z[Queries] - i < $BQ ? z[Queries] - i : $BQ;
    $s_pack_rows(q + i * z[QueryStride], z[QueryStride], z[QueryDimStride], n, $D, b.q, $DS);
    $s_pack_rows(dy + i * z[SlopeStride], z[SlopeStride], z[SlopeDimStride], n, $DV, b.dy, $VS);
    $s_sum_along(b, y + i * z[OutStride], z[OutStride], z[OutDimStride]);
    $s_product<$DS, 1, $BS, false>(b.q, keys.kt, n, $D, width, b.p, $BS);
    $s_product<$VS, 1, $BS, false>(b.dy, keys.vt, n, $DV, width, b.ds, $BS);
    $s_slopes(b, keys, logs + i * z[LogsStride], $mask_pointer, z);
    $s_product<1, $BS, $VS, true>(b.p, b.dy, keys.count, n, $DV, keys.dv, $VS);
    $s_product<1, $BS, $DS, true>(b.ds, b.q, keys.count, n, $D, keys.dk, $DS);
    $s_product<$BS, 1, $DS, false>(b.ds, keys.k, n, keys.count, $D, b.dq, $DS);
    $s_add_rows(b.dq, $DS, n, $D, dq + i * z[QueryGradientStride], z[QueryGradientStride], z[QueryGradientDimStride],
                keys.first == 0);
  }
}
extern "C" void $s(void* const* buffers, const long* z, long begin, long end) {
  $names;
  $s_keys keys;
  $s_queries queries;
  const long shared = z[Heads] / z[KeyHeads];
  for (long at = begin; at < end; at++) {
    const long b = at / z[KeyHeads], h = at % z[KeyHeads];
    const $s_e* k = (const $s_e*)buffers[Key] + b * z[KeyBatchStride] + h * z[KeyHeadStride];
    const $s_e* v = (const $s_e*)buffers[Value] + b * z[ValueBatchStride] + h * z[ValueHeadStride];
    $s_e* dk = ($s_e*)buffers[KeyGradient] + b * z[KeyGradientBatchStride] + h * z[KeyGradientHeadStride];
    $s_e* dv = ($s_e*)buffers[ValueGradient] + b * z[ValueGradientBatchStride] + h * z[ValueGradientHeadStride];
    // Without keys once too, since the queries' gradients are zeros then.
    long first = 0;
    do {
      keys.first = first, keys.count = z[Keys] - first < $BK ? z[Keys] - first : $BK;
      $s_pack_keys(keys, k + first * z[KeyStride], v + first * z[ValueStride], z);
      for (long i = 0; i < shared; i++) $s_meet(queries, keys, buffers, b, h * shared + i, z);
      $s_write_rows(keys.dk, $DS, keys.count, $D, dk + first * z[KeyGradientStride], z[KeyGradientStride],
                    z[KeyGradientDimStride]);
      $s_write_rows(keys.dv, $VS, keys.count, $DV, dv + first * z[ValueGradientStride], z[ValueGradientStride],
                    z[ValueGradientDimStride]);
      first += $BK;
    } while (first < z[Keys]);
  }
}
