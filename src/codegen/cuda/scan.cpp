// Scans along one dimension: a block walks a row in chunks and carries the total from one to the next; columns are one
// thread's each where they lie side by side.
//
// Of few long rows each chunk is a block's (a tile), in one pass: a block tells the others what its tile comes to and
// adds up what all tiles before it came to, in an order that only the tile's place decides, so that results do not
// depend on which block was first (single-pass scans: Merrill and Garland 2016, whose order does). Tiles are put
// together in groups, so that a late tile reads few numbers; a tile waits only for tiles begun before it.
#include "codegen/cuda/forms.h"
#include "ir/scan_state.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScanKind;

/// How two parts become one, and what an element is on the way: lifted to it, and taken out of it again.
struct Combine {
  std::string op, identity, type, lift = "", value = "";
};

Combine combine_of(ScanKind kind, DType d) {
  const std::string type = cuda_register_type(d);
  switch (kind) {
    case ScanKind::Sum: return {"c_op_add()", reduction_identity(ir::ReductionKind::Sum, d), type};
    case ScanKind::Prod: return {"c_op_mul()", reduction_identity(ir::ReductionKind::Prod, d), type};
    case ScanKind::Max: return {"c_op_max()", reduction_identity(ir::ReductionKind::Max, d), type};
    case ScanKind::Min: return {"c_op_min()", reduction_identity(ir::ReductionKind::Min, d), type};
    case ScanKind::LogSumExp:
      return {"c_op_lse()", fmt::format("c_lse_of({})", reduction_identity(ir::ReductionKind::Max, d)),
              fmt::format("c_lse<{}>", type), "c_lse_of", "c_lse_value"};
  }
  return {};
}

Kernel columns(Body& b, const Statement& s, const Combine& c) {
  constexpr int kThreads = 128;
  const std::string index = b.index_type();
  const LoopDim along = b.nest.inner[0];
  const Expr count = b.env().simplify(product_of(b.nest.outer));
  b.line("const {0} w = ({0})blockIdx.x * {1} + threadIdx.x;", index, kThreads);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, b.nest.outer, "w");
  const auto nodes = b.roots({&s});
  const Exprs moving{along.var};
  b.hoist(nodes, moving);
  b.line("{} a = {};", c.type, c.identity);
  b.put("#pragma unroll 8");
  b.block(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index, along.var.name(), b.text(along.size)), [&] {
    const std::string x = b.name(s.body);
    b.line("a = {}(a, {}({}));", c.op, c.lift, x);
    b.store(s, fmt::format("{}(a)", c.value));
  });
  return b.finish({.grid = {sym::ceil_div(count, kThreads), 1, 1}, .block = kThreads});
}

/// Sets `carry` to what stands before the tile, whose total is `all`.
void look_back(Body& b, const Combine& c, DType dtype, const std::string& state, const ir::ScanState& layout,
               int threads) {
  const int group = static_cast<int>(ir::ScanState::kGroup), warps = threads / 32;
  const std::string &type = c.type, told = fmt::format("{}(c_told<{}>", c.lift, cuda_register_type(dtype));
  b.head(fmt::format("__shared__ {} far_of[{}], near_tiles;", type, warps));
  b.line("u64* const tiles = (u64*){} + 2 + (i64)row * {}, * const groups = tiles + (i64)2 * {};", state,
         b.text(b.env().simplify(layout.row_words())), b.text(b.env().simplify(layout.tiles)));
  b.line("if (t == 0) c_tell(tiles + (i64)2 * tile, {}(all));", c.value);
  b.line("{0} near = t < tile % {1} ? {3}(tiles + (i64)2 * (tile / {1} * {1} + t))) : ({0}){2}, far = {2};", type,
         group, c.identity, told);
  b.line("near = c_reduce_warp<32>(near, {});", c.op);
  b.line("if (t == 0 && tile % {0} == {0} - 1) c_tell(groups + (i64)2 * (tile / {0}), {2}({1}(near, all)));", group,
         c.op, c.value);
  b.line("for (int g = t; g < tile / {0}; g += {1}) far = {2}(far, {3}(groups + (i64)2 * g)));", group, threads, c.op,
         told);
  b.line("far = c_reduce_warp<32>(far, {});", c.op);
  b.put("if (lane == 0) far_of[warp] = far;");
  b.put("if (t == 0) near_tiles = near;");
  b.put("c_sync();");
  b.line("far = lane < {} ? far_of[lane] : ({}){};", warps, type, c.identity);
  b.line("carry = {0}(c_reduce_warp<32>(far, {0}), near_tiles);", c.op);
}

/// A row's chunk is cut into the warps' segments, and a segment into `turns` pieces of a run for each lane: all loads
/// of a chunk are under way at once, and the pieces' scans do not wait for one another.
Kernel rows(Body& b, const GpuModel& gpu, const Statement& s, const Combine& c) {
  const std::string& type = c.type;
  constexpr int kMostThreads = 256, kMostTurns = 4;
  const std::string index = b.index_type();
  const LoopDim along = b.nest.inner[0];
  const std::string r(along.var.name()), n = b.text(along.size);
  const int width = run_width(b, along);
  const std::int64_t runs = (b.env().hint_or(along.size, 4096) + width - 1) / width,
                     rows = b.env().hint_or(product_of(b.nest.outer), 1 << 10);
  int usual = std::max(32, power_of_two_at_least((runs + kMostTurns - 1) / kMostTurns, kMostThreads));
  // Few rows: one chunk of more threads rather than several chunks.
  const bool tiled = s.op->outs.size() > 1;
  while (!tiled && usual < 1024 && usual * kMostTurns < runs && rows * usual < gpu.threads() / 2) usual *= 2;
  struct Shape {
    int threads, turns;
    bool operator==(const Shape&) const = default;
  };
  std::vector<Shape> shapes{{usual, power_of_two_at_least((runs + usual - 1) / usual, kMostTurns)}};
  for (int threads : {usual, usual / 2, usual * 2, usual * 4})
    for (int turns : {1, 2, 4, 8})
      if (const Shape s{threads, turns}; threads >= 32 && threads <= 1024 && threads * turns < 2 * runs &&
                                         (!tiled || threads * turns * width >= ir::ScanState::kSmallest) &&
                                         std::find(shapes.begin(), shapes.end(), s) == shapes.end())
        shapes.push_back(s);
  const Shape shape = chosen(b, gpu, shapes);
  const int threads = shape.threads, warps = threads / 32, turns = shape.turns;
  const int piece = 32 * width, segment = piece * turns, chunk = segment * warps;
  const bool whole = b.env().statically_known_multiple_of(along.size, chunk);
  // 0 is a multiple too: a row that may have no elements needs the loop, which then does nothing.
  const bool once =
      b.env().statically_known_le(along.size, chunk) && (!whole || b.env().statically_known_le(1, along.size));
  b.lanes = {along.var, width};
  const Expr tiles = b.env().simplify(sym::ceil_div(along.size, chunk)), count = product_of(b.nest.outer);
  const std::string state = tiled ? b.pointer(s.op->outs[1], true) : "";
  b.put("const int t = threadIdx.x, lane = t % 32, warp = t / 32;");
  if (tiled) {
    // Tiles are numbered as blocks begin, so that none waits for one that may not have a place to run. (The remainder:
    // should the state not hold zeros, nothing is written outside.)
    b.head("__shared__ u32 ticket;");
    b.line("if (t == 0) ticket = (u32)c_count((i32*){}) % (u32){};", state, b.text(b.env().simplify(count * tiles)));
    b.put("c_sync();");
    b.line("const {0} row = ({0})(ticket / (u32){1});", index, b.text(tiles));
    b.line("const int tile = (int)(ticket % (u32){});", b.text(tiles));
  } else {
    b.line("const {0} row = ({0})blockIdx.x;", index);
  }
  decode(b, b.nest.outer, "row");
  const auto nodes = b.roots({&s});
  const Exprs moving{along.var};
  b.hoist(nodes, moving);
  if (warps > 1) b.head(fmt::format("__shared__ {} h[2][{}];", type, warps));
  b.line("{} carry = {};", type, c.identity);
  b.put("int side = 0;");
  std::vector<Scalar> loads;
  for (Scalar l : nodes)
    if (b.packable(l) && l->args.empty() && std::none_of(loads.begin(), loads.end(), [&](Scalar x) { return x == l; }))
      loads.push_back(l);
  auto pieces = [&](const std::function<void()>& inside) {
    b.put("#pragma unroll");
    b.block(fmt::format("for (int m = 0; m < {}; ++m)", turns), [&] {
      b.line("const {0} {1} = q0 + warp * {2} + m * {3} + lane * {4};", index, r, segment, piece, width);
      if (whole)
        inside();
      else
        b.block(fmt::format("if ({} < {})", r, n), inside);
    });
  };
  const auto chunk_of = [&] {
    std::vector<std::string> packs;
    for (Scalar l : loads)
      b.line("{} {}[{}];", b.pack_type(b.graph.buffer(l->buffer).layout.dtype), packs.emplace_back(b.fresh("k")),
             turns);
    if (!loads.empty())
      pieces([&] {
        for (std::size_t k = 0; k < loads.size(); ++k) {
          const std::string value = b.pack_load(loads[k]);
          b.line("{}[m] = {};", packs[k], value);
        }
      });
    for (std::size_t k = 0; k < loads.size(); ++k) b.set_pack(loads[k], packs[k] + "[m]");
    b.line("{} y[{}][{}], left[{}], total = {};", type, turns, width, turns, c.identity);
    if (!whole) {
      b.put("#pragma unroll");
      b.line("for (int m = 0; m < {}; ++m)", turns);
      b.put("#pragma unroll");
      b.line("  for (int j = 0; j < {}; ++j) y[m][j] = {};", width, c.identity);
    }
    const std::string at = fmt::format("y[m]{}", b.lane());
    pieces([&] {
      b.elements(nodes, {}, [&] {
        const std::string x = b.name(s.body);
        b.line("{} = {}({});", at, c.lift, x);
      });
    });
    for (Scalar l : loads) b.drop_pack(l);
    // Each piece by itself: lanes' runs, then the lanes of the warp.
    b.put("#pragma unroll");
    b.block(fmt::format("for (int m = 0; m < {}; ++m)", turns), [&] {
      b.put("#pragma unroll");
      b.line("for (int j = 1; j < {0}; ++j) y[m][j] = {1}(y[m][j - 1], y[m][j]);", width, c.op);
      b.line("left[m] = c_scan_warp(y[m][{}], lane, {});", width - 1, c.op);
    });
    // What stands before each: the pieces before it, then the warps before, then the chunks before.
    b.put("#pragma unroll");
    b.block(fmt::format("for (int m = 0; m < {}; ++m)", turns), [&] {
      b.line("const {} sum = c_lane_from(left[m], 31), up = c_lane_up(left[m], 1);", type);
      b.line("left[m] = lane > 0 ? {}(total, up) : total;", c.op);
      b.line("total = {}(total, sum);", c.op);
    });
    if (warps > 1) {
      b.put("if (lane == 0) h[side][warp] = total;");
      b.put("c_sync();");
      b.line("{0} earlier = lane < {1} ? h[side][lane] : {2};", type, warps, c.identity);
      b.line("earlier = c_scan_warp(earlier, lane, {});", c.op);
      b.line("const {0} all = c_lane_from(earlier, {1}), mine = c_lane_from(earlier, warp > 0 ? warp - 1 : 0);", type,
             warps - 1);
      if (tiled) look_back(b, c, s.body->dtype, state, ir::ScanState(along.size), threads);
      b.line("const {0} before = warp > 0 ? {1}(carry, mine) : carry;", type, c.op);
      b.line("carry = {}(carry, all);", c.op);
      b.put("side ^= 1;");
    } else {
      b.line("const {0} before = carry;", type);
      b.line("carry = {}(carry, total);", c.op);
    }
    pieces([&] {
      b.line("const {0} start = {1}(before, left[m]);", type, c.op);
      const Statement* const stores[] = {&s};
      b.elements({}, stores, [&] { b.store(s, fmt::format("{}({}(start, {}))", c.value, c.op, at)); });
    });
  };
  if (once || tiled) {
    b.block("", [&] {
      b.line("const {0} q0 = {1};", index, tiled ? fmt::format("({})tile * {}", index, chunk) : "0");
      chunk_of();
    });
  } else {
    b.block(fmt::format("for ({0} q0 = 0; q0 < {1}; q0 += {2})", index, n, chunk), chunk_of);
  }
  return b.finish({.grid = {tiled ? count * tiles : count, 1, 1}, .block = threads});
}

}  // namespace

Kernel cuda_scan(Body& b, const GpuModel& gpu) {
  COIL_CHECK(b.nest.statements.size() == 1 && b.nest.inner.size() == 1, "a scan runs alone, along one dimension");
  const Statement& s = b.nest.statements[0];
  const Combine c = combine_of(std::get<ir::Scan>(s.op->node).kind, s.body->dtype);
  const bool side_by_side = b.nest.vector == LoopNest::Vector::Outer && s.op->outs.size() == 1;
  return side_by_side ? columns(b, s, c) : rows(b, gpu, s, c);
}

}  // namespace coil::codegen
