// Pointwise kernels: flat runs of points, and tiles through shared memory where accesses disagree on what is
// contiguous.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

constexpr int kPointThreads = 256;

std::vector<const Statement*> all_of(const Body& b) {
  std::vector<const Statement*> out;
  for (const Statement& s : b.nest.statements) out.push_back(&s);
  return out;
}

void compute_and_store(Body& b, const std::vector<const Statement*>& statements) {
  for (const Statement* s : statements) {
    const std::string value = b.value_to_store(*s);
    if (s->stored) b.store(*s, value);
  }
}

/// One run at the point decoded last.
void run(Body& b) {
  const auto statements = all_of(b);
  b.elements(b.roots(statements), statements, [&] { compute_and_store(b, statements); });
}

/// Runs of the points in their row-major order, for results that lie so while their last dimension is no whole number
/// of runs: stores, and loads that lie likewise, move as packs; each point of a run finds its own indices.
class FlatRuns {
 public:
  FlatRuns(Body& b, const GpuModel& gpu) : b_(b), dims_(b.nest.outer), count_(b.env().simplify(product_of(dims_))) {
    for (const LoopDim& d : dims_) flat_ = flat_ * d.size + d.var;
    flat_ = b.env().simplify(flat_, b.vars());
    width_ = fitting_width(gpu);
    if (width_ > 1) threads_ = chosen(b, gpu, std::vector<int>{kPointThreads, kPointThreads / 2, kPointThreads * 2});
  }

  /// Points of a run; 1 where this form does not fit.
  int width() const { return width_; }

  Kernel print() {
    const std::string& index = b_.index_type();
    const auto statements = all_of(b_);
    b_.line("const {0} w = (({0})blockIdx.x * {1} + threadIdx.x) * {2};", index, threads_, width_);
    b_.line("const {0} rest = ({1}) - w;", index, b_.text(count_));
    b_.put("if (rest <= 0) return;");
    std::vector<std::pair<Scalar, std::string>> packs;
    for (Scalar n : b_.roots(statements))
      if (n->op == ScalarOp::LinearLoad && n->args.empty() && !n->mask && is_flat(n->index[0])) {
        packs.emplace_back(n, b_.fresh("v"));
        b_.line("const {} {} = c_read_part<{}>({} + w, rest);", pack(n->buffer), packs.back().second, width_,
                b_.pointer(n->buffer, false));
      }
    std::map<const Statement*, std::string> results;
    for (const Statement* s : statements)
      if (s->stored) b_.line("{} {};", pack(s->op->outs[0]), results[s] = b_.fresh("o"));
    if (dims_.size() > 1)
      b_.line("const {0} row = w / ({0}){1}, column = w - row * ({0}){1};", index, b_.text(dims_.back().size));
    b_.put("#pragma unroll");
    b_.block(fmt::format("for (int f = 0; f < {}; ++f)", width_), [&] {
      point();
      for (auto& [load, name] : packs)
        b_.set_value_here(load, fmt::format("c_get_{}({}.e[f])", short_name(dtype(load->buffer)), name));
      for (const Statement* s : statements) {
        const std::string value = b_.name(s->body);
        if (s->stored) b_.line("{}.e[f] = c_put_{}({});", results[s], short_name(dtype(s->op->outs[0])), value);
      }
    });
    for (const Statement* s : statements)
      if (s->stored)
        b_.line("c_write_part<{}>({} + w, {}, rest);", width_, b_.pointer(s->op->outs[0], true), results[s]);
    return b_.finish({.grid = {sym::ceil_div(count_, threads_ * width_), 1, 1}, .block = threads_});
  }

 private:
  int fitting_width(const GpuModel& gpu) const {
    if (dims_.empty()) return 1;
    std::size_t widest = 1;
    for (const Statement& s : b_.nest.statements) {
      if (!s.stored) continue;
      if (!is_flat(s.store)) return 1;
      widest = std::max(widest, size_of(b_.graph.buffer(s.op->outs[0]).layout.dtype));
    }
    int width = static_cast<int>(16 / std::max<std::size_t>(widest, 2));
    const auto last = dims_.back().size.constant();
    while (width > 1 && (!last || *last < width || b_.env().hint_or(count_, 1 << 24) / width < gpu.threads() / 8))
      width /= 2;
    return width;
  }

  bool is_flat(Expr e) const { return e == flat_ || b_.env().simplify(e - flat_, b_.vars()).is_constant(0); }
  DType dtype(ir::BufferId b) const { return b_.graph.buffer(b).layout.dtype; }
  std::string pack(ir::BufferId b) const { return fmt::format("c_pack<{}, {}>", cuda_storage_type(dtype(b)), width_); }

  /// Indices of point `f` of the run; past the end those of the last point.
  void point() {
    const std::string& index = b_.index_type();
    const LoopDim& last = dims_.back();
    if (dims_.size() == 1) return b_.line("const {} {} = w + (f < rest ? f : 0);", index, last.var.name());
    b_.line("const {} along = column + (f < rest ? f : 0);", index);
    b_.line("const bool next = along >= {};", b_.text(last.size));
    b_.line("const {0} {1} = next ? along - ({0}){2} : along;", index, last.var.name(), b_.text(last.size));
    decode(b_, std::span(dims_).first(dims_.size() - 1), "row + (next ? 1 : 0)");
  }

  Body& b_;
  std::vector<LoopDim> dims_;
  Expr count_, flat_ = 0;
  int width_ = 1, threads_ = kPointThreads;
};

/// A thread takes `turns` runs of `width` points, a block apart.
struct FlatShape {
  int width, threads, turns;
  auto operator<=>(const FlatShape&) const = default;
};

std::vector<FlatShape> flat_shapes(std::int64_t points, int widest, const GpuModel& gpu) {
  int width = widest;
  while (width > 1 && points / width < gpu.threads() / 8) width /= 2;
  // Narrow accesses: several points a thread, so that enough bytes are under way.
  std::vector<FlatShape> shapes{{width, points / width < gpu.threads() / 4 ? 128 : kPointThreads,
                                 width == 1 && points > 4 * gpu.threads() ? 4 : 1}};
  const FlatShape usual = shapes[0];
  auto add = [&](FlatShape s) {
    const bool fills =
        points / s.width >= static_cast<std::int64_t>(s.threads) * s.turns * gpu.multiprocessors || s.turns == 1;
    if (fills && std::find(shapes.begin(), shapes.end(), s) == shapes.end()) shapes.push_back(s);
  };
  for (int threads : {128, 256, 512})
    for (int turns : {1, 2, 4}) add({width, threads, turns});
  if (width > 1) add({width / 2, usual.threads, 1}), add({width / 2, usual.threads, 2});
  if (width < widest) add({width * 2, usual.threads, 1});
  return shapes;
}

}  // namespace

Kernel cuda_pointwise(Body& b, const GpuModel& gpu) {
  std::vector<LoopDim> dims = b.nest.outer;
  const std::string index = b.index_type();
  const Expr points = b.env().simplify(product_of(dims));
  const std::vector<FlatShape> shapes =
      flat_shapes(b.env().hint_or(points, 1 << 24), dims.empty() ? 1 : run_width(b, dims.back()), gpu);
  if (shapes[0].width == 1)
    if (FlatRuns flat(b, gpu); flat.width() > 1) return flat.print();
  const FlatShape shape = chosen(b, gpu, shapes);
  const int width = shape.width, threads = shape.threads, turns = shape.turns;
  if (!dims.empty()) b.lanes = {dims.back().var, width};

  // A run's last dimension counts runs.
  std::vector<LoopDim> runs = dims;
  if (width > 1) runs.back() = {dims.back().var, sym::floor_div(dims.back().size, width)};
  const Expr count = b.env().simplify(product_of(runs));
  const std::string wide = index == "i32" ? "u32" : "u64";
  auto point = [&](const std::string& w) {
    if (width == 1) {
      decode(b, dims, w);
    } else {
      std::vector<LoopDim> named = runs;
      const std::string r = b.fresh("w");
      if (runs.size() == 1) {
        b.line("const {0} {1} = {2} * {3};", index, dims.back().var.name(), w, width);
      } else {
        b.line("{0} {1} = ({0}){2};", wide, r, w);
        for (std::size_t k = runs.size(); k-- > 0;) {
          const std::string factor = k + 1 == runs.size() ? fmt::format(" * {}", width) : "";
          if (k == 0)
            b.line("const {0} {1} = ({0}){2};", index, runs[k].var.name(), r);
          else
            b.line("const {0} {1} = ({0})({2} % ({3}){4}){5}; {2} /= ({3}){4};", index, runs[k].var.name(), r, wide,
                   b.text(runs[k].size), factor);
        }
      }
    }
    run(b);
  };
  if (turns == 1) {
    b.line("const {0} w = ({0})blockIdx.x * {1} + threadIdx.x;", index, threads);
    b.line("if (w >= {}) return;", b.text(count));
    point("w");
  } else {
    b.put("#pragma unroll");
    b.block(fmt::format("for (int c = 0; c < {}; ++c)", turns), [&] {
      b.line("const {0} w = (({0})blockIdx.x * {1} + c) * {2} + threadIdx.x;", index, turns, threads);
      b.block(fmt::format("if (w < {})", b.text(count)), [&] { point("w"); });
    });
  }
  return b.finish({.grid = {sym::ceil_div(count, threads * turns), 1, 1}, .block = threads});
}

namespace {

/// Two dimensions in squares that pass through shared memory: `v`, along which results mostly lie, and `u`, along which
/// the rest does. Threads stand along u while they move what lies along u, and along v for everything else; either way
/// each moves packs.
class Tiles {
 public:
  Tiles(Body& b, const GpuModel& gpu)
      : b_(b),
        gpu_(gpu),
        others_(b.nest.outer),
        v_(others_.back()),
        u_(others_[*b.nest.tiled]),
        statements_(all_of(b)) {
    others_.pop_back();
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(*b.nest.tiled));
  }

  Kernel print() {
    find_tiles();
    along_u_ = widest(u_, through_tiles_);
    along_v_ = widest(v_, direct_);
    point();
    for (const Tile& t : tiles_)
      b_.head(fmt::format("__shared__ {} {}[{}][{}];", cuda_storage_type(t.dtype), t.name, side_, side_ + 1));
    const bool loads = std::any_of(tiles_.begin(), tiles_.end(), [](const Tile& t) { return t.load; }),
               stores = std::any_of(tiles_.begin(), tiles_.end(), [](const Tile& t) { return t.store; });
    if (loads) {
      move(true);
      b_.put("c_sync();");
    }
    compute();
    if (stores) {
      b_.put("c_sync();");
      move(false);
    }
    return b_.finish(
        {.grid = {product_of(others_) * sym::ceil_div(u_.size, side_) * sym::ceil_div(v_.size, side_), 1, 1},
         .block = kPointThreads});
  }

 private:
  /// A load or a store along u, as [v][u].
  struct Tile {
    Scalar load = nullptr;
    const Statement* store = nullptr;
    std::string name;
    DType dtype;
  };
  struct Access {
    Expr index;
    std::size_t bytes;
  };

  bool is_transposed(Expr e) const {
    auto a = sym::linear_in(e, u_.var), c = sym::linear_in(e, v_.var);
    return a && a->coefficient.is_constant(1) && c && !c->coefficient.is_constant(0) && !c->coefficient.is_constant(1);
  }

  DType dtype(ir::BufferId buffer) const { return b_.graph.buffer(buffer).layout.dtype; }

  void find_tiles() {
    std::vector<Tile> found;
    std::size_t bytes = 0;
    auto access = [&](Expr index, Tile tile) {
      if (!is_transposed(index)) return direct_.push_back({index, size_of(tile.dtype)});
      found.push_back(std::move(tile));
      bytes += size_of(found.back().dtype);
    };
    for (Scalar n : b_.roots(statements_))
      if (n->op == ScalarOp::LinearLoad && n->args.empty() && !n->mask)
        access(n->index[0], {n, nullptr, "", dtype(n->buffer)});
    for (const Statement* s : statements_)
      if (s->stored) access(s->store, {nullptr, s, "", dtype(s->op->outs[0])});
    // Large squares touch longer pieces of memory; what does not fit even as small ones is read and written element by
    // element.
    auto fits = [](std::size_t bytes, int side) {
      return bytes * static_cast<std::size_t>(side * (side + 1)) <= kSharedBytes;
    };
    const auto& env = b_.env();
    const bool large =
        fits(bytes, kSide) && env.hint_or(u_.size, kSide) > kSide / 2 && env.hint_or(v_.size, kSide) > kSide / 2;
    side_ = chosen(b_, gpu_, large ? std::vector<int>{kSide, kSide / 2} : std::vector<int>{kSide / 2});
    std::size_t used = 0;
    for (Tile& t : found) {
      if (!fits(used + size_of(t.dtype), side_)) continue;
      used += size_of(t.dtype);
      t.name = fmt::format("h{}", tiles_.size());
      through_tiles_.push_back({t.load ? t.load->index[0] : t.store->store, size_of(t.dtype)});
      tiles_.push_back(std::move(t));
    }
  }

  /// The widest pack for accesses that lie along `dim`, with work for all threads in a square.
  int widest(const LoopDim& dim, const std::vector<Access>& accesses) const {
    for (int width = std::min(8, side_ * side_ / kPointThreads); width > 1; width /= 2) {
      const Lanes lanes{dim.var, width};
      bool any = false, all = b_.env().statically_known_multiple_of(dim.size, width);
      for (const Access& a : accesses) {
        if (lane_stride(b_.env(), a.index, lanes) != 1) continue;
        any = true;
        all = all && run_aligned(b_.env(), a.index, lanes) && a.bytes * static_cast<std::size_t>(width) <= 16;
      }
      if (any && all) return width;
    }
    return 1;
  }

  void point() {
    const std::string index = b_.index_type(), wide = index == "i32" ? "u32" : "u64";
    b_.line("{0} w = ({0})blockIdx.x;", wide);
    b_.line("const {0} v0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide,
            b_.text(b_.env().simplify(sym::ceil_div(v_.size, side_))), side_);
    b_.line("const {0} u0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide,
            b_.text(b_.env().simplify(sym::ceil_div(u_.size, side_))), side_);
    decode(b_, others_, "w");
  }

  /// All of a square, threads side by side along `along` with `width` elements each: lx counts along it, ly + k across.
  void sweep(const LoopDim& along, int width, const std::function<void()>& inside) {
    const int side_by_side = side_ / width, rows = kPointThreads / side_by_side;
    const bool along_u = along.var == u_.var;
    b_.block("", [&] {
      b_.line("const int lx = threadIdx.x % {0}{1}, ly = threadIdx.x / {0};", side_by_side,
              width > 1 ? fmt::format(" * {}", width) : "");
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int k = 0; k < {}; k += {})", side_, rows), [&] {
        b_.line("const {0} {1} = u0 + {2}, {3} = v0 + {4};", b_.index_type(), u_.var.name(), along_u ? "lx" : "ly + k",
                v_.var.name(), along_u ? "ly + k" : "lx");
        b_.block(
            fmt::format("if ({} < {} && {} < {})", v_.var.name(), b_.text(v_.size), u_.var.name(), b_.text(u_.size)),
            inside);
      });
    });
  }

  /// Between memory and squares.
  void move(bool in) {
    sweep(u_, along_u_, [&] {
      for (const Tile& t : tiles_) {
        if ((t.load != nullptr) != in) continue;
        const std::string at = b_.text(in ? t.load->index[0] : t.store->store), pack = b_.fresh("m"),
                          type = fmt::format("c_pack<{}, {}>", cuda_storage_type(t.dtype), along_u_);
        const std::string each = fmt::format("for (int j = 0; j < {}; ++j)", along_u_);
        if (in)
          b_.line("const {} {} = c_read<{}>({} + {});", type, pack, along_u_, b_.pointer(t.load->buffer, false), at);
        else
          b_.line("{} {};", type, pack);
        if (in)
          b_.line("{} {}[ly + k][lx + j] = {}.e[j];", each, t.name, pack);
        else
          b_.line("{} {}.e[j] = {}[ly + k][lx + j];", each, pack, t.name);
        if (!in) b_.line("c_write<{}>({} + {}, {});", along_u_, b_.pointer(t.store->op->outs[0], true), at, pack);
      }
    });
  }

  void compute() {
    b_.lanes = {v_.var, along_v_};
    const std::string place = along_v_ > 1 ? "[lx + j][ly + k]" : "[lx][ly + k]";
    sweep(v_, along_v_, [&] {
      b_.elements(b_.roots(statements_), statements_, [&] {
        for (const Tile& t : tiles_)
          if (t.load) b_.set_value_here(t.load, fmt::format("c_get_{}({}{})", short_name(t.dtype), t.name, place));
        for (const Statement* s : statements_) {
          const std::string value = b_.name(s->body);
          if (!s->stored) continue;
          auto tile = std::find_if(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.store == s; });
          if (tile == tiles_.end())
            b_.store(*s, value);
          else
            b_.line("{}{} = c_put_{}({});", tile->name, place, short_name(tile->dtype), value);
        }
      });
    });
  }

  static constexpr int kSide = 64;
  static constexpr std::size_t kSharedBytes = 40000;

  Body& b_;
  const GpuModel& gpu_;
  std::vector<LoopDim> others_;
  LoopDim v_, u_;
  std::vector<const Statement*> statements_;
  std::vector<Tile> tiles_;
  std::vector<Access> direct_, through_tiles_;
  int side_ = kSide, along_u_ = 1, along_v_ = 1;
};

}  // namespace

Kernel cuda_tiles(Body& b, const GpuModel& gpu) { return Tiles(b, gpu).print(); }

}  // namespace coil::codegen
