// Products of few rows by matrices in 16 bits whose columns are dense, such as weights of linear layers: each element
// of the matrix is read once, straight into the registers that the matrix units want it in.
#pragma once
#include "products.cuh"

// @piece thin products
// ---- A block has up to 8 T rows and 16 C columns. Its WARPS warps, and those of the CLUSTER blocks that share these,
// take turns at pieces of 32 elements of the sums, and add up in shared memory what each found. A thread has eight
// neighbouring elements of a row or column of a piece: which of them the units multiply with which others is free, as
// long as both operands have them in the same order.

// A piece of both operands on its way: the parts of a thread.
template <int C, int T> struct c_thin_piece {
  uint4 columns[C][2], rows[T];
};
C_FN uint4 c_eight(const c_matrix& m, i64 row, i64 column) { return *(const uint4*)(m.at + row * m.row + column); }
template <class Make> C_FN uint4 c_eight(const c_made<Make>& m, i64 row, i64 column) {
  c_pack<u16, 8> made;
  m.make(row, column, made.e);
  uint4 eight;
  memcpy(&eight, &made, sizeof eight);
  return eight;
}

// Columns that are not there are the last one once more: nobody stores their sums.
template <int C, int T, class A> C_FN void c_fetch_thin(c_thin_piece<C, T>& p, const c_operands<A>& o, i64 k) {
  const int of_eight = threadIdx.x % 32 / 4;
  p = {};
  if (k >= o.depth) return;
#pragma unroll
  for (int c = 0; c < 2 * C; ++c) {
    const i64 column = o.from + c * 8 + of_eight, at = column < o.columns ? column : o.columns - 1;
    p.columns[c / 2][c % 2] = c_read_once(o.w.at + at * o.w.row + k);
  }
#pragma unroll
  for (int t = 0; t < T; ++t) {
    const i64 row = o.first + t * 8 + of_eight;
    if (row < o.end) p.rows[t] = c_eight(o.x, row, k);
  }
}

template <bool BF16, int C, int T> C_FN void c_multiply_thin(f32 (&acc)[C][T][4], const c_thin_piece<C, T>& p) {
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const uint4 &even = p.columns[c][0], &odd = p.columns[c][1], &row = p.rows[t];
      const u32 first[4] = {even.x, odd.x, even.y, odd.y}, second[4] = {even.z, odd.z, even.w, odd.w};
      const u32 low[2] = {row.x, row.y}, high[2] = {row.z, row.w};
      c_matrix_add_16<BF16>(acc[c][t], first, low);
      c_matrix_add_16<BF16>(acc[c][t], second, high);
    }
}

// What one warp finds, to shared memory: element [row][column] of its part, whose rows are longer than they need be, so
// that what a warp stores at one time lies in different banks.
template <int C> constexpr int c_thin_pitch = 16 * C + 4;
template <bool BF16, int WARPS, int C, int T, int STAGES, int CLUSTER, class A>
C_FN void c_thin_sums(f32* to, const c_operands<A>& o, int rank) {
  const int lane = threadIdx.x % 32, step = WARPS * CLUSTER * 32;
  const i64 begin = (rank * WARPS + (int)threadIdx.x / 32) * 32 + lane % 4 * 8;
  const int pieces = (int)((o.depth + step - 1) / step);
  f32 acc[C][T][4] = {};
  c_thin_piece<C, T> way[STAGES];
  const auto fetch = [&](c_thin_piece<C, T>& p, int n) {
    if (n < pieces) c_fetch_thin(p, o, begin + (i64)n * step);
  };
#pragma unroll
  for (int s = 0; s < STAGES; ++s) fetch(way[s], s);
  for (int n = 0; n < pieces; n += STAGES)
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      if (n + s >= pieces) break;
      c_multiply_thin<BF16>(acc, way[s]);
      fetch(way[s], n + s + STAGES);
    }
#pragma unroll
  for (int c = 0; c < C; ++c)
#pragma unroll
    for (int t = 0; t < T; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        to[(t * 8 + lane % 4 * 2 + e % 2) * c_thin_pitch<C> + c * 16 + e / 2 * 8 + lane / 4] = acc[c][t][e];
}

// The sum of COUNT pairs, of which each lies `apart` elements behind the one before.
template <int COUNT> C_FN c_pack<f32, 2> c_sum_of_pairs(const f32* from, int apart) {
  c_pack<f32, 2> sum = {};
#pragma unroll
  for (int k = 0; k < COUNT; ++k) {
    const c_pack<f32, 2> two = c_read<2>(from + k * apart);
    sum.e[0] += two.e[0], sum.e[1] += two.e[1];
  }
  return sum;
}

// Tile `n` of rows times columns, by blocks of which `rank` is this one's number in its cluster; the first gets what
// the others found. each(row, column, p, q) as in c_product_tile. (Blocks use different places of shared memory, so
// that where there are no clusters all of it may be one.)
template <bool BF16, int WARPS, int C, int T, int STAGES, int CLUSTER, class A, class Each>
C_FN void c_thin_product(uint4* shared, i64 n, int rank, const A& x, const c_matrix& w, i64 rows, i64 columns,
                         i64 depth, const Each& each) {
  constexpr int pitch = c_thin_pitch<C>, part = 8 * T * pitch, pairs = 8 * T * 8 * C, of_block = WARPS * part;
  const i64 across = (columns + 16 * C - 1) / (16 * C);
  const c_operands<A> o{x, w, n / across * 8 * T, rows, n % across * 16 * C, columns, depth};
  f32 *const sums = (f32*)shared, *const own = sums + rank * of_block;
  c_thin_sums<BF16, WARPS, C, T, STAGES, CLUSTER>(own + threadIdx.x / 32 * part, o, rank);
  const auto give = [&](int i, const c_pack<f32, 2>& two) {
    const i64 row = o.first + i / (8 * C), column = o.from + i % (8 * C) * 2;
    if (row < rows && column < columns) each(row, column, two.e[0], two.e[1]);
  };
  c_sync();
  for (int i = threadIdx.x; i < pairs; i += WARPS * 32) {
    const int at = i / (8 * C) * pitch + i % (8 * C) * 2;
    const c_pack<f32, 2> two = c_sum_of_pairs<WARPS>(own + at, part);
    if (CLUSTER == 1)
      give(i, two);
    else
      c_write<2>(c_shared_of(own + at, 0), two);
  }
  if (CLUSTER == 1) return;
  c_cluster_sync();
  if (rank > 0) return;
  for (int i = threadIdx.x; i < pairs; i += WARPS * 32)
    give(i, c_sum_of_pairs<CLUSTER>(sums + i / (8 * C) * pitch + i % (8 * C) * 2, of_block));
}
