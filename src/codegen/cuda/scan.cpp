// Scans along one dimension: a block walks a row in chunks and carries the total from one to the next; columns are one
// thread's each where they lie side by side and are many, and shared by the warps of a block where they are few.
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

Combine combine_of(const Dialect& dialect, ScanKind kind, DType d) {
  const std::string type = cuda_register_type(d);
  switch (kind) {
    case ScanKind::Sum: return {"c_op_add()", reduction_identity(dialect, ir::ReductionKind::Sum, d), type};
    case ScanKind::Prod: return {"c_op_mul()", reduction_identity(dialect, ir::ReductionKind::Prod, d), type};
    case ScanKind::Max: return {"c_op_max()", reduction_identity(dialect, ir::ReductionKind::Max, d), type};
    case ScanKind::Min: return {"c_op_min()", reduction_identity(dialect, ir::ReductionKind::Min, d), type};
    case ScanKind::LogSumExp:
      return {"c_op_lse()", fmt::format("c_lse_of({})", reduction_identity(dialect, ir::ReductionKind::Max, d)),
              fmt::format("c_lse<{}>", type), "c_lse_of", "c_lse_value"};
  }
  return {};
}

/// Sets `carry` to what stands before the tile, whose total is `all`.
void look_back(KernelBuilder& b, const Combine& c, DType dtype, const std::string& state, const ir::ScanState& layout,
               int threads) {
  const int group = static_cast<int>(ir::ScanState::kGroup), warps = threads / 32;
  const std::string &type = c.type, told = fmt::format("{}(c_told<{}>", c.lift, cuda_register_type(dtype));
  b.shared(fmt::format("{} far_of[{}], near_tiles", type, warps));
  b.line("u64* const tiles = (u64*){} + 2 + (i64)row * {}, * const groups = tiles + (i64)2 * {};", state,
         b.text(b.env().simplify(layout.row_words())), b.text(b.env().simplify(layout.tiles)));
  b.line("if (t == 0) c_publish(tiles + (i64)2 * tile, {}(all));", c.value);
  b.line("{0} near = t < tile % {1} ? {3}(tiles + (i64)2 * (tile / {1} * {1} + t))) : ({0}){2}, far = {2};", type,
         group, c.identity, told);
  b.line("near = c_reduce_warp<32>(near, {});", c.op);
  b.line("if (t == 0 && tile % {0} == {0} - 1) c_publish(groups + (i64)2 * (tile / {0}), {2}({1}(near, all)));", group,
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

const Statement& scan_of(const KernelBuilder& b) {
  COIL_CHECK(b.nest.statements.size() == 1 && b.nest.inner.size() == 1, "a scan runs alone, along one dimension");
  return b.nest.statements[0];
}

Combine combine_of(const KernelBuilder& b, const Statement& s) {
  return combine_of(b.dialect, std::get<ir::Scan>(s.op->node).kind, s.body->dtype);
}

/// A row's chunk is cut into the warps' segments, and a segment into `turns` pieces of a run for each lane: all loads
/// of a chunk are under way at once, and the pieces' scans do not wait for one another.
class ScanRows {
 public:
  ScanRows(KernelBuilder& b, const LaunchConfig& config)
      : b_(b),
        s_(scan_of(b)),
        c_(combine_of(b, s_)),
        along_(b.nest.inner[0]),
        index_(b.index_type()),
        threads_(config.threads),
        turns_(config.unroll),
        width_(config.vector),
        warps_(threads_ / kWarp),
        piece_(kWarp * width_),
        segment_(piece_ * turns_),
        chunk_(segment_ * warps_),
        tiled_(s_.op->outs.size() > 1),
        whole_(b.env().statically_known_multiple_of(along_.size, chunk_)),
        tiles_(b.env().simplify(sym::ceil_div(along_.size, chunk_))),
        count_(product_of(b.nest.outer)),
        nodes_(roots_of(statements_of(b.nest))) {
    b.lanes = {along_.var, width_};
  }

  Kernel print() {
    n_ = b_.text(along_.size);
    state_ = tiled_ ? b_.pointer(s_.op->outs[1], true) : "";
    b_.line("const int t = {}, lane = t % 32, warp = t / 32;", b_.dialect.thread);
    begin_row();
    decode(b_, b_.nest.outer, "row");
    const Exprs moving{along_.var};
    b_.hoist(nodes_, moving);
    if (warps_ > 1) b_.shared(fmt::format("{} h[2][{}]", c_.type, warps_));
    b_.line("{} carry = {};", c_.type, c_.identity);
    b_.put("int side = 0;");
    find_loads();
    chunks();
    return b_.finish({.grid = {tiled_ ? count_ * tiles_ : count_, 1, 1}, .block = threads_});
  }

 private:
  static constexpr int kWarp = 32;

  /// The block's `row`, and which `tile` of it.
  void begin_row() {
    if (!tiled_) return b_.line("const {0} row = ({0}){1};", index_, b_.dialect.block);
    // Tiles are numbered as blocks begin, so that none waits for one that may not have a place to run. (The remainder:
    // should the state not hold zeros, nothing is written outside.)
    b_.shared("u32 ticket");
    b_.line("if (t == 0) ticket = (u32)c_count((i32*){}) % (u32){};", state_,
            b_.text(b_.env().simplify(count_ * tiles_)));
    b_.put("c_sync();");
    b_.line("const {0} row = ({0})(ticket / (u32){1});", index_, b_.text(tiles_));
    b_.line("const int tile = (int)(ticket % (u32){});", b_.text(tiles_));
  }

  void find_loads() {
    for (Scalar l : nodes_)
      if (b_.packable(l) && l->args.empty() && std::find(loads_.begin(), loads_.end(), l) == loads_.end())
        loads_.push_back(l);
  }

  void chunks() {
    // 0 is a multiple too: a row that may have no elements needs the loop, which then does nothing.
    const bool once =
        b_.env().statically_known_le(along_.size, chunk_) && (!whole_ || b_.env().statically_known_le(1, along_.size));
    if (once || tiled_) {
      b_.block("", [&] {
        b_.line("const {0} q0 = {1};", index_, tiled_ ? fmt::format("({})tile * {}", index_, chunk_) : "0");
        chunk();
      });
    } else {
      b_.block(fmt::format("for ({0} q0 = 0; q0 < {1}; q0 += {2})", index_, n_, chunk_), [&] { chunk(); });
    }
  }

  void chunk() {
    const std::string at = fmt::format("y[m]{}", b_.lane());
    read(at);
    scan_pieces();
    add_warps();
    write(at);
  }

  void each_piece(const std::function<void()>& inside) {
    b_.put("#pragma unroll");
    b_.block(fmt::format("for (int m = 0; m < {}; ++m)", turns_), inside);
  }

  /// The elements of each piece that are inside of the row.
  void pieces(const std::function<void()>& inside) {
    const std::string r(along_.var.name());
    each_piece([&] {
      b_.line("const {0} {1} = q0 + warp * {2} + m * {3} + lane * {4};", index_, r, segment_, piece_, width_);
      if (whole_)
        inside();
      else
        b_.block(fmt::format("if ({} < {})", r, n_), inside);
    });
  }

  /// All values of the chunk, into `y`.
  void read(const std::string& at) {
    std::vector<std::string> packs;
    for (Scalar l : loads_)
      b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(l->buffer).layout.dtype), packs.emplace_back(b_.fresh("k")),
              turns_);
    if (!loads_.empty())
      pieces([&] {
        for (std::size_t k = 0; k < loads_.size(); ++k) {
          const std::string value = b_.pack_load(loads_[k]);
          b_.line("{}[m] = {};", packs[k], value);
        }
      });
    for (std::size_t k = 0; k < loads_.size(); ++k) b_.set_pack(loads_[k], packs[k] + "[m]");
    b_.line("{} y[{}][{}], left[{}], total = {};", c_.type, turns_, width_, turns_, c_.identity);
    if (!whole_) {
      b_.put("#pragma unroll");
      b_.line("for (int m = 0; m < {}; ++m)", turns_);
      b_.put("#pragma unroll");
      b_.line("  for (int j = 0; j < {}; ++j) y[m][j] = {};", width_, c_.identity);
    }
    pieces([&] {
      b_.elements(nodes_, {}, [&] {
        const std::string x = b_.name(s_.body);
        b_.line("{} = {}({});", at, c_.lift, x);
      });
    });
    for (Scalar l : loads_) b_.drop_pack(l);
  }

  /// Each piece by itself: lanes' runs, then the lanes of the warp. Then what stands before each in its warp.
  void scan_pieces() {
    each_piece([&] {
      b_.put("#pragma unroll");
      b_.line("for (int j = 1; j < {0}; ++j) y[m][j] = {1}(y[m][j - 1], y[m][j]);", width_, c_.op);
      b_.line("left[m] = c_scan_warp(y[m][{}], lane, {});", width_ - 1, c_.op);
    });
    each_piece([&] {
      b_.line("const {} sum = c_lane_from(left[m], 31), up = c_lane_up(left[m], 1);", c_.type);
      b_.line("left[m] = c_where(lane > 0, {}(total, up), total);", c_.op);
      b_.line("total = {}(total, sum);", c_.op);
    });
  }

  /// What stands before the warp: the warps before it, then the chunks before.
  void add_warps() {
    if (warps_ == 1) {
      b_.line("const {0} before = carry;", c_.type);
      b_.line("carry = {}(carry, total);", c_.op);
      return;
    }
    b_.put("if (lane == 0) h[side][warp] = total;");
    b_.put("c_sync();");
    b_.line("{0} earlier = c_where<{0}>(lane < {1}, h[side][lane % {1}], {2});", c_.type, warps_, c_.identity);
    b_.line("earlier = c_scan_warp(earlier, lane, {});", c_.op);
    b_.line("const {0} all = c_lane_from(earlier, {1}), mine = c_lane_from(earlier, warp > 0 ? warp - 1 : 0);", c_.type,
            warps_ - 1);
    if (tiled_) look_back(b_, c_, s_.body->dtype, state_, ir::ScanState(along_.size), threads_);
    b_.line("const {0} before = c_where(warp > 0, {1}(carry, mine), carry);", c_.type, c_.op);
    b_.line("carry = {}(carry, all);", c_.op);
    b_.put("side ^= 1;");
  }

  void write(const std::string& at) {
    pieces([&] {
      b_.line("const {0} start = {1}(before, left[m]);", c_.type, c_.op);
      const Statement* const stores[] = {&s_};
      b_.elements({}, stores, [&] { b_.store(s_, fmt::format("{}({}(start, {}))", c_.value, c_.op, at)); });
    });
  }

  KernelBuilder& b_;
  const Statement& s_;
  const Combine c_;
  const LoopDim along_;
  const std::string index_;
  const int threads_, turns_, width_, warps_, piece_, segment_, chunk_;
  const bool tiled_, whole_;
  const Expr tiles_, count_;
  const std::vector<Scalar> nodes_;
  std::string n_, state_;  ///< in the text: the row's length, and the memory through which tiles tell their totals
  std::vector<Scalar> loads_;
};

/// Columns that lie side by side are lanes' each. A block walks 32 of them in chunks; in a chunk each of its warps
/// scans `unroll` points of every column by itself, then adds what the warps above it and the chunks before come to.
class ScanColumns {
 public:
  ScanColumns(KernelBuilder& b, const LaunchConfig& config)
      : b_(b),
        s_(scan_of(b)),
        c_(combine_of(b, s_)),
        along_(b.nest.inner[0]),
        index_(b.index_type()),
        warps_(config.team),
        turns_(config.unroll),
        columns_(config.threads / config.team),
        chunk_(warps_ * turns_),
        whole_(b.env().statically_known_multiple_of(along_.size, chunk_)),
        count_(b.env().simplify(product_of(b.nest.outer))),
        nodes_(roots_of(statements_of(b.nest))) {}

  Kernel print() {
    b_.line("const int lane = {1} % {0}, warp = {1} / {0};", columns_, b_.dialect.thread);
    b_.line("const {0} column = ({0}){2} * {1} + lane;", index_, columns_, b_.dialect.block);
    // All threads of a block meet at its barriers: those beside the last column walk it too, and write nothing.
    b_.line("const bool inside = column < {};", b_.text(count_));
    b_.line("const {0} w = inside ? column : {1} - 1;", index_, b_.text(count_));
    decode(b_, b_.nest.outer, "w");
    const Exprs moving{along_.var};
    b_.hoist(nodes_, moving);
    b_.shared(fmt::format("{} h[2][{}][{}]", c_.type, warps_, columns_));
    b_.line("{} carry = {};", c_.type, c_.identity);
    b_.put("int side = 0;");
    b_.block(fmt::format("for ({0} q0 = 0; q0 < {1}; q0 += {2})", index_, b_.text(along_.size), chunk_), [&] {
      read();
      add_warps();
      write();
    });
    return b_.finish({.grid = {sym::ceil_div(count_, columns_), 1, 1}, .block = columns_ * warps_});
  }

 private:
  /// The thread's points of the chunk that are inside of the column.
  void points(const std::string& condition, const std::function<void()>& inside) {
    b_.put("#pragma unroll");
    b_.block(fmt::format("for (int m = 0; m < {}; ++m)", turns_), [&] {
      b_.line("const {0} {1} = q0 + warp * {2} + m;", index_, along_.var.name(), turns_);
      const std::string ends = whole_ ? "" : fmt::format("{} < {}", along_.var.name(), b_.text(along_.size));
      const std::string both = condition + (condition.empty() || ends.empty() ? "" : " && ") + ends;
      if (both.empty())
        inside();
      else
        b_.block(fmt::format("if ({})", both), inside);
    });
  }

  /// The thread's points, each with those before it: all are loaded before the first is added.
  void read() {
    b_.line("{} y[{}];", c_.type, turns_);
    if (!whole_) {
      b_.put("#pragma unroll");
      b_.line("for (int m = 0; m < {}; ++m) y[m] = {};", turns_, c_.identity);
    }
    points("", [&] {
      const std::string x = b_.name(s_.body);
      b_.line("y[m] = {}({});", c_.lift, x);
    });
    b_.put("#pragma unroll");
    b_.line("for (int m = 1; m < {0}; ++m) y[m] = {1}(y[m - 1], y[m]);", turns_, c_.op);
  }

  /// What stands before the thread's points: the chunks before, then the warps above.
  void add_warps() {
    b_.line("h[side][warp][lane] = y[{}];", turns_ - 1);
    b_.put("c_sync();");
    b_.line("{} before = carry;", c_.type);
    b_.put("#pragma unroll");
    b_.block(fmt::format("for (int k = 0; k < {}; ++k)", warps_), [&] {
      b_.put("if (k == warp) before = carry;");
      b_.line("carry = {}(carry, h[side][k][lane]);", c_.op);
    });
    // The other half of the memory is free: who writes it has passed the barrier behind its last reader.
    b_.put("side ^= 1;");
  }

  void write() {
    points("inside", [&] { b_.store(s_, fmt::format("{}({}(before, y[m]))", c_.value, c_.op)); });
  }

  KernelBuilder& b_;
  const Statement& s_;
  const Combine c_;
  const LoopDim along_;
  const std::string index_;
  const int warps_, turns_, columns_, chunk_;
  const bool whole_;
  const Expr count_;
  const std::vector<Scalar> nodes_;
};

/// A column for each thread.
Kernel scan_columns_alone(KernelBuilder& b, const LaunchConfig& config) {
  const Statement& s = scan_of(b);
  const Combine c = combine_of(b, s);
  const std::string index = b.index_type();
  const LoopDim along = b.nest.inner[0];
  const Expr count = b.env().simplify(product_of(b.nest.outer));
  b.line("const {0} w = ({0}){2} * {1} + {3};", index, config.threads, b.dialect.block, b.dialect.thread);
  b.line("if (w >= {}) return;", b.text(count));
  decode(b, b.nest.outer, "w");
  const auto nodes = roots_of(statements_of(b.nest));
  const Exprs moving{along.var};
  b.hoist(nodes, moving);
  b.line("{} a = {};", c.type, c.identity);
  b.line("#pragma unroll {}", config.unroll);
  b.block(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", index, along.var.name(), b.text(along.size)), [&] {
    const std::string x = b.name(s.body);
    b.line("a = {}(a, {}({}));", c.op, c.lift, x);
    b.store(s, fmt::format("{}(a)", c.value));
  });
  return b.finish({.grid = {sym::ceil_div(count, config.threads), 1, 1}, .block = config.threads});
}

}  // namespace

Kernel cuda_scan_columns(KernelBuilder& b, const LaunchConfig& config) {
  return config.team > 1 ? ScanColumns(b, config).print() : scan_columns_alone(b, config);
}

Kernel cuda_scan(KernelBuilder& b, const LaunchConfig& config) { return ScanRows(b, config).print(); }

}  // namespace coil::codegen
