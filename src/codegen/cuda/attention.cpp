#include "codegen/cuda/attention.h"

#include <fmt/format.h>

#include <initializer_list>

#include "codegen/cuda/row_kernel.h"
#include "support/error.h"
#include "support/hash.h"

namespace coil::codegen {
namespace {

constexpr int kThreads = 128;
constexpr int kPiece = 64, kPitch = kPiece + 4;  // rows of a piece and elements of each; floats from one row to the next, so that reads of neighbouring rows meet no bank twice

constexpr std::string_view kText = R"(
// ---- Attention in f32. A block has 8R rows of one operand, and rows of the other pass in pieces of 64 rows by up to 64 elements, one on its way while another is computed with.
// A thread has rows t / 16 + 8i (i < R) and, of 64 others, those at t % 16 + 16j: what a row's softmax needs lies within half a warp.
struct c_rows { const f32* p; i64 row, dim, count; bool packs; };  // `packs`: four elements lie side by side, on 16 bytes
C_FN c_rows c_rows_of(const f32* p, i64 row, i64 dim, i64 count, bool fours) { return {p, row, dim, count, fours && dim == 1 && row % 4 == 0 && (u64)p % 16 == 0}; }
struct c_results { f32* p; i64 row, dim; };
// Masks from a corner on: what becomes of a score, and where another corner's begin.
struct c_no_mask {
  C_METHOD f32 of(f32 score, int, int) const { return score; }
  C_METHOD c_no_mask at(i64, i64) const { return {}; }
  C_METHOD c_no_mask after(i64) const { return {}; }
};
template <class E> struct c_mask {
  const E* p; i64 row, key;
  static C_METHOD f32 masked(f32 score, f32 added) { return score + added; }
  static C_METHOD f32 masked(f32 score, u8 seen) { return seen ? score : -c_infinity<f32>(); }
  C_METHOD f32 of(f32 score, int r, int k) const { return masked(score, p[r * row + k * key]); }
  C_METHOD c_mask at(i64 r, i64 k) const { return {p + r * row + k * key, row, key}; }
  C_METHOD c_mask after(i64 step) const { return {p + step, row, key}; }
};
// Which of a tile's queries and keys there are, both counted from its corner; with a causal pattern key k is seen by query r where k - r is at most `ahead`.
struct c_tile { int queries, keys, ahead; };
template <bool C> C_FN c_tile c_tile_at(i64 query, i64 key, i64 queries, i64 keys) {
  const i64 q = queries - query, k = keys - key, ahead = query - key;
  return {(int)(q < 64 ? q : 64), (int)(k < 64 ? k : 64), C && ahead < 64 ? (int)ahead : 64};
}
template <class M> C_FN f32 c_score(f32 product, f32 scale, const M& mask, c_tile tile, int r, int k) {
  return r < tile.queries && k < tile.keys && k - r <= tile.ahead ? mask.of(product * scale, r, k) : -c_infinity<f32>();
}
// A query that sees no key has no weights.
C_FN f32 c_weight(f32 score, f32 log) { return log == -c_infinity<f32>() ? 0.0f : c_exp_of_less(score - log); }

// W elements, from `from` on, of N rows from `first` on; zeros past the last.
template <int N, int W, int PITCH> C_FN void c_fetch_rows(f32* to, const c_rows& x, i64 first, int from, int t) {
  constexpr int packs = (W + 3) / 4;
  for (int i = t; i < N * packs; i += 128) {
    const int r = i / packs, d = i % packs * 4;
    const bool there = first + r < x.count;
    f32* const at = to + r * PITCH + d;
    if (x.packs) c_copy_ahead(at, x.p + (there ? (first + r) * x.row + from + d : 0), there);
    else for (int e = 0; e < 4; ++e) at[e] = there && d + e < W ? x.p[(first + r) * x.row + (from + d + e) * x.dim] : 0.0f;
  }
}
template <int D> C_FN void c_fetch_piece(f32* to, const c_rows& x, i64 first, int piece, int t) {
  if ((piece + 1) * 64 <= D) c_fetch_rows<64, 64, 68>(to, x, first, piece * 64, t);
  else c_fetch_rows<64, D % 64 ? D % 64 : 64, 68>(to, x, first, piece * 64, t);
}
// Piece after piece goes to the two halves of a ring.
struct c_ring {
  f32* pieces; int at;
  C_METHOD f32* next() const { return pieces + (at ^ 1) * (64 * 68); }
  // What was asked for last is there for all threads, and they have done with what was there before.
  C_METHOD const f32* arrive() { c_copies_arrive(); c_sync(); at ^= 1; return pieces + at * (64 * 68); }
};

// acc[i][j] += a row of a times a row of b, over W elements.
template <int R, int W, int PITCH> C_FN void c_rows_by_rows(f32 (&acc)[R][4], const f32* a, const f32* b) {
#pragma unroll 4
  for (int d = 0; d < W; d += 4) {
    c_pack<f32, 4> x, y[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) y[j] = c_read<4>(b + 16 * j * 68 + d);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      x = c_read<4>(a + 8 * i * PITCH + d);
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[i][j] = fmaf(x.e[e], y[j].e[e], acc[i][j]);
    }
  }
}
template <int R, int D, int PITCH> C_FN void c_piece_by_rows(f32 (&acc)[R][4], const f32* a, const f32* b, int piece, int t) {
  a += t / 16 * PITCH + piece * 64, b += t % 16 * 68;
  if ((piece + 1) * 64 <= D) c_rows_by_rows<R, 64, PITCH>(acc, a, b);
  else c_rows_by_rows<R, (D % 64 + 3) / 4 * 4, PITCH>(acc, a, b);
}
// How many neighbouring elements of a row a thread has in the last piece of rows of D.
template <int D> C_FN constexpr int c_columns_of(int piece) { return (piece + 1) * 64 <= D || D % 64 > 32 ? 4 : D % 64 > 16 ? 2 : 1; }
// acc[i][c] += sum over 64 rows of b: a(i, row) times its C elements from t % 16 * C on.
template <int R, int C> C_FN void c_rows_by_columns(f32 (&acc)[R][4], const f32* a, const f32* b) {
#pragma unroll 2
  for (int k = 0; k < 64; k += 4) {
    c_pack<f32, 4> x[R];
#pragma unroll
    for (int i = 0; i < R; ++i) x[i] = c_read<4>(a + 8 * i * 68 + k);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const c_pack<f32, C> y = c_read<C>(b + (k + e) * 68);
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int c = 0; c < C; ++c) acc[i][c] = fmaf(x[i].e[e], y.e[c], acc[i][c]);
    }
  }
}
template <int R, int D> C_FN void c_piece_by_columns(f32 (&acc)[R][4], const f32* a, const f32* b, int piece, int t) {
  a += t / 16 * 68;
  if ((piece + 1) * 64 <= D || D % 64 > 32) c_rows_by_columns<R, 4>(acc, a, b + t % 16 * 4);
  else if (D % 64 > 16) c_rows_by_columns<R, 2>(acc, a, b + t % 16 * 2);
  else c_rows_by_columns<R, 1>(acc, a, b + t % 16);
}
template <int R> C_FN void c_keep_tile(f32* shared, const f32 (&x)[R][4], int t) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) shared[(t / 16 + 8 * i) * 68 + t % 16 + 16 * j] = x[i][j];
  c_sync_warp();
}
template <int R, int D, int N> C_FN void c_store_rows(const c_results& out, const f32 (&x)[N][R][4], i64 first, i64 count, int t) {
#pragma unroll
  for (int piece = 0; piece < N; ++piece) {
    const int each = c_columns_of<D>(piece), from = piece * 64 + t % 16 * each;
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const i64 row = first + t / 16 + 8 * i;
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (c < each && from + c < D && row < count) out.p[row * out.row + (from + c) * out.dim] = x[piece][i][c];
    }
  }
}

template <int D, int V, int R, bool C, bool L, class M>
C_FN void c_attention(f32* shared, c_rows q, c_rows k, c_rows v, M mask, c_results out, c_results logs, i64 first, f32 scale, int t) {
  constexpr int PITCH = (D + 3) / 4 * 4 + 4, NK = (D + 63) / 64, NV = (V + 63) / 64;
  f32 *const rows = shared, *const tile = rows + 8 * R * PITCH;
  c_ring ring = {tile + 8 * R * 68, 1};
  const i64 end = C && first + 8 * R < k.count ? first + 8 * R : k.count;
  c_fetch_rows<8 * R, D, PITCH>(rows, q, first, 0, t);
  if (end > 0) c_fetch_piece<D>(ring.next(), k, 0, 0, t);
  f32 top[R], sum[R], acc[NV][R][4] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) top[i] = -c_infinity<f32>(), sum[i] = 0;
  for (i64 from = 0; from < end; from += 64) {
    f32 s[R][4] = {};
#pragma unroll
    for (int p = 0; p < NK; ++p) {
      const f32* const piece = ring.arrive();
      if (p + 1 < NK) c_fetch_piece<D>(ring.next(), k, from, p + 1, t);
      else c_fetch_piece<V>(ring.next(), v, from, 0, t);
      c_piece_by_rows<R, D, PITCH>(s, rows, piece, p, t);
    }
    const c_tile there = c_tile_at<C>(first, from, q.count, k.count);
    const M here = mask.at(first, from);
#pragma unroll
    for (int i = 0; i < R; ++i) {
      f32 most = top[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] = c_score(s[i][j], scale, here, there, t / 16 + 8 * i, t % 16 + 16 * j);
        most = c_max(most, s[i][j]);
      }
      most = c_reduce_warp<16>(most, c_op_max());
      const f32 base = most > -c_infinity<f32>() ? most : 0.0f, before = c_exp_of_less(top[i] - base);
      top[i] = most;
      sum[i] *= before;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] = c_exp_of_less(s[i][j] - base);
        sum[i] += s[i][j];
      }
#pragma unroll
      for (int p = 0; p < NV; ++p)
#pragma unroll
        for (int c = 0; c < 4; ++c) acc[p][i][c] *= before;
    }
    c_keep_tile<R>(tile, s, t);
#pragma unroll
    for (int p = 0; p < NV; ++p) {
      const f32* const piece = ring.arrive();
      if (p + 1 < NV) c_fetch_piece<V>(ring.next(), v, from, p + 1, t);
      else if (from + 64 < end) c_fetch_piece<D>(ring.next(), k, from + 64, 0, t);
      c_piece_by_columns<R, V>(acc[p], tile, piece, p, t);
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    sum[i] = c_reduce_warp<16>(sum[i], c_op_add());
    const f32 share = sum[i] == 0 ? 0.0f : 1 / sum[i];  // a query that sees no key gives 0
#pragma unroll
    for (int p = 0; p < NV; ++p)
#pragma unroll
      for (int c = 0; c < 4; ++c) acc[p][i][c] *= share;
    const i64 row = first + t / 16 + 8 * i;
    if (L && t % 16 == 0 && row < q.count) logs.p[row * logs.row] = top[i] + logf(sum[i]);
  }
  c_store_rows<R, V>(out, acc, first, q.count, t);
}

// With P = exp(S - logarithms) and dP = dy v', dS = P * (dP - sum(dy * y)) * scale. dq = dS k.
template <int D, int V, int R, bool C, class M>
C_FN void c_attention_queries(f32* shared, c_rows dy, c_rows q, c_rows k, c_rows v, c_rows y, c_rows logs, M mask, c_results dq, c_results sums, i64 first, f32 scale, int t) {
  constexpr int PITCH = (D + 3) / 4 * 4 + 4, WIDE = (V + 3) / 4 * 4 + 4, NK = (D + 63) / 64, NV = (V + 63) / 64;
  f32 *const rows = shared, *const slopes = rows + 8 * R * PITCH, *const tile = slopes + 8 * R * WIDE;
  c_ring ring = {tile + 8 * R * 68, 1};
  const i64 end = C && first + 8 * R < k.count ? first + 8 * R : k.count;
  c_fetch_rows<8 * R, D, PITCH>(rows, q, first, 0, t);
  c_fetch_rows<8 * R, V, WIDE>(slopes, dy, first, 0, t);
  if (end > 0) c_fetch_piece<D>(ring.next(), k, 0, 0, t);
  f32 log[R], along[R], acc[NK][R][4] = {};
#pragma unroll
  for (int i = 0; i < R; ++i) {
    const i64 row = first + t / 16 + 8 * i;
    log[i] = row < q.count ? logs.p[row * logs.row] : 0.0f;
    along[i] = 0;
    if (row < q.count)
      for (int d = t % 16; d < V; d += 16) along[i] = fmaf(dy.p[row * dy.row + d * dy.dim], y.p[row * y.row + d * y.dim], along[i]);
    along[i] = c_reduce_warp<16>(along[i], c_op_add());
    if (t % 16 == 0 && row < q.count) sums.p[row * sums.row] = along[i];
  }
  for (i64 from = 0; from < end; from += 64) {
    f32 s[R][4] = {}, d[R][4] = {};
#pragma unroll
    for (int p = 0; p < NK; ++p) {
      const f32* const piece = ring.arrive();
      if (p + 1 < NK) c_fetch_piece<D>(ring.next(), k, from, p + 1, t);
      else c_fetch_piece<V>(ring.next(), v, from, 0, t);
      c_piece_by_rows<R, D, PITCH>(s, rows, piece, p, t);
    }
#pragma unroll
    for (int p = 0; p < NV; ++p) {
      const f32* const piece = ring.arrive();
      if (p + 1 < NV) c_fetch_piece<V>(ring.next(), v, from, p + 1, t);
      else c_fetch_piece<D>(ring.next(), k, from, 0, t);
      c_piece_by_rows<R, V, WIDE>(d, slopes, piece, p, t);
    }
    const c_tile there = c_tile_at<C>(first, from, q.count, k.count);
    const M here = mask.at(first, from);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) s[i][j] = c_weight(c_score(s[i][j], scale, here, there, t / 16 + 8 * i, t % 16 + 16 * j), log[i]) * (d[i][j] - along[i]) * scale;
    c_keep_tile<R>(tile, s, t);
#pragma unroll
    for (int p = 0; p < NK; ++p) {
      const f32* const piece = ring.arrive();
      if (p + 1 < NK) c_fetch_piece<D>(ring.next(), k, from, p + 1, t);
      else if (from + 64 < end) c_fetch_piece<D>(ring.next(), k, from + 64, 0, t);
      c_piece_by_columns<R, D>(acc[p], tile, piece, p, t);
    }
  }
  c_store_rows<R, D>(dq, acc, first, q.count, t);
}

// dk = dS' q and dv = P' dy, over all heads of q that share the keys: `heads` of them, how far apart in each operand `steps` tells.
struct c_head_steps { i64 dy, q, logs, sums, mask; };
template <int D, int V, int R, bool C, class M>
C_FN void c_attention_keys(f32* shared, c_rows dy, c_rows q, c_rows k, c_rows v, c_rows logs, c_rows sums, M mask, c_head_steps steps, int heads, c_results dk, c_results dv, i64 first, f32 scale, int t) {
  constexpr int PITCH = (D + 3) / 4 * 4 + 4, WIDE = (V + 3) / 4 * 4 + 4, NK = (D + 63) / 64, NV = (V + 63) / 64;
  f32 *const keys = shared, *const values = keys + 8 * R * PITCH, *const tile = values + 8 * R * WIDE;
  c_ring ring = {tile + 8 * R * 68, 1};
  c_fetch_rows<8 * R, D, PITCH>(keys, k, first, 0, t);
  c_fetch_rows<8 * R, V, WIDE>(values, v, first, 0, t);
  const i64 begin = C ? first / 64 * 64 : 0;
  f32 of_k[NK][R][4] = {}, of_v[NV][R][4] = {};
  for (int h = 0; h < heads; ++h) {
    if (begin < q.count) {
      c_sync();  // the ring's next half may still be read
      c_fetch_piece<D>(ring.next(), q, begin, 0, t);
    }
    for (i64 from = begin; from < q.count; from += 64) {
      f32 s[R][4] = {}, d[R][4] = {};
#pragma unroll
      for (int p = 0; p < NK; ++p) {
        const f32* const piece = ring.arrive();
        if (p + 1 < NK) c_fetch_piece<D>(ring.next(), q, from, p + 1, t);
        else c_fetch_piece<V>(ring.next(), dy, from, 0, t);
        c_piece_by_rows<R, D, PITCH>(s, keys, piece, p, t);
      }
      const c_tile there = c_tile_at<C>(from, first, q.count, k.count);
      const M here = mask.at(from, first);
      f32 along[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int r = t % 16 + 16 * j;
        const bool counts = r < there.queries;
        const f32 log = counts ? logs.p[(from + r) * logs.row] : 0.0f;
        along[j] = counts ? sums.p[(from + r) * sums.row] : 0.0f;
#pragma unroll
        for (int i = 0; i < R; ++i) s[i][j] = c_weight(c_score(s[i][j], scale, here, there, r, t / 16 + 8 * i), log);
      }
      c_keep_tile<R>(tile, s, t);
#pragma unroll
      for (int p = 0; p < NV; ++p) {
        const f32* const piece = ring.arrive();
        if (p + 1 < NV) c_fetch_piece<V>(ring.next(), dy, from, p + 1, t);
        else c_fetch_piece<D>(ring.next(), q, from, 0, t);
        c_piece_by_rows<R, V, WIDE>(d, values, piece, p, t);
        c_piece_by_columns<R, V>(of_v[p], tile, piece, p, t);
      }
#pragma unroll
      for (int i = 0; i < R; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[i][j] *= (d[i][j] - along[j]) * scale;
      c_sync_warp();
      c_keep_tile<R>(tile, s, t);
#pragma unroll
      for (int p = 0; p < NK; ++p) {
        const f32* const piece = ring.arrive();
        if (p + 1 < NK) c_fetch_piece<D>(ring.next(), q, from, p + 1, t);
        else if (from + 64 < q.count) c_fetch_piece<D>(ring.next(), q, from + 64, 0, t);
        c_piece_by_columns<R, D>(of_k[p], tile, piece, p, t);
      }
    }
    dy.p += steps.dy, q.p += steps.q, logs.p += steps.logs, sums.p += steps.sums, mask = mask.after(steps.mask);
  }
  c_store_rows<R, D>(dk, of_k, first, k.count, t);
  c_store_rows<R, V>(dv, of_v, first, k.count, t);
}
)";


std::int64_t constant_of(Expr e) {
  const auto c = e.constant();
  if (!c) fail("attention needs head sizes that are known at compile time");
  return *c;
}

using Widths = std::initializer_list<std::int64_t>;

/// Shared memory of a block whose threads have `rows` rows each of operands of these widths: those, their scores, and two pieces of what passes.
std::int64_t shared_bytes(Widths staying, std::int64_t rows) {
  std::int64_t floats = 2 * kPiece * kPitch + 8 * rows * kPitch;
  for (std::int64_t width : staying) floats += 8 * rows * ((width + 3) / 4 * 4 + 4);
  return 4 * floats;
}

/// Whether a block finds room in shared memory on every machine from sm_80 on, and a thread in its registers for what it adds up.
bool fits(Widths staying, Widths summed, std::int64_t rows) {
  std::int64_t pieces = 0;
  for (std::int64_t width : summed) pieces += (width + kPiece - 1) / kPiece;
  return shared_bytes(staying, rows) <= 99 << 10 && rows * 4 * pieces <= 128;
}

/// The kernel of one call: a block has some rows of one head.
class AttentionKernel {
 public:
  AttentionKernel(ir::Graph& graph, const ir::Extern& call, const GpuModel& gpu) : graph_(graph), call_(call), gpu_(gpu) {
    auto add = [&](const ir::BufferView& view, bool written) {
      signature_ += fmt::format("{}{}{}* p{}", k_.buffers.empty() ? "" : ", ", written ? "" : "const ", view.dtype == DType::Bool ? "u8" : "f32", k_.buffers.size());
      k_.buffers.push_back(view.buffer);
      k_.written.push_back(written);
    };
    for (const ir::BufferView& view : call.inputs) add(view, false);
    for (const ir::BufferView& view : call.outputs) add(view, true);
  }

  Kernel forward() {
    enum { Query, Key, Value, Mask };
    const Widths staying{depth(Query)};
    const int rows = rows_of_thread(Query, staying, {depth(Value)});
    const bool logs = call_.outputs.size() > 1;
    begin(in(Query), in(Key), rows);
    return finish(staying, rows, fmt::format("c_attention<{}, {}, {}, {}, {}>", depth(Query), depth(Value), rows, causal(), logs),
                  {operand(Query, "head"), operand(Key, "group"), operand(Value, "group"), mask(Mask, "head"), result(0, "head"), logs ? result(1, "head") : "c_results{}"});
  }

  Kernel of_queries() {
    enum { Slope, Query, Key, Value, Result, Logs, Mask };
    const Widths staying{depth(Query), depth(Slope)};
    const int rows = rows_of_thread(Query, staying, {depth(Query)});
    begin(in(Query), in(Key), rows);
    return finish(staying, rows, fmt::format("c_attention_queries<{}, {}, {}, {}>", depth(Query), depth(Value), rows, causal()),
                  {operand(Slope, "head"), operand(Query, "head"), operand(Key, "group"), operand(Value, "group"), operand(Result, "head"), operand(Logs, "head"), mask(Mask, "head"), result(0, "head"), result(1, "head")});
  }

  Kernel of_keys() {
    enum { Slope, Query, Key, Value, Logs, Sums, Mask };
    const Widths staying{depth(Key), depth(Value)};
    const int rows = rows_of_thread(Key, staying, staying);
    begin(in(Key), in(Key), rows);
    const std::string shared = scalar(sym::floor_div(in(Query).sizes[1], in(Key).sizes[1])), first = fmt::format("head * {}", shared);
    std::string steps;
    for (int i : {Slope, Query, Logs, Sums}) steps += scalar(in(i).strides[1]) + ", ";
    steps += has_mask() ? scalar(in(Mask).strides[1]) : "0";
    return finish(staying, rows, fmt::format("c_attention_keys<{}, {}, {}, {}>", depth(Query), depth(Value), rows, causal()),
                  {operand(Slope, first), operand(Query, first), operand(Key, "head"), operand(Value, "head"), operand(Logs, first), operand(Sums, first), mask(Mask, first), "c_head_steps{" + steps + "}", "(int)" + shared, result(0, "head"),
                   result(1, "head")});
  }

 private:
  const ir::BufferView& in(int i) const { return call_.inputs[static_cast<std::size_t>(i)]; }
  std::int64_t depth(int i) const { return constant_of(in(i).sizes[3]); }
  bool causal() const { return call_.integer("causal") != 0; }
  bool has_mask() const { return call_.integer("has_mask") != 0; }

  /// As many as fit, fewer where blocks would be too few for the machine.
  int rows_of_thread(int rows, Widths staying, Widths summed) const {
    const ir::BufferView& view = in(rows);
    auto leave_it_idle = [&](int each) { return graph_.env().statically_known_lt(view.sizes[0] * view.sizes[1] * sym::ceil_div(view.sizes[2], 8 * each), 2 * gpu_.multiprocessors); };
    for (int each : {8, 4, 2})
      if (fits(staying, summed, each) && (each == 2 || !leave_it_idle(each))) return each;
    return 1;
  }

  std::string scalar(Expr e) {
    parameters_ += fmt::format(", i64 n{}", k_.scalars.size());
    k_.scalars.push_back(e);
    return fmt::format("n{}", k_.scalars.size() - 1);
  }

  /// What a block works on: `batch`, `head`, the head of keys it goes with (`group`), and its `first` row.
  void begin(const ir::BufferView& view, const ir::BufferView& keys, int rows) {
    const Expr parts = sym::ceil_div(view.sizes[2], 8 * rows);
    blocks_ = view.sizes[0] * view.sizes[1] * parts;
    const std::string n = scalar(parts), heads = scalar(view.sizes[1]), shared = scalar(sym::floor_div(view.sizes[1], keys.sizes[1]));
    // Of causal patterns the longest rows come first.
    head_ = fmt::format("  i64 w = blockIdx.x;\n  const i64 part = {2}w % {0}; w /= {0};\n  const i64 head = w % {1}, batch = w / {1}, group = head / {3}, first = part * {4};\n  (void)group;\n", n, heads,
                        causal() && &view != &keys ? n + " - 1 - " : "", shared, 8 * rows);
  }

  std::string place(std::size_t pointer, const ir::BufferView& view, std::string_view head) {
    const std::string offset = scalar(view.offset), of_batch = scalar(view.strides[0]), of_head = scalar(view.strides[1]);
    return fmt::format("p{} + {} + batch * {} + {} * {}", pointer, offset, of_batch, head, of_head);
  }
  /// Rows, or numbers of rows.
  std::string operand(int i, std::string_view head) {
    const ir::BufferView& view = in(i);
    const bool rows = view.sizes.size() == 4;
    const std::string at = place(static_cast<std::size_t>(i), view, head), row = scalar(view.strides[2]), dim = rows ? scalar(view.strides[3]) : "1", count = scalar(view.sizes[2]);
    return fmt::format("c_rows_of({}, {}, {}, {}, {})", at, row, dim, count, rows && constant_of(view.sizes[3]) % 4 == 0);
  }
  std::string result(std::size_t i, std::string_view head) {
    const ir::BufferView& view = call_.outputs[i];
    const std::string at = place(call_.inputs.size() + i, view, head), row = scalar(view.strides[2]), dim = view.sizes.size() == 4 ? scalar(view.strides[3]) : "0";
    return fmt::format("c_results{{{}, {}, {}}}", at, row, dim);
  }
  std::string mask(int i, std::string_view head) {
    if (!has_mask()) return "c_no_mask{}";
    const ir::BufferView& view = in(i);
    const std::string at = place(static_cast<std::size_t>(i), view, head), row = scalar(view.strides[2]), key = scalar(view.strides[3]);
    return fmt::format("c_mask<{}>{{{}, {}, {}}}", view.dtype == DType::Bool ? "u8" : "f32", at, row, key);
  }

  /// `arguments` in the order in which their numbers were asked for.
  Kernel finish(Widths staying, int rows, const std::string& function, const std::vector<std::string>& arguments) {
    const std::string signature = fmt::format("({}{}, i64* status)", signature_, parameters_);
    const std::string text = fmt::format("  if (c_stop(status)) return;\n  C_DYNAMIC_SHARED(shared);\n{}  {}((f32*)shared, {}, first, {:a}f, (int)threadIdx.x);\n", head_, function, fmt::join(arguments, ", "), static_cast<float>(std::get<double>(call_.attributes.at("scale"))));
    k_.symbol = "coil_attention_" + to_hex(hash(signature + text)).substr(0, 16);
    k_.text = fmt::format("extern \"C\" __global__ void __launch_bounds__({}) {}{} {{\n{}}}\n", kThreads, k_.symbol, signature, text);
    k_.launch = Launch{.grid = {graph_.env().simplify(blocks_), 1, 1}, .block = kThreads, .shared_bytes = shared_bytes(staying, rows)};
    return std::move(k_);
  }

  ir::Graph& graph_;
  const ir::Extern& call_;
  const GpuModel& gpu_;
  Kernel k_;
  Expr blocks_ = 0;
  std::string signature_, parameters_, head_;
};

}  // namespace

bool is_cuda_attention(std::string_view op) { return op == "blocked_attention" || op == "blocked_attention_queries" || op == "blocked_attention_keys"; }

Kernel cuda_attention(ir::Graph& graph, const ir::Extern& call, const GpuModel& gpu) {
  AttentionKernel kernel(graph, call, gpu);
  return call.op == "blocked_attention" ? kernel.forward() : call.op == "blocked_attention_queries" ? kernel.of_queries() : kernel.of_keys();
}

std::string attention_on_cuda(std::string_view kernels) { return kernels.find(" c_attention") == std::string_view::npos ? "" : std::string(kText); }

}  // namespace coil::codegen
