// Products of few rows by matrices in 16 bits, such as weights of linear layers: each element of the matrix is read
// once, straight into the registers that the matrix units want it in.
#pragma once
#include "products.cuh"

// @piece thin products
// ---- A block has up to 8 T rows and some columns. Its WARPS warps, and those of the CLUSTER blocks that share these,
// take turns at pieces of the sums, and add up in shared memory what each found. Which elements of a piece the units
// multiply with which others is free, as long as both operands have them in the same order: a thread reads neighbours.
C_FN uint4 c_eight(const c_matrix& m, i64 row, i64 column) { return *(const uint4*)(m.at + row * m.row + column); }
template <class Make> C_FN uint4 c_eight(const c_made<Make>& m, i64 row, i64 column) {
  c_pack<u16, 8> made;
  m.make(row, column, made.e);
  uint4 eight;
  memcpy(&eight, &made, sizeof eight);
  return eight;
}

// The share of a warp in a matrix whose columns are dense: 16 C columns, of which it loads 32 rows at a time. A thread
// holds eight neighbouring elements of every eighth column, and the same eight rows of the other operand.
template <int C, int T> struct c_thin_along {
  static constexpr int columns = 16 * C, depth = 32, of_thread = 8, tiles = C;
  uint4 eights[C][2], rows[T];

  // Columns that are not there are the last one once more: nobody stores their sums.
  template <class A> C_METHOD void fetch(const c_operands<A>& o, i64 k) {
    const int of_eight = threadIdx.x % 32 / 4;
#pragma unroll
    for (int c = 0; c < 2 * C; ++c) {
      const i64 column = o.from + c * 8 + of_eight, at = column < o.columns ? column : o.columns - 1;
      eights[c / 2][c % 2] = c_read_once(o.w.at + at * o.w.row + k);
    }
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const i64 row = o.first + t * 8 + of_eight;
      if (row < o.end) rows[t] = c_eight(o.x, row, k);
    }
  }
  template <bool BF16> C_METHOD void multiply(f32 (&acc)[C][T][4]) const {
#pragma unroll
    for (int c = 0; c < C; ++c) {
      const uint4 &even = eights[c][0], &odd = eights[c][1];
      const u32 first[4] = {even.x, odd.x, even.y, odd.y}, second[4] = {even.z, odd.z, even.w, odd.w};
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const u32 low[2] = {rows[t].x, rows[t].y}, high[2] = {rows[t].z, rows[t].w};
        c_matrix_add_16<BF16>(acc[c][t], first, low);
        c_matrix_add_16<BF16>(acc[c][t], second, high);
      }
    }
  }
  // The column of sums e of tile c.
  static C_METHOD int column(int c, int e) { return c * 16 + e / 2 * 8 + threadIdx.x % 32 / 4; }
};

// The same for a matrix whose rows are dense: 64 columns, of which a warp loads 16 rows at a time. A thread holds four
// rows of eight neighbouring columns, which the matrix units take two at a time, and the same four rows of the other
// operand.
template <int T> struct c_thin_across {
  static constexpr int columns = 64, depth = 16, of_thread = 4, tiles = 4;
  uint4 eights[4];
  uint2 rows[T];

  template <class A> C_METHOD void fetch(const c_operands<A>& o, i64 k) {
    const int of_eight = threadIdx.x % 32 / 4;
    const i64 column = o.from + of_eight * 8, at = column < o.columns ? column : o.columns - 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) eights[i] = c_read_once(o.w.at + (k + i) * o.w.row + at);
#pragma unroll
    for (int t = 0; t < T; ++t) {
      const i64 row = o.first + t * 8 + of_eight;
      if (row < o.end) rows[t] = *(const uint2*)(o.x.at + row * o.x.row + k);
    }
  }
  static C_METHOD u32 word(const uint4& x, int c) { return c == 0 ? x.x : c == 1 ? x.y : c == 2 ? x.z : x.w; }
  template <bool BF16> C_METHOD void multiply(f32 (&acc)[4][T][4]) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const u32 a = word(eights[0], c), b = word(eights[1], c), d = word(eights[2], c), e = word(eights[3], c);
      const u32 columns[4] = {(a & 0xffffu) | b << 16, a >> 16 | (b & 0xffff0000u), (d & 0xffffu) | e << 16,
                              d >> 16 | (e & 0xffff0000u)};
#pragma unroll
      for (int t = 0; t < T; ++t) {
        const u32 row[2] = {rows[t].x, rows[t].y};
        c_matrix_add_16<BF16>(acc[c][t], columns, row);
      }
    }
  }
  static C_METHOD int column(int c, int e) { return threadIdx.x % 32 / 4 * 8 + c * 2 + e / 2; }
};

// What one warp finds, to shared memory: element [row][column] of its part, whose rows are longer than they need be, so
// that what a warp stores at one time lies in different banks.
template <class Piece> constexpr int c_thin_pitch = Piece::columns + 4;
template <bool BF16, class Piece, int WARPS, int T, int STAGES, int CLUSTER, class A>
C_FN void c_thin_sums(f32* to, const c_operands<A>& o, int rank) {
  const int lane = threadIdx.x % 32, step = WARPS * CLUSTER * Piece::depth;
  const i64 begin = (rank * WARPS + (int)threadIdx.x / 32) * Piece::depth + lane % 4 * Piece::of_thread;
  const int pieces = (int)((o.depth + step - 1) / step);
  f32 acc[Piece::tiles][T][4] = {};
  Piece way[STAGES];
  const auto fetch = [&](Piece& p, int n) {
    p = {};
    if (n < pieces && begin + (i64)n * step < o.depth) p.fetch(o, begin + (i64)n * step);
  };
#pragma unroll
  for (int s = 0; s < STAGES; ++s) fetch(way[s], s);
  for (int n = 0; n < pieces; n += STAGES)
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      if (n + s >= pieces) break;
      way[s].template multiply<BF16>(acc);
      fetch(way[s], n + s + STAGES);
    }
#pragma unroll
  for (int c = 0; c < Piece::tiles; ++c)
#pragma unroll
    for (int t = 0; t < T; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        to[(t * 8 + lane % 4 * 2 + e % 2) * c_thin_pitch<Piece> + Piece::column(c, e)] = acc[c][t][e];
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

// Rows times columns of one tile, by blocks of which `rank` is this one's number in its cluster; the first gets what
// the others found. each(row, column, p, q) as in c_product_tile. (Blocks use different places of shared memory, so
// that where there are no clusters all of it may be one.)
template <bool BF16, class Piece, int WARPS, int T, int STAGES, int CLUSTER, class A, class Each>
C_FN void c_thin_tile(uint4* shared, int rank, const c_operands<A>& o, const Each& each) {
  constexpr int half = Piece::columns / 2, pitch = c_thin_pitch<Piece>, part = 8 * T * pitch, pairs = 8 * T * half,
                of_block = WARPS * part;
  f32 *const sums = (f32*)shared, *const own = sums + rank * of_block;
  c_thin_sums<BF16, Piece, WARPS, T, STAGES, CLUSTER>(own + threadIdx.x / 32 * part, o, rank);
  const auto give = [&](int i, const c_pack<f32, 2>& two) {
    const i64 row = o.first + i / half, column = o.from + i % half * 2;
    if (row < o.end && column < o.columns) each(row, column, two.e[0], two.e[1]);
  };
  c_sync();
  for (int i = threadIdx.x; i < pairs; i += WARPS * 32) {
    const int at = i / half * pitch + i % half * 2;
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
    give(i, c_sum_of_pairs<CLUSTER>(sums + i / half * pitch + i % half * 2, of_block));
}

// Tile `n` of rows times columns.
template <bool BF16, class Piece, int WARPS, int T, int STAGES, int CLUSTER, class A, class Each>
C_FN void c_thin_product(uint4* shared, i64 n, int rank, const A& x, const c_matrix& w, i64 rows, i64 columns,
                         i64 depth, const Each& each) {
  const i64 across = (columns + Piece::columns - 1) / Piece::columns;
  const c_operands<A> o{x, w, n / across * 8 * T, rows, n % across * Piece::columns, columns, depth};
  c_thin_tile<BF16, Piece, WARPS, T, STAGES, CLUSTER>(shared, rank, o, each);
}
