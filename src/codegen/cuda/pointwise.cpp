// Pointwise kernels: flat runs of points, and tiles through shared memory where accesses disagree on what is contiguous.
#include "codegen/cuda/forms.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

constexpr int kThreads = 256;

std::vector<const Statement*> all_of(const Body& b) {
  std::vector<const Statement*> out;
  for (const Statement& s : b.nest.statements) out.push_back(&s);
  return out;
}

void compute_and_store(Body& b, const std::vector<const Statement*>& statements) {
  for (const Statement* s : statements) {
    const std::string value = b.name(s->body);
    if (s->stored) b.store(*s, value);
  }
}

/// One run at the point decoded last.
void run(Body& b) {
  const auto statements = all_of(b);
  b.elements(b.roots(statements), statements, [&] { compute_and_store(b, statements); });
}

/// Runs of the points in their row-major order, for results that lie so while their last dimension is no whole number of runs: stores, and loads that lie likewise, move as packs; each point of a run finds its own indices.
class FlatRuns {
 public:
  FlatRuns(Body& b, const GpuModel& gpu) : b_(b), dims_(b.nest.outer), count_(b.env().simplify(product_of(dims_))) {
    for (const LoopDim& d : dims_) flat_ = flat_ * d.size + d.var;
    flat_ = b.env().simplify(flat_, b.vars());
    width_ = fitting_width(gpu);
  }

  /// Points of a run; 1 where this form does not fit.
  int width() const { return width_; }

  Kernel print() {
    const std::string& index = b_.index_type();
    const auto statements = all_of(b_);
    b_.line("const {0} w = (({0})blockIdx.x * {1} + threadIdx.x) * {2};", index, kThreads, width_);
    b_.line("const {0} rest = ({1}) - w;", index, b_.text(count_));
    b_.put("if (rest <= 0) return;");
    std::vector<std::pair<Scalar, std::string>> packs;
    for (Scalar n : b_.roots(statements))
      if (n->op == ScalarOp::LinearLoad && n->args.empty() && !n->mask && is_flat(n->index[0])) {
        packs.emplace_back(n, b_.fresh("v"));
        b_.line("const {} {} = c_read_part<{}>({} + w, rest);", pack(n->buffer), packs.back().second, width_, b_.pointer(n->buffer, false));
      }
    std::map<const Statement*, std::string> results;
    for (const Statement* s : statements)
      if (s->stored) b_.line("{} {};", pack(s->op->outs[0]), results[s] = b_.fresh("o"));
    if (dims_.size() > 1) b_.line("const {0} row = w / ({0}){1}, column = w - row * ({0}){1};", index, b_.text(dims_.back().size));
    b_.put("#pragma unroll");
    b_.block(fmt::format("for (int f = 0; f < {}; ++f)", width_), [&] {
      point();
      for (auto& [load, name] : packs) b_.set_value_here(load, fmt::format("c_get_{}({}.e[f])", short_name(dtype(load->buffer)), name));
      for (const Statement* s : statements) {
        const std::string value = b_.name(s->body);
        if (s->stored) b_.line("{}.e[f] = c_put_{}({});", results[s], short_name(dtype(s->op->outs[0])), value);
      }
    });
    for (const Statement* s : statements)
      if (s->stored) b_.line("c_write_part<{}>({} + w, {}, rest);", width_, b_.pointer(s->op->outs[0], true), results[s]);
    return b_.finish({.grid = {sym::ceil_div(count_, kThreads * width_), 1, 1}, .block = kThreads});
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
    while (width > 1 && (!last || *last < width || b_.env().hint_or(count_, 1 << 24) / width < gpu.threads() / 8)) width /= 2;
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
  int width_ = 1;
};

}  // namespace

Kernel cuda_pointwise(Body& b, const GpuModel& gpu) {
  std::vector<LoopDim> dims = b.nest.outer;
  const std::string index = b.index_type();
  const Expr points = b.env().simplify(product_of(dims));
  int width = dims.empty() ? 1 : run_width(b, dims.back());
  const std::int64_t hint = b.env().hint_or(points, 1 << 24);
  while (width > 1 && hint / width < gpu.threads() / 8) width /= 2;
  if (width == 1)
    if (FlatRuns flat(b, gpu); flat.width() > 1) return flat.print();
  if (!dims.empty()) b.lanes = {dims.back().var, width};

  // A run's last dimension counts runs.
  std::vector<LoopDim> runs = dims;
  if (width > 1) runs.back() = {dims.back().var, sym::floor_div(dims.back().size, width)};
  const Expr count = b.env().simplify(product_of(runs));
  const int threads = hint / width < gpu.threads() / 4 ? 128 : kThreads;
  // Narrow accesses: several points a thread, a block apart, so that enough bytes are under way.
  const int turns = width == 1 && hint > 4 * gpu.threads() ? 4 : 1;
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
          if (k == 0) b.line("const {0} {1} = ({0}){2};", index, runs[k].var.name(), r);
          else b.line("const {0} {1} = ({0})({2} % ({3}){4}){5}; {2} /= ({3}){4};", index, runs[k].var.name(), r, wide, b.text(runs[k].size), factor);
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

Kernel cuda_tiles(Body& b, const GpuModel&) {
  constexpr int kSide = 32, kRows = 8;
  std::vector<LoopDim> others = b.nest.outer;
  const LoopDim v = others.back(), u = others[*b.nest.tiled];
  others.pop_back();
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(*b.nest.tiled));
  const std::string index = b.index_type();
  const Expr along_v = sym::ceil_div(v.size, kSide), along_u = sym::ceil_div(u.size, kSide);
  const std::string vn(v.var.name()), un(u.var.name());

  const std::string wide = index == "i32" ? "u32" : "u64";
  b.line("{0} w = ({0})blockIdx.x;", wide);
  b.line("const {0} v0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide, b.text(along_v), kSide);
  b.line("const {0} u0 = ({0})(w % ({1}){2}) * {3}; w /= ({1}){2};", index, wide, b.text(along_u), kSide);
  decode(b, others, "w");
  b.line("const int lx = threadIdx.x % {0}, ly = threadIdx.x / {0};", kSide);

  // Loads and stores along `u` go through a tile each.
  auto transposed = [&](Expr e) {
    auto a = sym::linear_in(e, u.var), c = sym::linear_in(e, v.var);
    return a && a->coefficient.is_constant(1) && c && !c->coefficient.is_constant(0) && !c->coefficient.is_constant(1);
  };
  const auto statements = all_of(b);
  struct Tile {
    Scalar load = nullptr;
    const Statement* store = nullptr;
    std::string name, dtype;
  };
  std::vector<Tile> loads, stores;
  std::size_t bytes = 0;
  auto add = [&](std::vector<Tile>& list, Tile t, DType d) {
    if (bytes + kSide * (kSide + 1) * size_of(d) > 40000) return;
    bytes += kSide * (kSide + 1) * size_of(d);
    t.name = fmt::format("h{}", loads.size() + stores.size());
    t.dtype = short_name(d);
    b.head(fmt::format("__shared__ {} {}[{}][{}];", cuda_storage_type(d), t.name, kSide, kSide + 1));
    list.push_back(t);
  };
  for (Scalar n : b.roots(statements))
    if (n->op == ScalarOp::LinearLoad && n->args.empty() && !n->mask && transposed(n->index[0])) add(loads, {n, nullptr, "", ""}, b.graph.buffer(n->buffer).layout.dtype);
  for (const Statement* s : statements)
    if (s->stored && transposed(s->store)) add(stores, {nullptr, s, "", ""}, b.graph.buffer(s->op->outs[0]).layout.dtype);

  auto tile_loop = [&](const std::string& position, const std::function<void()>& inside) {
    b.put("#pragma unroll");
    b.block(fmt::format("for (int k = 0; k < {}; k += {})", kSide, kRows), [&] {
      b.put(position);
      b.block(fmt::format("if ({} < {} && {} < {})", vn, b.text(v.size), un, b.text(u.size)), inside);
    });
  };
  // Lanes along u.
  const std::string across = fmt::format("const {} {} = u0 + lx, {} = v0 + ly + k;", index, un, vn);
  if (!loads.empty()) {
    tile_loop(across, [&] {
      for (const Tile& t : loads) b.line("{}[ly + k][lx] = {}[{}];", t.name, b.pointer(t.load->buffer, false), b.text(t.load->index[0]));
    });
    b.put("c_sync();");
  }
  tile_loop(fmt::format("const {} {} = u0 + ly + k, {} = v0 + lx;", index, un, vn), [&] {
    for (const Tile& t : loads) b.set_value_here(t.load, fmt::format("c_get_{}({}[lx][ly + k])", t.dtype, t.name));
    for (const Statement* s : statements) {
      const std::string value = b.name(s->body);
      if (!s->stored) continue;
      auto tile = std::find_if(stores.begin(), stores.end(), [&](const Tile& t) { return t.store == s; });
      if (tile == stores.end()) b.store(*s, value);
      else b.line("{}[lx][ly + k] = c_put_{}({});", tile->name, tile->dtype, value);
    }
  });
  if (!stores.empty()) {
    b.put("c_sync();");
    tile_loop(across, [&] {
      for (const Tile& t : stores) b.line("{}[{}] = {}[ly + k][lx];", b.pointer(t.store->op->outs[0], true), b.text(t.store->store), t.name);
    });
  }
  return b.finish({.grid = {product_of(others) * along_u * along_v, 1, 1}, .block = kSide * kRows});
}

}  // namespace coil::codegen
