// Runs of rows times a matrix for each run, where the copy engine fetches tiles (sm_90a).
#pragma once
#include "grouped.cuh"
#include "streamed_products.cuh"

// @piece streamed_groups
#ifdef C_WARPGROUPS
// y = x times the group's matrix; y(row, column) is where eight neighbours of the result lie.
template <bool BF16, bool ALONG, int N, int STAGES, int CLUSTER, class Offset, class Y>
C_FN void c_streamed_groups(void* shared, const c_tile_map& x, const c_tile_map& w, i64 rows, i64 depth, i64 columns,
                            const c_offsets<Offset>& offsets, const Y& y, i64* status) {
  c_streamed_product<BF16, ALONG, N, STAGES, CLUSTER>(
      shared, x, w,
      [&](i64 n, u32 rank, c_stream_tile& t) {
        const c_group_tile at = c_find_group<128 * CLUSTER>(offsets, rows, n, (columns + N - 1) / N, status);
        const bool some = at.group < offsets.count;
        t.row = at.first + rank * 128, t.end = at.end, t.column = at.across * N;
        t.depth = some ? depth : 0, t.a = 0, t.b = some ? at.group : 0;
        return at.first < at.end;
      },
      c_make_result<true, 0>([](const c_stream_tile&, i64, i64) {},
                             [](const c_stream_tile&, i64, i64, f32(&)[2], const c_eights<0>&) {},
                             [&](const c_stream_tile& t, i64 row, i64 column, const uint4& eight) {
                               if (row < t.end && column < columns) *(uint4*)y(row, column) = eight;
                             }),
      status);
}
#endif
