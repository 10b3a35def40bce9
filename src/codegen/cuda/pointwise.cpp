// Pointwise kernels: flat runs of points, and tiles through shared memory where accesses disagree on what is
// contiguous.
#include "codegen/cuda/forms.h"
#include "codegen/heuristics/points.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

void compute_and_store(KernelBuilder& b, const std::vector<const Statement*>& statements) {
  for (const Statement* s : statements) {
    const std::string value = b.value_to_store(*s);
    if (s->stored) b.store(*s, value);
  }
}

/// One run at the point decoded last.
void run(KernelBuilder& b) {
  const auto statements = statements_of(b.nest);
  b.elements(roots_of(statements), statements, [&] { compute_and_store(b, statements); });
}

/// Runs of the points in their row-major order, for results that lie so while their last dimension is no whole number
/// of runs: stores, and loads that lie likewise, move as packs; each point of a run finds its own indices.
class FlatRuns {
 public:
  FlatRuns(KernelBuilder& b, const LaunchConfig& config)
      : b_(b),
        dims_(b.nest.outer),
        count_(b.env().simplify(product_of(dims_))),
        flat_(flat_index(b.graph, b.nest)),
        width_(config.vector),
        threads_(config.threads),
        free_(!dims_.empty() && !dims_.back().size.is_constant()) {}

  Kernel print() {
    const std::string& index = b_.index_type();
    const auto statements = statements_of(b_.nest);
    b_.line("const {0} w = (({0}){3} * {1} + {4}) * {2};", index, threads_, width_, b_.dialect.block,
            b_.dialect.thread);
    b_.line("const {0} rest = ({1}) - w;", index, b_.text(count_));
    b_.put("if (rest <= 0) return;");
    std::vector<std::pair<Scalar, std::string>> packs;
    for (Scalar n : roots_of(statements))
      if (n->op == ScalarOp::LinearLoad && n->args.empty() && !n->mask && is_flat(n->index[0])) {
        packs.emplace_back(n, b_.fresh("v"));
        b_.line("const {} {} = c_read_part<{}>({} + w, rest);", pack(n->buffer), packs.back().second, width_,
                b_.pointer(n->buffer, false));
      }
    std::map<const Statement*, std::string> results;
    for (const Statement* s : statements)
      if (s->stored) b_.line("{} {};", pack(s->op->outs[0]), results[s] = b_.fresh("o"));
    if (dims_.size() > 1 && free_)
      begin_at("w");
    else if (dims_.size() > 1)
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
      if (dims_.size() > 1 && free_) b_.block("if (f + 1 < rest)", [&] { advance(dims_.size() - 1); });
    });
    for (const Statement* s : statements)
      if (s->stored)
        b_.line("c_write_part<{}>({} + w, {}, rest);", width_, b_.pointer(s->op->outs[0], true), results[s]);
    return b_.finish({.grid = {sym::ceil_div(count_, threads_ * width_), 1, 1}, .block = threads_});
  }

 private:
  bool is_flat(Expr e) const { return e == flat_ || b_.env().simplify(e - flat_, b_.vars()).is_constant(0); }
  DType dtype(ir::BufferId b) const { return b_.graph.buffer(b).layout.dtype; }
  std::string pack(ir::BufferId b) const { return fmt::format("c_pack<{}, {}>", cuda_storage_type(dtype(b)), width_); }

  /// Indices of point `f` of the run; past the end those of the last point.
  void point() {
    const std::string& index = b_.index_type();
    const LoopDim& last = dims_.back();
    if (dims_.size() == 1) return b_.line("const {} {} = w + (f < rest ? f : 0);", index, last.var.name());
    if (free_) return;
    b_.line("const {} along = column + (f < rest ? f : 0);", index);
    b_.line("const bool next = along >= {};", b_.text(last.size));
    b_.line("const {0} {1} = next ? along - ({0}){2} : along;", index, last.var.name(), b_.text(last.size));
    decode(b_, std::span(dims_).first(dims_.size() - 1), "row + (next ? 1 : 0)");
  }

  /// Indices of the run's first point, which go from point to point: a run over rows of a free length may have any
  /// number of rows.
  void begin_at(const std::string& linear) {
    const std::string &index = b_.index_type(), wide = index == "i32" ? "u32" : "u64", t = b_.fresh("t");
    b_.line("{0} {1} = ({0}){2};", wide, t, linear);
    for (std::size_t k = dims_.size(); k-- > 1;)
      b_.line("{0} {1} = ({0})({2} % ({3}){4}); {2} /= ({3}){4};", index, dims_[k].var.name(), t, wide,
              b_.text(dims_[k].size));
    b_.line("{0} {1} = ({0}){2};", index, dims_[0].var.name(), t);
  }

  /// Goes on by one along dimension `k`.
  void advance(std::size_t k) {
    const std::string_view var = dims_[k].var.name();
    if (k == 0) return b_.line("++{};", var);
    b_.block(fmt::format("if (++{} == {})", var, b_.text(dims_[k].size)), [&] {
      b_.line("{} = 0;", var);
      advance(k - 1);
    });
  }

  KernelBuilder& b_;
  std::vector<LoopDim> dims_;
  Expr count_, flat_;
  int width_, threads_;
  bool free_;  ///< the last dimension's size
};

/// Vectors along the last dimension, `unroll` a thread, a block apart.
class PointRuns {
 public:
  PointRuns(KernelBuilder& b, const LaunchConfig& config)
      : b_(b), config_(config), dims_(b.nest.outer), runs_(dims_), wide_(b.index_type() == "i32" ? "u32" : "u64") {
    const int width = config_.vector;
    if (!dims_.empty()) b_.lanes = {dims_.back().var, width};
    // A run's last dimension counts runs.
    if (width > 1) runs_.back() = {dims_.back().var, sym::floor_div(dims_.back().size, width)};
    b.in_place.loads_once = true;
    count_ = b_.env().simplify(product_of(runs_));
  }

  Kernel print() {
    const std::string& index = b_.index_type();
    const int threads = config_.threads, turns = config_.unroll;
    if (turns == 1) {
      b_.line("const {0} w = ({0}){2} * {1} + {3};", index, threads, b_.dialect.block, b_.dialect.thread);
      b_.line("if (w >= {}) return;", b_.text(count_));
      point();
    } else {
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int c = 0; c < {}; ++c)", turns), [&] {
        b_.line("const {0} w = (({0}){3} * {1} + c) * {2} + {4};", index, turns, threads, b_.dialect.block,
                b_.dialect.thread);
        b_.block(fmt::format("if (w < {})", b_.text(count_)), [&] { point(); });
      });
    }
    return b_.finish({.grid = {sym::ceil_div(count_, threads * turns), 1, 1}, .block = threads});
  }

 private:
  /// Run `w`: where it begins, and what stands in it.
  void point() {
    if (config_.vector == 1)
      decode(b_, dims_, "w");
    else
      begin();
    run(b_);
  }

  void begin() {
    const std::string& index = b_.index_type();
    const std::string r = b_.fresh("w");
    if (runs_.size() == 1) return b_.line("const {0} {1} = w * {2};", index, dims_.back().var.name(), config_.vector);
    b_.line("{0} {1} = ({0})w;", wide_, r);
    for (std::size_t k = runs_.size(); k-- > 0;) {
      const std::string factor = k + 1 == runs_.size() ? fmt::format(" * {}", config_.vector) : "";
      if (k == 0)
        b_.line("const {0} {1} = ({0}){2};", index, runs_[k].var.name(), r);
      else
        b_.line("const {0} {1} = ({0})({2} % ({3}){4}){5}; {2} /= ({3}){4};", index, runs_[k].var.name(), r, wide_,
                b_.text(runs_[k].size), factor);
    }
  }

  KernelBuilder& b_;
  const LaunchConfig& config_;
  std::vector<LoopDim> dims_, runs_;
  std::string wide_;
  Expr count_;
};

/// Two dimensions in squares that pass through shared memory: `v`, along which results mostly lie, and `u`, along which
/// the rest does. Threads stand along u while they move what lies along u, and along v for everything else; either way
/// each moves packs.
class Tiles {
 public:
  Tiles(KernelBuilder& b, const TilePlan& plan)
      : b_(b),
        others_(b.nest.outer),
        v_(others_.back()),
        u_(others_[*b.nest.tiled]),
        statements_(statements_of(b.nest)),
        side_(plan.choice.config.tile),
        along_u_(plan.across_vector),
        along_v_(plan.choice.config.vector),
        threads_(plan.choice.config.threads) {
    others_.pop_back();
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(*b.nest.tiled));
    for (const TileAccess& a : plan.tiles)
      tiles_.push_back({a.load, a.store, fmt::format("h{}", tiles_.size()), a.dtype});
  }

  Kernel print() {
    point();
    for (const Tile& t : tiles_)
      b_.shared(fmt::format("{} {}[{}][{}]", cuda_storage_type(t.dtype), t.name, side_, side_ + 1));
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
         .block = threads_});
  }

 private:
  /// A load or a store along u, as [v][u].
  struct Tile {
    Scalar load = nullptr;
    const Statement* store = nullptr;
    std::string name;
    DType dtype;
  };

  void point() {
    const std::string index = b_.index_type(), wide = index == "i32" ? "u32" : "u64";
    b_.line("{0} w = ({0}){1};", wide, b_.dialect.block);
    b_.line("const {0} v0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide,
            b_.text(b_.env().simplify(sym::ceil_div(v_.size, side_))), side_);
    b_.line("const {0} u0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide,
            b_.text(b_.env().simplify(sym::ceil_div(u_.size, side_))), side_);
    decode(b_, others_, "w");
  }

  /// All of a square, threads side by side along `along` with `width` elements each: lx counts along it, ly + k across.
  void sweep(const LoopDim& along, int width, const std::function<void()>& inside) {
    const int side_by_side = side_ / width, rows = threads_ / side_by_side;
    const bool along_u = along.var == u_.var;
    b_.block("", [&] {
      b_.line("const int lx = {2} % {0}{1}, ly = {2} / {0};", side_by_side,
              width > 1 ? fmt::format(" * {}", width) : "", b_.dialect.thread);
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
      b_.elements(roots_of(statements_), statements_, [&] {
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

  KernelBuilder& b_;
  std::vector<LoopDim> others_;
  LoopDim v_, u_;
  std::vector<const Statement*> statements_;
  std::vector<Tile> tiles_;
  int side_, along_u_, along_v_, threads_;
};

}  // namespace

Kernel cuda_pointwise(KernelBuilder& b, const LaunchConfig& config) {
  return config.flat ? FlatRuns(b, config).print() : PointRuns(b, config).print();
}

Kernel cuda_tiles(KernelBuilder& b, const TilePlan& plan) { return Tiles(b, plan).print(); }

}  // namespace coil::codegen
