// Products of matrices in 16 bits where the copy engine fetches tiles (sm_90a): blocks that stay, some threads that
// fetch ahead and others that multiply.
#pragma once
#include "products.cuh"

// @piece streamed_products
#ifdef C_WARPGROUPS
// ---- A block has one warpgroup that fetches and two that multiply, each 64 of its 128 rows by N columns. Two blocks
// of a cluster have neighbouring rows and the same columns: each fetches half of the second operand, for both. STAGES
// pieces of 64 along the sum are on their way or being multiplied; blocks stay and take tile after tile, so that the
// pieces of the next one come while results of the last are written.
template <int N, int STAGES> struct c_stream {
  static constexpr int of_a = 128 * 64, stage = of_a + N * 64;
  u16* pieces;
  u64 *full, *empty;
  u32* stop;  // of the cluster's first block, for all: blocks that leave alone would be waited for
};
template <int N, int STAGES> C_FN c_stream<N, STAGES> c_make_stream(void* shared, int cluster, const i64* status) {
  const u32 skip = (1024 - (u32)__cvta_generic_to_shared(shared) % 1024) % 1024;
  c_stream<N, STAGES> s;
  s.pieces = (u16*)shared + skip / 2;
  s.full = (u64*)(s.pieces + STAGES * c_stream<N, STAGES>::stage);
  s.empty = s.full + STAGES;
  s.stop = (u32*)(s.empty + STAGES);
  const bool stop = c_stop(status);
  if (threadIdx.x == 0) {
    *s.stop = stop;
    for (int k = 0; k < STAGES; ++k) {
      c_barrier_make(s.full + k, 1);
      c_barrier_make(s.empty + k, 2 * cluster);
    }
    c_barriers_made();
  }
  return s;
}
// Where the fetching or the multiplying threads are in the ring of pieces.
template <int STAGES> struct c_ring_place {
  int stage = 0;
  u32 phase = 0;
  C_METHOD void next() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  }
};

// A tile of the result: rows [row, end), 128 of them at most, and N columns from `column` on, of matrix `batch`; they
// are products of matrix `a` of the first operand and `b` of the second, over `depth` elements.
struct c_stream_tile {
  i64 row, end, column, depth, batch;
  i32 a, b;
};

// Where the second operand's rows are dense (not ALONG), each block of a cluster fetches some of its rows, else some of
// the columns.
template <bool ALONG, int N, int STAGES, int CLUSTER>
C_FN void c_fetch_stream(const c_stream<N, STAGES>& s, c_ring_place<STAGES>& at, const c_tile_map& x,
                         const c_tile_map& w, const c_stream_tile& tile, u32 rank) {
  constexpr int of_a = c_stream<N, STAGES>::of_a, share = (ALONG ? N : 64) / CLUSTER, step = ALONG ? N : 64;
  constexpr u16 all = (1 << CLUSTER) - 1;
  const int pieces = (int)((tile.depth + 63) / 64), first = (int)rank * share;
  for (int piece = 0; piece < pieces; ++piece, at.next()) {
    u16* const a = s.pieces + at.stage * c_stream<N, STAGES>::stage;
    u64* const full = s.full + at.stage;
    c_barrier_wait(s.empty + at.stage, at.phase ^ 1);
    c_barrier_announce(full, 2 * c_stream<N, STAGES>::stage);
    const i32 k = piece * 64, column = (i32)tile.column;
    c_fetch_tile(a, x, full, k, (i32)tile.row, tile.a);
#pragma unroll
    for (int e = 0; e < N; e += step) {
      u16* const b = a + of_a + (e + first) * 64;
      const i32 inner = ALONG ? k : column + e, outer = ALONG ? column + first : k + first;
      if (CLUSTER > 1)
        c_fetch_tile(b, w, full, inner, outer, tile.b, all);
      else
        c_fetch_tile(b, w, full, inner, outer, tile.b);
    }
  }
}

template <bool BF16, bool ALONG, int N, int STAGES, int CLUSTER>
C_FN void c_multiply_stream(f32 (&acc)[N / 2], const c_stream<N, STAGES>& s, c_ring_place<STAGES>& at, i64 depth) {
  constexpr int of_a = c_stream<N, STAGES>::of_a;
  const int pieces = (int)((depth + 63) / 64), group = (int)threadIdx.x / 128 - 1, lane = threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) acc[i] = 0;
  int before = 0;
  for (int piece = 0; piece < pieces; ++piece, at.next()) {
    c_barrier_wait(s.full + at.stage, at.phase);
    const u16* const p = s.pieces + at.stage * c_stream<N, STAGES>::stage;
    c_multiply_shared<BF16, ALONG, N>(acc, p + group * (64 * 64), p + of_a);
    c_warpgroup_wait<1>();
    if (piece > 0 && lane < CLUSTER) c_barrier_arrive(s.empty + before, lane);
    before = at.stage;
  }
  c_warpgroup_wait<0>();
  if (pieces > 0 && lane < CLUSTER) c_barrier_arrive(s.empty + before, lane);
#pragma unroll
  for (int i = 0; i < N / 2; ++i) c_opaque(acc[i]);
}

// Each of four neighbouring lanes has two elements of four groups of eight, and gets all of one: its own.
C_FN uint4 c_turn_groups(const u32 (&v)[4], int lane) {
  const bool odd = lane & 1, high = lane & 2;
  const u32 s = c_shfl_xor(odd ? v[0] : v[1], 1), t = c_shfl_xor(odd ? v[2] : v[3], 1);
  const u32 a = odd ? s : v[0], b = odd ? v[1] : s, c = odd ? t : v[2], d = odd ? v[3] : t;
  const u32 x = c_shfl_xor(high ? a : c, 2), y = c_shfl_xor(high ? b : d, 2);
  uint4 r;
  r.x = high ? x : a, r.y = high ? y : b, r.z = high ? c : x, r.w = high ? d : y;
  return r;
}

// Eight neighbours of each of some operands in 16 bits, each of them one access.
template <int OPERANDS> struct c_eights {
  uint4 of[OPERANDS > 0 ? OPERANDS : 1];
};
// What becomes of sums. Where there are OPERANDS beside them to be read, take(tile, row, column) reads eight neighbours
// of each, of several places before the first are used, and of(tile, row, column, sums, taken) is given eight sums, by
// reference; else it is given two. Those that are kept in 16 bits put(tile, row, column, eight) writes.
template <bool NARROW, int OPERANDS, class Take, class Of, class Put> struct c_stream_result {
  static constexpr bool narrow = NARROW;
  static constexpr int operands = OPERANDS;
  Take take;
  Of of;
  Put put;
};
template <bool NARROW, int OPERANDS, class Take, class Of, class Put>
C_FN c_stream_result<NARROW, OPERANDS, Take, Of, Put> c_make_result(const Take& take, const Of& of, const Put& put) {
  return {take, of, put};
}
template <bool BF16> C_FN u32 c_put_pair(f32 p, f32 q) { return BF16 ? c_put_bf16_pair(p, q) : c_put_f16_pair(p, q); }
// Two of eight elements in 16 bits.
template <bool BF16> C_FN c_two c_two_of(const uint4& x, int k) {
  const u32 both = k == 0 ? x.x : k == 1 ? x.y : k == 2 ? x.z : x.w;
  const u16 p = (u16)both, q = (u16)(both >> 16);
  return BF16 ? c_two{c_get_bf16(p), c_get_bf16(q)} : c_two{c_get_f16(p), c_get_f16(q)};
}

// The sums of a thread in rows row + 8 * HALF of a tile, by groups of four times eight columns.
template <bool BF16, int N, int HALF, class Result>
C_FN void c_give_eights(const f32 (&acc)[N / 2], const c_stream_tile& tile, i64 row, int lane, const Result& result) {
  constexpr int groups = N / 32, at_once = Result::operands == 1 ? groups : groups / 2;
#pragma unroll
  for (int from = 0; from < groups; from += at_once) {
    c_eights<Result::operands> taken[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) taken[k] = result.take(tile, row, tile.column + ((from + k) * 4 + lane % 4) * 8);
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      u32 p[4], q[4];
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const int at = ((from + k) * 4 + g) * 4 + HALF * 2;
        p[g] = c_bits_of(acc[at]), q[g] = c_bits_of(acc[at + 1]);
      }
      const uint4 a = c_turn_groups(p, lane), b = c_turn_groups(q, lane);
      f32 v[8] = {c_f32_of(a.x), c_f32_of(b.x), c_f32_of(a.y), c_f32_of(b.y),
                  c_f32_of(a.z), c_f32_of(b.z), c_f32_of(a.w), c_f32_of(b.w)};
      const i64 column = tile.column + ((from + k) * 4 + lane % 4) * 8;
      result.of(tile, row, column, v, taken[k]);
      if constexpr (Result::narrow)
        result.put(tile, row, column,
                   uint4{c_put_pair<BF16>(v[0], v[1]), c_put_pair<BF16>(v[2], v[3]), c_put_pair<BF16>(v[4], v[5]),
                         c_put_pair<BF16>(v[6], v[7])});
    }
  }
}

template <bool BF16, int N, int HALF, class Result>
C_FN void c_give_pairs(const f32 (&acc)[N / 2], const c_stream_tile& tile, i64 row, int lane, const Result& result) {
#pragma unroll
  for (int k = 0; k < N / 8; k += 4) {
    u32 packed[4];
#pragma unroll
    for (int g = 0; g < 4; ++g) {
      f32 v[2] = {acc[(k + g) * 4 + HALF * 2], acc[(k + g) * 4 + HALF * 2 + 1]};
      result.of(tile, row, tile.column + (k + g) * 8 + lane % 4 * 2, v, c_eights<0>());
      if constexpr (Result::narrow) packed[g] = c_put_pair<BF16>(v[0], v[1]);
    }
    if constexpr (Result::narrow) result.put(tile, row, tile.column + (k + lane % 4) * 8, c_turn_groups(packed, lane));
  }
}

template <bool BF16, int N, class Result>
C_FN void c_give_stream(const f32 (&acc)[N / 2], const c_stream_tile& tile, const Result& result) {
  const int lane = threadIdx.x % 32, warp = (int)threadIdx.x / 32 - 4;
  const i64 row = tile.row + warp * 16 + lane / 4;
  if constexpr (Result::operands > 0) {
    c_give_eights<BF16, N, 0>(acc, tile, row, lane, result);
    c_give_eights<BF16, N, 1>(acc, tile, row + 8, lane, result);
  } else {
    c_give_pairs<BF16, N, 0>(acc, tile, row, lane, result);
    c_give_pairs<BF16, N, 1>(acc, tile, row + 8, lane, result);
  }
}

// Tiles that tile_of(n) tells, from block to block; it returns false behind the last one.
template <bool BF16, bool ALONG, int N, int STAGES, int CLUSTER, class TileOf, class Result>
C_FN void c_streamed_product(void* shared, const c_tile_map& x, const c_tile_map& w, const TileOf& tile_of,
                             const Result& result, const i64* status) {
  const u32 rank = CLUSTER > 1 ? blockIdx.x % CLUSTER : 0;
  const auto s = c_make_stream<N, STAGES>(shared, CLUSTER, status);
  const auto together = [] {
    if (CLUSTER > 1)
      c_cluster_sync();
    else
      c_sync();
  };
  together();
  if (*(CLUSTER > 1 ? c_shared_of(s.stop, 0) : s.stop)) return together();
  c_ring_place<STAGES> at;
  c_stream_tile tile;
  const i64 step = gridDim.x / CLUSTER;
  if (threadIdx.x < 128) {
    c_give_registers<40>();
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0) c_map_ahead(x), c_map_ahead(w);
      for (i64 n = blockIdx.x / CLUSTER; tile_of(n, rank, tile); n += step) {
        if (threadIdx.x == 0) c_fetch_stream<ALONG, N, STAGES, CLUSTER>(s, at, x, w, tile, rank);
        c_sync_warp();
      }
    }
  } else {
    c_take_registers<232>();
    f32 acc[N / 2];
    for (i64 n = blockIdx.x / CLUSTER; tile_of(n, rank, tile); n += step) {
      c_multiply_stream<BF16, ALONG, N, STAGES, CLUSTER>(acc, s, at, tile.depth);
      c_give_stream<BF16, N>(acc, tile, result);
    }
  }
  together();
}
#endif
