// Reductions down columns: threads side by side along a contiguous outer dimension, several of them sharing a column's
// points and combining through shared memory.
#include "codegen/cuda/forms.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using scheduler::Role;

class Columns {
 public:
  Columns(KernelBuilder& b, const LaunchConfig& config)
      : b_(b),
        config_(config),
        outer_(b.nest.outer),
        inner_(b.nest.inner),
        length_(b.env().simplify(product_of(inner_))),
        inner_vars_(variables_of(inner_)),
        width_(config.vector),
        across_(config.threads / (config.team * config.rows)),
        down_(config.team),
        beside_(config.rows),
        accumulators_(b.nest.statements.size()) {
    b.in_place.outer = false;
    b.lanes = {outer_.back().var, width_};
  }

  Kernel print() {
    point();
    for (level_ = 0; level_ < b_.nest.levels; ++level_) {
      inner_level();
      outer_level();
    }
    const LoopDim v = outer_.back();
    const Expr others = product_of(std::span(outer_).first(outer_.size() - 1));
    return b_.finish({.grid = {sym::ceil_div(others * sym::ceil_div(v.size, across_ * width_), beside_), 1, 1},
                      .block = config_.threads});
  }

 private:
  void point() {
    const std::string& index = b_.index_type();
    const LoopDim v = outer_.back();
    const std::vector<LoopDim> others(outer_.begin(), outer_.end() - 1);
    b_.line("const int lx = {} % {}, ly = {};", b_.dialect.thread, across_,
            down_ > 1 ? fmt::format("{} / {}", b_.dialect.thread, across_) : "0");
    const std::string blocks = b_.text(b_.env().simplify(sym::ceil_div(v.size, across_ * width_)));
    const std::string wide = index == "i32" ? "u32" : "u64";
    if (beside_ > 1) {
      b_.line("{0} w = ({0}){3} * {1} + {4} / {2};", wide, beside_, across_, b_.dialect.block, b_.dialect.thread);
      b_.line("const bool inside = w < ({})({});", wide,
              b_.text(b_.env().simplify(product_of(others) * sym::ceil_div(v.size, across_ * width_))));
      b_.put("if (!inside) w = 0;");
    } else {
      b_.line("const {0} w = ({0}){1};", wide, b_.dialect.block);
    }
    b_.line("{0} {1} = (({0})(w % ({2}){3}) * {4} + lx) * {5};", index, v.var.name(), wide, blocks, across_, width_);
    // Threads past the edge read the first column and store nothing.
    b_.line("const bool live = {}{} < {};", beside_ > 1 ? "inside && " : "", v.var.name(), b_.text(v.size));
    b_.line("if (!live) {} = 0;", v.var.name());
    decode(b_, others, fmt::format("w / ({}){}", wide, blocks));
  }

  void inner_level() {
    std::vector<const Statement*> statements;
    for (const Statement& s : b_.nest.statements)
      if (s.level == level_ && s.role != Role::Outer) statements.push_back(&s);
    if (statements.empty()) return;
    const auto roots = roots_of(statements);
    Exprs moving = inner_vars_;
    b_.hoist(roots, moving);
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) {
        Accumulator& a = accumulators_[index_of(*s)];
        a = accumulator(b_, *s, index_of(*s));
        b_.line("{} {}[{}];", a.type, a.name, width_);
        b_.put("#pragma unroll");
        b_.line("for (int j = 0; j < {}; ++j) {}[j] = {};", width_, a.name, a.arg ? a.type + a.identity : a.identity);
      }
    b_.store_guard = "if (live) ";
    const std::string& index = b_.index_type();
    b_.line("#pragma unroll {}", config_.unroll);
    b_.block(fmt::format("for ({0} q = ({0})ly; q < {1}; q += {2})", index, b_.text(length_), down_), [&] {
      decode(b_, inner_, "q");
      std::vector<const Statement*> points;
      for (const Statement* s : statements)
        if (s->role != Role::Reduce) points.push_back(s);
      b_.elements(roots, points, [&] {
        for (const Statement* s : statements) {
          if (s->role == Role::Reduce) {
            accumulate(b_, accumulators_[index_of(*s)], b_.lane());
          } else {
            const std::string value = b_.name(s->body);
            if (s->stored) b_.store(*s, value);
          }
        }
      });
    });
    b_.store_guard.clear();
    finish_reductions(statements);
    // Other threads of the column read from memory what this level stored.
    if (down_ > 1)
      for (const Statement* s : statements)
        if (s->role == Role::Inner && s->stored) {
          b_.put("c_sync();");
          break;
        }
  }

  std::size_t index_of(const Statement& s) const { return static_cast<std::size_t>(&s - b_.nest.statements.data()); }

  void finish_reductions(const std::vector<const Statement*>& statements) {
    std::vector<const Statement*> all;
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) all.push_back(s);
    if (all.empty()) return;
    auto each_lane = [&](const std::function<void(const Accumulator&)>& f) {
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int j = 0; j < {}; ++j)", width_), [&] {
        for (const Statement* s : all) f(accumulators_[index_of(*s)]);
      });
    };
    if (down_ > 1) combine(each_lane);
    for (const Statement* s : all) {
      const Accumulator& a = accumulators_[index_of(*s)];
      std::string name = a.name;
      if (a.arg) {
        name = b_.fresh("l");
        b_.line("i64 {}[{}];", name, width_);
        b_.put("#pragma unroll");
        b_.line("for (int j = 0; j < {}; ++j) {}[j] = {}[j].p;", width_, name, a.name);
      }
      b_.set_local(s->op->outs[0], name, true);
      if (s->stored) store_column({s}, [&](const Statement&) { return name + b_.lane(); });
    }
  }

  /// The threads of a column put their parts together: those of one warp by exchange, warps through shared memory, in a
  /// fixed order.
  void combine(const std::function<void(const std::function<void(const Accumulator&)>&)>& each_lane) {
    const int in_warp = std::max(1, 32 / across_), parts = down_ / in_warp;
    if (in_warp > 1)
      each_lane([&](const Accumulator& a) {
        b_.line("for (int o = {1}; o < 32; o *= 2) {0}[j] = {2}({0}[j], c_lane_xor({0}[j], o));", a.name, across_,
                a.op);
      });
    if (parts <= 1) return;
    each_lane([&](const Accumulator& a) {
      b_.shared(fmt::format("{} h{}[{}][{}]", a.type, a.name, parts, across_ * width_));
      b_.line("h{0}[ly / {1}][lx * {2} + j] = {0}[j];", a.name, in_warp, width_);
    });
    b_.put("c_sync();");
    // Only the first threads store a column; others need it where something follows.
    const bool last = level_ + 1 == b_.nest.levels &&
                      std::none_of(b_.nest.statements.begin(), b_.nest.statements.end(),
                                   [&](const Statement& s) { return s.level == level_ && s.role == Role::Outer; });
    b_.block(last ? "if (ly == 0)" : "", [&] {
      each_lane([&](const Accumulator& a) {
        b_.line("{0}[j] = h{0}[0][lx * {1} + j];", a.name, width_);
        b_.line("for (int y = 1; y < {1}; ++y) {0}[j] = {2}({0}[j], h{0}[y][lx * {3} + j]);", a.name, parts, a.op,
                width_);
      });
    });
  }

  /// One thread of each column stores.
  void store_column(const std::vector<const Statement*>& statements,
                    const std::function<std::string(const Statement&)>& value) {
    b_.store_guard = "if (live && ly == 0) ";
    b_.elements({}, statements, [&] {
      for (const Statement* s : statements) b_.store(*s, value(*s));
    });
    b_.store_guard.clear();
  }

  void outer_level() {
    for (const Statement& s : b_.nest.statements) {
      if (s.level != level_ || s.role != Role::Outer) continue;
      const std::vector<const Statement*> alone{&s};
      const auto roots = roots_of(alone);
      const std::string local = b_.fresh("l");
      b_.line("{} {}[{}];", cuda_register_type(s.body->dtype), local, width_);
      b_.elements(roots, {}, [&] {
        const std::string value = b_.name(s.body);
        b_.line("{}{} = {};", local, b_.lane(), value);
      });
      if (down_ > 1 && reads_written(s)) b_.put("c_sync();");
      if (s.stored) store_column({&s}, [&](const Statement&) { return local + b_.lane(); });
      b_.set_local(s.op->outs[0], local, true);
    }
  }

  bool reads_written(const Statement& s) const {
    for (Scalar n : ir::topological(std::span(&s.body, 1)))
      if (n->op == ir::ScalarOp::LinearLoad && !b_.made_here(n))
        for (const Statement& w : b_.nest.statements)
          if (w.stored && w.op->outs[0] == n->buffer) return true;
    return false;
  }

  KernelBuilder& b_;
  const LaunchConfig& config_;
  std::vector<LoopDim> outer_, inner_;
  Expr length_;
  Exprs inner_vars_;
  int width_, across_, down_, beside_, level_ = 0;
  std::vector<Accumulator> accumulators_;
};

}  // namespace

Kernel cuda_columns(KernelBuilder& b, const LaunchConfig& config) { return Columns(b, config).print(); }

}  // namespace coil::codegen
