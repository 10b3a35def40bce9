// Runs of rows times a matrix for each run, in 16 bits on the matrix units, where the runs end being data.
#pragma once
#include "products.cuh"

// @piece grouped
template <class Offset> struct c_offsets {
  const Offset* ends;
  i64 step;
  int count;
};
// Rows [first, end) are those of a tile, and further ones of its group; `across` counts tiles of columns.
struct c_group_tile {
  int group;
  i64 first, end, across;
};

// Tiles are counted group after group; behind the last group, as one more, come the rows of none. Each lane looks at
// one group of 32.
template <int M, class Offset>
C_FN c_group_tile c_find_group(const c_offsets<Offset>& o, i64 rows, i64 tile, i64 across, i64* status) {
  const int lane = threadIdx.x % 32;
  for (int from = 0; from <= o.count; from += 32) {
    const int g = from + lane;
    i64 begin = g == 0 ? 0 : g <= o.count ? (i64)o.ends[(g - 1) * o.step] : rows;
    const i64 end = g < o.count ? (i64)o.ends[g * o.step] : rows;
    if (begin < 0 || end < begin || end > rows) {
      c_fail(status);
      begin = end;
    }
    const i64 tiles = (end - begin + M - 1) / M * across, up_to = c_scan_warp(tiles, lane, c_op_add());
    const i64 all = c_lane_from(up_to, 31);
    if (tile < all) {
      const int of = c_reduce_warp<32>((int)(up_to <= tile), c_op_add());
      const i64 before = c_lane_from(up_to - tiles, of), first = c_lane_from(begin, of), last = c_lane_from(end, of);
      const c_tile_place at = c_place_tile(tile - before, (last - first + M - 1) / M, across);
      return {from + of, first + at.down * M, last, at.across};
    }
    tile -= all;
  }
  return {o.count, rows, rows, 0};
}

// What a tile multiplies, from a column on: its rows and the matrix of its group, each of which begins `each` elements
// behind the one before. Rows of no group have sums of nothing.
C_FN c_operands<> c_operands_of(const c_group_tile& tile, int groups, const c_matrix& x, const c_matrix& w, i64 each,
                                i64 from, i64 columns, i64 depth) {
  const bool some = tile.group < groups;
  return {x, {w.at + (some ? tile.group * each : 0), w.row}, tile.first, tile.end, from, columns, some ? depth : 0};
}

// y = x times the group's matrix. ALONG: elements of a matrix that are summed over lie side by side, so that a row of
// it is one of y's columns.
template <bool BF16, bool ALONG, int M, int N, int STAGES, class Offset>
C_FN void c_grouped_product(u16* shared, const c_matrix& x, i64 rows, i64 depth, const c_matrix& w, i64 each,
                            i64 columns, const c_offsets<Offset>& offsets, u16* y, i64 y_row, i64* status) {
  const c_group_tile tile = c_find_group<M>(offsets, rows, blockIdx.x, (columns + N - 1) / N, status);
  if (tile.first >= tile.end) return;
  const c_operands<> o = c_operands_of(tile, offsets.count, x, w, each, tile.across * N, columns, depth);
  c_product_tile<BF16, ALONG, M, N, STAGES>(
      shared, o, [&](i64 row, i64 column, f32 p, f32 q) { c_put_two<BF16>(y + row * y_row + column, p, q); });
}
