// Runs of few rows times a matrix for each run, in 16 bits: a matrix that has rows is read once for each 8 T of them.
#pragma once
#include "grouped.cuh"
#include "thin_products.cuh"

// @piece thin_groups
// y = x times the group's matrix.
template <bool BF16, class Piece, int WARPS, int T, int STAGES, class Offset>
C_FN void c_thin_groups(uint4* shared, const c_matrix& x, i64 rows, i64 depth, const c_matrix& w, i64 each, i64 columns,
                        const c_offsets<Offset>& offsets, u16* y, i64 y_row, i64* status) {
  const i64 across = (columns + Piece::columns - 1) / Piece::columns;
  const c_group_tile tile = c_find_group<8 * T>(offsets, rows, blockIdx.x, across, status);
  if (tile.first >= tile.end) return;
  const c_operands<> o = c_operands_of(tile, offsets.count, x, w, each, tile.across * Piece::columns, columns, depth);
  c_thin_tile<BF16, Piece, WARPS, T, STAGES, 1>(
      shared, 0, o, [&](i64 row, i64 column, f32 p, f32 q) { c_put_two<BF16>(y + row * y_row + column, p, q); });
}
