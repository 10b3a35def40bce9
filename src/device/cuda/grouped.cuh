// Runs of rows times a matrix for each run, in 16 bits on the matrix units, where the runs end being data.
#pragma once
#include "values.cuh"

// @piece grouped
// ---- A block of eight warps has M rows of one run by N columns. Both operands pass through shared memory in pieces
// of 32 along the dimension that is summed over, several of them on their way while one is multiplied. Rows in shared
// memory are eight elements longer than they need be, so that eight of them lie in different banks.
template <class Offset> struct c_offsets {
  const Offset* ends;
  i64 step;
  int count;
};
struct c_matrix {
  const u16* at;
  i64 row;  // elements from one row of it to the next; in a row they are side by side
};
// Rows [first, end) are those of a tile, and further ones of its group.
struct c_group_tile {
  int group;
  i64 first, end;
};

// Tiles are counted group after group; behind the last group, as one more, come the rows of none. Each lane looks at
// one group of 32.
template <int M, class Offset>
C_FN c_group_tile c_find_group(const c_offsets<Offset>& o, i64 rows, i64 tile, i64* status) {
  const int lane = threadIdx.x % 32;
  for (int from = 0; from <= o.count; from += 32) {
    const int g = from + lane;
    i64 begin = g == 0 ? 0 : g <= o.count ? (i64)o.ends[(g - 1) * o.step] : rows;
    const i64 end = g < o.count ? (i64)o.ends[g * o.step] : rows;
    if (begin < 0 || end < begin || end > rows) {
      c_fail(status);
      begin = end;
    }
    const i64 tiles = (end - begin + M - 1) / M, up_to = c_scan_warp(tiles, lane, c_op_add());
    const i64 all = c_lane_from(up_to, 31);
    if (tile < all) {
      const int of = c_reduce_warp<32>((int)(up_to <= tile), c_op_add());
      const i64 before = c_lane_from(up_to - tiles, of), first = c_lane_from(begin, of);
      return {from + of, first + (tile - before) * M, c_lane_from(end, of)};
    }
    tile -= all;
  }
  return {o.count, rows, rows};
}

// R rows of 32 elements: of those rows and elements that are not there, zeros.
template <int R> C_FN void c_fetch_along(u16* to, const c_matrix& m, i64 first, i64 rows, i64 from, i64 length) {
#pragma unroll
  for (int c = threadIdx.x; c < R * 4; c += 256) {
    const int r = c / 4, e = c % 4 * 8;
    const bool there = first + r < rows && from + e < length;
    c_copy_ahead(to + r * 40 + e, m.at + (there ? (first + r) * m.row + from + e : 0), there);
  }
}
// 32 rows of 128 elements.
C_FN void c_fetch_across(u16* to, const c_matrix& m, i64 first, i64 rows, i64 from, i64 length) {
#pragma unroll
  for (int c = threadIdx.x; c < 32 * 16; c += 256) {
    const int r = c / 16, e = c % 16 * 8;
    const bool there = first + r < rows && from + e < length;
    c_copy_ahead(to + r * 136 + e, m.at + (there ? (first + r) * m.row + from + e : 0), there);
  }
}

// acc += the warp's M / 2 rows by 32 columns over one piece.
template <bool BF16, bool ALONG, int M>
C_FN void c_multiply_piece(f32 (&acc)[M / 32][4][4], const u16* a, const u16* b, int lane) {
#pragma unroll
  for (int k = 0; k < 32; k += 16) {
    u32 rows[M / 32][4], columns[2][4];
#pragma unroll
    for (int m = 0; m < M / 32; ++m) c_load_matrices(rows[m], a + (m * 16 + lane % 16) * 40 + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int along = k + lane / 8 % 2 * 8, across = n * 16 + lane / 16 * 8;
      if (ALONG)
        c_load_matrices(columns[n], b + (across + lane % 8) * 40 + along);
      else
        c_load_transposed(columns[n], b + (along + lane % 8) * 136 + across);
    }
#pragma unroll
    for (int m = 0; m < M / 32; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n) c_matrix_add_16<BF16>(acc[m][n], rows[m], columns[n / 2] + n % 2 * 2);
  }
}

// The sums of a tile, M rows by 128 columns, from `from` on, over `depth` elements.
struct c_operands {
  c_matrix x, w;
  i64 first, end, from, columns, depth;
};

#ifdef C_WARPGROUPS
// R rows of 64 elements, as c_shared_matrix wants them: of those rows and elements that are not there, zeros.
template <int R, int WIDE>
C_FN void c_fetch_pieces(u16* to, const c_matrix& m, i64 first, i64 rows, i64 from, i64 end) {
#pragma unroll
  for (int k = 0; k < R * WIDE / 256; ++k) {
    const int c = k * 256 + (int)threadIdx.x, r = c / WIDE, e = c % WIDE;
    const bool there = first + r < rows && from + e * 8 < end;
    c_copy_ahead(to + (e / 8 * R + r) * 64 + ((e ^ r) % 8) * 8, m.at + (there ? (first + r) * m.row + from + e * 8 : 0),
                 there);
  }
}

// A warpgroup has 64 of 128 rows and all N columns. Pieces of 64 along the sum are in shared memory: AHEAD of them on
// their way, one that is multiplied, and one whose products may still run.
template <bool BF16, bool ALONG, int N, int AHEAD>
C_FN void c_sums_by_warpgroups(f32 (&acc)[N / 2], u16* shared, const c_operands& o) {
  constexpr int stages = AHEAD + 2, of_a = 128 * 64, stage = of_a + N * 64;
  shared += (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024 / 2;
  const int pieces = (int)((o.depth + 63) / 64), group = threadIdx.x / 128;
  const auto fetch = [&](int piece) {
    u16* const a = shared + piece % stages * stage;
    const i64 at = (i64)piece * 64;
    if (piece < pieces) {
      c_fetch_pieces<128, 8>(a, o.x, o.first, o.end, at, o.depth);
      if (ALONG)
        c_fetch_pieces<N, 8>(a + of_a, o.w, o.from, o.columns, at, o.depth);
      else
        c_fetch_pieces<64, N / 8>(a + of_a, o.w, at, o.depth, o.from, o.columns);
    }
    c_copies_begun();
  };
#pragma unroll
  for (int s = 0; s < AHEAD; ++s) fetch(s);
  for (int piece = 0; piece < pieces; ++piece) {
    c_copies_arrive_but<AHEAD - 1>();
    c_shared_written();
    c_sync();
    // Where it goes, no warpgroup has products running any more: each waited for all but its last.
    fetch(piece + AHEAD);
    const u16* const at = shared + piece % stages * stage;
    u64 a = c_shared_matrix(at + group * (64 * 64), 1024, 0), b = c_shared_matrix(at + of_a, 1024, 64 * 128);
    c_warpgroup_begin();
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      c_warpgroup_add<BF16, !ALONG>(acc, a, b);
      a += 32 >> 4, b += (ALONG ? 32 : 16 * 128) >> 4;
    }
    c_warpgroup_begun();
    c_warpgroup_wait<1>();
  }
  c_warpgroup_wait<0>();
#pragma unroll
  for (int i = 0; i < N / 2; ++i) c_opaque(acc[i]);
}
#endif

// A warp has M / 2 rows by 32 columns.
template <bool BF16, bool ALONG, int M, int STAGES>
C_FN void c_sums_by_warps(f32 (&acc)[M / 32][4][4], u16* shared, const c_operands& o) {
  constexpr int of_a = M * 40, of_b = ALONG ? 128 * 40 : 32 * 136, stage = of_a + of_b;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, down = warp / 4 * (M / 2), right = warp % 4 * 32;
  const int pieces = (int)((o.depth + 31) / 32);
  const auto fetch = [&](int piece) {
    u16* const a = shared + piece % STAGES * stage;
    const i64 at = (i64)piece * 32;
    if (piece < pieces) {
      c_fetch_along<M>(a, o.x, o.first, o.end, at, o.depth);
      if (ALONG)
        c_fetch_along<128>(a + of_a, o.w, o.from, o.columns, at, o.depth);
      else
        c_fetch_across(a + of_a, o.w, at, o.depth, o.from, o.columns);
    }
    c_copies_begun();
  };
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) fetch(s);
  for (int piece = 0; piece < pieces; ++piece) {
    c_copies_arrive_but<STAGES - 2>();
    c_sync();
    fetch(piece + STAGES - 1);
    const u16* const a = shared + piece % STAGES * stage;
    c_multiply_piece<BF16, ALONG, M>(acc, a + down * 40, a + of_a + (ALONG ? right * 40 : right), lane);
  }
}

template <bool BF16> C_FN void c_store_pair(u16* y, i64 y_row, const c_operands& o, i64 row, i64 column, f32 p, f32 q) {
  if (row >= o.end || column >= o.columns) return;
  *(u32*)(y + row * y_row + column) = BF16 ? c_put_bf16_pair(p, q) : c_put_f16_pair(p, q);
}

// y = x times the group's matrix. ALONG: elements of a matrix that are summed over lie side by side, so that a row of
// it is one of y's columns.
template <bool BF16, bool ALONG, int M, int N, int STAGES, class Offset>
C_FN void c_grouped_product(u16* shared, const c_matrix& x, i64 rows, i64 depth, const c_matrix& w, i64 each,
                            i64 columns, const c_offsets<Offset>& offsets, u16* y, i64 y_row, i64* status) {
  const i64 across = (columns + N - 1) / N;
  const c_group_tile tile = c_find_group<M>(offsets, rows, blockIdx.x / across, status);
  if (tile.first >= tile.end) return;
  const bool some = tile.group < offsets.count;
  const c_operands o{x,
                     {w.at + (some ? tile.group * each : 0), w.row},
                     tile.first,
                     tile.end,
                     blockIdx.x % across * N,
                     columns,
                     some ? depth : 0};
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#ifdef C_WARPGROUPS
  if (M == 128) {
    f32 acc[N / 2] = {};
    c_sums_by_warpgroups<BF16, ALONG, N, N == 256 ? 2 : 1>(acc, shared, o);
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        c_store_pair<BF16>(y, y_row, o, tile.first + warp * 16 + half * 8 + lane / 4, o.from + n * 8 + lane % 4 * 2,
                           acc[n * 4 + half * 2], acc[n * 4 + half * 2 + 1]);
    return;
  }
#endif
  for (int part = 0; part < N; part += 128) {
    c_operands here = o;
    here.from += part;
    if (here.from >= columns) break;
    if (part > 0) c_sync();
    f32 acc[M / 32][4][4] = {};
    c_sums_by_warps<BF16, ALONG, M, STAGES>(acc, shared, here);
#pragma unroll
    for (int m = 0; m < M / 32; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          c_store_pair<BF16>(y, y_row, here, tile.first + warp / 4 * (M / 2) + m * 16 + half * 8 + lane / 4,
                             here.from + warp % 4 * 32 + n * 8 + lane % 4 * 2, acc[m][n][half * 2],
                             acc[m][n][half * 2 + 1]);
  }
}
