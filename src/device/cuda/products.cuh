// Products of matrices in 16 bits on the matrix units, tile by tile.
#pragma once
#include "memory.cuh"

// @piece products
// ---- A block of eight warps has M rows of one run by N columns. Both operands pass through shared memory in pieces
// of 32 along the dimension that is summed over, several of them on their way while one is multiplied. Rows in shared
// memory are eight elements longer than they need be, so that eight of them lie in different banks.
struct c_matrix {
  static constexpr bool made = false;
  const u16* at;
  i64 row;  // elements from one row of it to the next; in a row they are side by side
};
// A matrix that is nowhere in memory: make(row, column, to) stores eight neighbouring elements of a row of it.
template <class Make> struct c_made {
  static constexpr bool made = true;
  const Make& make;
};
template <class Make> C_FN c_made<Make> c_made_by(const Make& make) { return {make}; }

// Eight neighbouring elements of a row on their way to shared memory, or zeros if they are not there.
C_FN void c_fetch_eight(u16* to, const c_matrix& m, i64 row, i64 column, bool there) {
  c_copy_ahead(to, m.at + (there ? row * m.row + column : 0), there);
}
template <class Make> C_FN void c_fetch_eight(u16* to, const c_made<Make>& m, i64 row, i64 column, bool there) {
  if (there)
    m.make(row, column, to);
  else
    c_write<8>(to, c_pack<u16, 8>{});
}
// Where tile `n` of `down` by `across` lies. Those that run at one time are a block of eight rows of tiles: columns of
// the second operand are read from memory once for these, and rows of the first one stay in the cache meanwhile.
struct c_tile_place {
  i64 down, across;
};
C_FN c_tile_place c_place_tile(i64 n, i64 down, i64 across) {
  const i64 band = n / (8 * across), in = n - band * 8 * across, left = down - band * 8, high = left < 8 ? left : 8;
  return {band * 8 + in % high, in / high};
}

// R rows of 32 elements: of those rows and elements that are not there, zeros.
template <int R, class Matrix>
C_FN void c_fetch_along(u16* to, const Matrix& m, i64 first, i64 rows, i64 from, i64 length) {
#pragma unroll
  for (int c = threadIdx.x; c < R * 4; c += 256) {
    const int r = c / 4, e = c % 4 * 8;
    const bool there = first + r < rows && from + e < length;
    c_fetch_eight(to + r * 40 + e, m, first + r, from + e, there);
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
template <class A = c_matrix> struct c_operands {
  A x;
  c_matrix w;
  i64 first, end, from, columns, depth;
};

#ifdef C_WARPGROUPS
// R rows of 64 elements, as c_shared_matrix wants them: of those rows and elements that are not there, zeros.
template <int R, int WIDE, class Matrix>
C_FN void c_fetch_pieces(u16* to, const Matrix& m, i64 first, i64 rows, i64 from, i64 end) {
#pragma unroll
  for (int k = 0; k < R * WIDE / 256; ++k) {
    const int c = k * 256 + (int)threadIdx.x, r = c / WIDE, e = c % WIDE;
    const bool there = first + r < rows && from + e * 8 < end;
    c_fetch_eight(to + (e / 8 * R + r) * 64 + ((e ^ r) % 8) * 8, m, first + r, from + e * 8, there);
  }
}

// A warpgroup begins to multiply its 64 rows of a piece, 64 elements of a sum, by N columns.
template <bool BF16, bool ALONG, int N>
C_FN void c_multiply_shared(f32 (&acc)[N / 2], const u16* rows, const u16* columns) {
  u64 a = c_shared_matrix(rows, 1024, 0), b = c_shared_matrix(columns, 1024, 64 * 128);
  c_warpgroup_begin();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    c_warpgroup_add<BF16, !ALONG>(acc, a, b);
    a += 32 >> 4, b += (ALONG ? 32 : 16 * 128) >> 4;
  }
  c_warpgroup_begun();
}

// A warpgroup has 64 of 128 rows and all N columns. Pieces of 64 along the sum are in shared memory: AHEAD of them on
// their way, one that is multiplied, and one whose products may still run.
template <bool BF16, bool ALONG, int N, int AHEAD, class A>
C_FN void c_sums_by_warpgroups(f32 (&acc)[N / 2], u16* shared, const c_operands<A>& o) {
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
    if (!A::made) fetch(piece + AHEAD);
    const u16* const at = shared + piece % stages * stage;
    c_multiply_shared<BF16, ALONG, N>(acc, at + group * (64 * 64), at + of_a);
    // What threads compute, they compute while the units multiply.
    if (A::made) fetch(piece + AHEAD);
    c_warpgroup_wait<1>();
  }
  c_warpgroup_wait<0>();
#pragma unroll
  for (int i = 0; i < N / 2; ++i) c_opaque(acc[i]);
}
#endif

// A warp has M / 2 rows by 32 columns.
template <bool BF16, bool ALONG, int M, int STAGES, class A>
C_FN void c_sums_by_warps(f32 (&acc)[M / 32][4][4], u16* shared, const c_operands<A>& o) {
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

// A tile of rows [o.first, o.end) and columns from o.from on. each(row, column, p, q) is given two neighbouring sums,
// of this column and the next, by the thread that has them; what lies outside of the result it is not given.
template <bool BF16, bool ALONG, int M, int N, int STAGES, class A, class Each>
C_FN void c_product_tile(u16* shared, const c_operands<A>& o, const Each& each) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto give = [&](const c_operands<A>& at, i64 row, i64 column, f32 p, f32 q) {
    if (row < at.end && column < at.columns) each(row, column, p, q);
  };
#ifdef C_WARPGROUPS
  if (M == 128) {
    f32 acc[N / 2] = {};
    c_sums_by_warpgroups<BF16, ALONG, N, N == 256 ? 2 : 1>(acc, shared, o);
#pragma unroll
    for (int n = 0; n < N / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        give(o, o.first + warp * 16 + half * 8 + lane / 4, o.from + n * 8 + lane % 4 * 2, acc[n * 4 + half * 2],
             acc[n * 4 + half * 2 + 1]);
    return;
  }
#endif
  for (int part = 0; part < N; part += 128) {
    c_operands<A> here = o;
    here.from += part;
    if (here.from >= o.columns) break;
    if (part > 0) c_sync();
    f32 acc[M / 32][4][4] = {};
    c_sums_by_warps<BF16, ALONG, M, STAGES>(acc, shared, here);
#pragma unroll
    for (int m = 0; m < M / 32; ++m)
#pragma unroll
      for (int n = 0; n < 4; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          give(here, here.first + warp / 4 * (M / 2) + m * 16 + half * 8 + lane / 4,
               here.from + warp % 4 * 32 + n * 8 + lane % 4 * 2, acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
  }
}

// Two neighbouring elements in 16 bits, which begin on four bytes.
template <bool BF16> C_FN void c_put_two(u16* to, f32 p, f32 q) {
  *(u32*)to = BF16 ? c_put_bf16_pair(p, q) : c_put_f16_pair(p, q);
}
struct c_two {
  f32 p, q;
};
template <bool BF16> C_FN c_two c_get_two(const u16* from) {
  const u32 both = *(const u32*)from;
  const u16 p = (u16)both, q = (u16)(both >> 16);
  return BF16 ? c_two{c_get_bf16(p), c_get_bf16(q)} : c_two{c_get_f16(p), c_get_f16(q)};
}

// Tile `n` of rows times columns.
template <bool BF16, bool ALONG, int M, int N, int STAGES, class A, class Each>
C_FN void c_blocked_product(u16* shared, i64 n, const A& x, const c_matrix& w, i64 rows, i64 columns, i64 depth,
                            const Each& each) {
  const c_tile_place at = c_place_tile(n, (rows + M - 1) / M, (columns + N - 1) / N);
  const c_operands<A> o{x, w, at.down * M, rows, at.across * N, columns, depth};
  c_product_tile<BF16, ALONG, M, N, STAGES>(shared, o, each);
}
