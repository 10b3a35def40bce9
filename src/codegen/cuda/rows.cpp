// Reductions along rows: a team of threads (part of a warp, a warp, a block, or a cluster of blocks) takes a row. Rows
// that fit stay in registers from level to level; others are read again, which the second-level cache mostly serves.
// Several blocks share a long row so that each is small: a multiprocessor then has others that load while one combines.
#include <set>

#include "codegen/cuda/forms.h"
#include "support/error.h"
#include "sym/assumed_multiples.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

class Rows {
 public:
  Rows(KernelBuilder& b, const RowPlan& plan)
      : b_(b),
        plan_(plan),
        config_(plan.choice.config),
        outer_(plan.outer),
        inner_(b.nest.inner),
        length_(b.env().simplify(product_of(inner_))),
        inner_vars_(variables_of(inner_)),
        width_(config_.vector),
        team_(config_.team),
        cluster_(config_.cluster),
        unrolled_(!config_.looped),
        ends_short_(config_.partial_vectors),
        accumulators_(b.nest.statements.size()) {
    b.in_place = {.outer = false, .loads_once = true};
    for (Scalar n : plan.coarse) b.make_coarse(n);
    if (config_.ragged) count_from_vectors();
    if (!inner_.empty()) b.lanes = {inner_.back().var, width_};
    exact_ = length_.is_constant(static_cast<std::int64_t>(config_.unroll) * team_ * width_);
    for (const KeptValue& k : plan.kept) kept_.push_back({k, fmt::format("k{}", kept_.size())});
  }

  Kernel print() {
    point();
    for (level_ = 0; level_ < b_.nest.levels; ++level_) {
      inner_level();
      outer_level();
    }
    const Expr rows = product_of(outer_);
    return b_.finish({.grid = {cluster_ > 1 ? rows * cluster_ : sym::ceil_div(rows, config_.rows), 1, 1},
                      .block = config_.threads,
                      .cluster = cluster_,
                      .resident = config_.min_blocks});
  }

 private:
  struct Kept : KeptValue {
    std::string name;
  };

  std::vector<const Statement*> inner_statements(int level) const {
    std::vector<const Statement*> out;
    for (const Statement& s : b_.nest.statements)
      if (s.level == level && s.role != Role::Outer) out.push_back(&s);
    return out;
  }

  bool moves(Scalar n) { return n->op != ScalarOp::Constant && b_.depends(n, inner_vars_); }

  // ---- Loops ----

  void point() {
    const std::string& index = b_.index_type();
    if (cluster_ > 1) {
      b_.line("const {0} row = ({0})({2} / {1});", index, cluster_, b_.dialect.block);
      b_.line("const int part = {2} % {0}, t = part * {1} + {3}, lane = {3} % 32, warp = t / 32;", cluster_,
              team_ / cluster_, b_.dialect.block, b_.dialect.thread);
      b_.put("c_cluster_begin();");
    } else if (team_ > 32) {
      b_.line("const {0} row = ({0}){1};", index, b_.dialect.block);
      b_.line("const int t = {}, lane = t % 32, warp = t / 32;", b_.dialect.thread);
    } else {
      b_.line("{0} row = ({0}){3} * {1} + {4} / {2};", index, config_.rows, team_, b_.dialect.block, b_.dialect.thread);
      b_.line("const int t = {} % {};", b_.dialect.thread, team_);
      // Lanes without a row take part in their warp's exchanges: they read the last row and store nothing.
      const std::string rows = b_.text(b_.env().simplify(product_of(outer_)));
      if (team_ == 32) {
        b_.line("if (row >= {}) return;", rows);
      } else {
        b_.line("const bool live = row < {};", rows);
        b_.line("if (!live) row = {} - 1;", rows);
        guard_ = "live";
      }
    }
    decode(b_, outer_, "row");
    if (config_.ragged) find_vectors();
    for (const Kept& k : kept_) {
      if (k.pack)
        b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(k.value->buffer).layout.dtype), k.name, config_.unroll);
      else
        b_.line("{} {}[{}][{}];", cuda_register_type(k.value->dtype), k.name, config_.unroll, width_);
    }
  }

  /// An element of a row is found by how far it is from the last multiple of a vector in front of the row.
  void count_from_vectors() {
    const RaggedRows& r = plan_.ragged;
    inner_.back() = {r.along, length_ + (width_ - 1)};
    b_.count_inner_by(inner_.back(), r.place());
    inner_vars_ = variables_of(inner_);
    aligned_.emplace(b_.env());
    aligned_->assume(r.base, width_);
  }

  /// Defines for a row, counted so: the first element and the end, the first vector and the end of the last, and how
  /// many elements there are in front of vectors, and in all outside of them.
  void find_vectors() {
    const RaggedRows& r = plan_.ragged;
    const std::string& index = b_.index_type();
    b_.line("const {0} {1} = {2} & ~({0}){3};", index, r.base.name(), b_.text(r.begin), width_ - 1);
    b_.line("const {0} first = {1} - {2}, end = first + {3};", index, b_.text(r.begin), r.base.name(),
            b_.text(length_));
    b_.line("const {0} begin = first > 0 ? {1} : 0, stop = end & ~({0}){2};", index, width_, width_ - 1);
    b_.line("const {0} front = begin > stop ? 0 : begin - first, back = begin > stop ? first : stop;", index);
    b_.line("const {0} outside = front + (end - back);", index);
  }

  /// The loop over a thread's runs of the row, and over its elements outside of them.
  void turns(const std::vector<Scalar>& roots, const std::function<void()>& inside) {
    vector_turns(roots, inside);
    if (!config_.ragged) return;
    const std::string& index = b_.index_type();
    const int width = std::exchange(width_, 1);
    b_.set_lanes({inner_.back().var, 1});
    b_.block(fmt::format("for ({0} e = ({0})t; e < outside; e += {1})", index, team_), [&] {
      b_.line("const {} {} = e < front ? first + e : back + (e - front);", index, inner_.back().var.name());
      inside();
    });
    width_ = width;
    b_.set_lanes({inner_.back().var, width_});
  }

  /// The loop over a thread's runs of the row. `inside` stands where the run's variables are known; `roots` are what it
  /// computes.
  void vector_turns(const std::vector<Scalar>& roots, const std::function<void()>& inside) {
    const std::string& index = b_.index_type();
    const std::string n = config_.ragged ? "stop" : b_.text(length_);
    const std::string from = config_.ragged ? "begin + " : "";
    auto run = [&](const std::function<void()>& body) {
      decode(b_, inner_, "q");
      if (ends_short_) {
        b_.line("const {} rest = {} - q;", index, n);
        b_.rest = "rest";
      }
      body();
      b_.rest.clear();
    };
    auto each = [&](int count, const std::string& q, bool all, const std::function<void()>& body) {
      b_.put("#pragma unroll");
      b_.block(fmt::format("for (int c = 0; c < {}; ++c)", count), [&] {
        b_.line("const {} q = {};", index, q);
        if (all)
          run(body);
        else
          b_.block(fmt::format("if (q < {})", n), [&] { run(body); });
      });
    };
    if (unrolled_)
      return each(config_.unroll, fmt::format("({0})(c * {1} + t) * {2}", index, team_, width_), exact_, inside);
    const std::vector<Scalar> loads = batched(roots);
    if (loads.empty()) {
      b_.line("#pragma unroll {}", config_.unroll);
      b_.block(fmt::format("for ({0} q = {4}({0})t * {1}; q < {2}; q += {3})", index, width_, n, team_ * width_, from),
               [&] { run(inside); });
      return;
    }
    // Several runs are under way before the first is used.
    const std::string begin = b_.fresh("q"), at = fmt::format("{} + ({})(c * {})", begin, index, team_ * width_);
    b_.block(fmt::format("for ({0} {1} = {5}({0})t * {2}; {1} < {3}; {1} += {4})", index, begin, width_, n,
                         config_.unroll * team_ * width_, from),
             [&] {
               std::vector<std::string> packs;
               for (Scalar l : loads)
                 b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(l->buffer).layout.dtype),
                         packs.emplace_back(b_.fresh("b")), config_.unroll);
               each(config_.unroll, at, false, [&] {
                 for (std::size_t k = 0; k < loads.size(); ++k) {
                   const std::string value = first_of(loads[k]);
                   b_.line("{}[c] = {};", packs[k], value);
                 }
               });
               if (std::ranges::any_of(loads, [&](Scalar l) { return gives_first(l); }))
                 each(config_.unroll, at, false, [&] {
                   for (std::size_t k = 0; k < loads.size(); ++k)
                     if (gives_first(loads[k]))
                       b_.line("{0}[c] = {1};", packs[k], b_.pack_receive(loads[k], packs[k] + "[c]"));
                 });
               for (std::size_t k = 0; k < loads.size(); ++k) b_.set_pack(loads[k], packs[k] + "[c]");
               each(config_.unroll, at, false, inside);
               for (Scalar l : loads) b_.drop_pack(l);
             });
  }

  /// Loads of a level's runs that can stand before all of what the level computes, as many as registers hold.
  std::vector<Scalar> batched(const std::vector<Scalar>& roots) {
    std::vector<Scalar> loads;
    std::vector<int> bytes;
    for (Scalar n : roots) {
      if (!b_.packable(n) || !moves(n) ||
          std::any_of(n->args.begin(), n->args.end(), [&](Scalar a) { return moves(a); }))
        continue;
      if (std::any_of(b_.nest.statements.begin(), b_.nest.statements.end(),
                      [&](const Statement& s) { return s.stored && s.op->outs[0] == n->buffer; }))
        continue;
      loads.push_back(n);
      bytes.push_back(register_bytes(b_.graph, n, true, width_));
    }
    loads.resize(loads_under_way(bytes, config_.unroll));
    return loads;
  }

  void inner_level() {
    auto statements = inner_statements(level_);
    std::erase_if(statements, [&](const Statement* s) {
      return std::any_of(plan_.pairs.begin(), plan_.pairs.end(), [&](const OnlinePair& p) { return p.second == s; });
    });
    // Values that nothing keeps are computed again where they are read.
    if (config_.ragged)
      std::erase_if(statements, [](const Statement* s) { return s->role == Role::Inner && !s->stored; });
    if (statements.empty()) return;
    loop_over(statements);
    finish_reductions(statements);
    for (const OnlinePair& p : plan_.pairs)
      if (p.first->level == level_) publish(p);
    // Other threads of the team read from memory what this level stored.
    for (const Statement* s : statements)
      if (s->role == Role::Inner && s->stored && read_later(*s)) {
        wait();
        break;
      }
  }

  /// All threads of a row have come here, and see what the others wrote.
  void wait() {
    if (cluster_ > 1)
      b_.put("c_cluster_sync();");
    else
      b_.put(team_ > 32 ? "c_sync();" : "c_sync_warp();");
  }

  const OnlinePair* pair_of(const Statement& s) const {
    if (plain_) return nullptr;
    for (const OnlinePair& p : plan_.pairs)
      if (p.first == &s) return &p;
    return nullptr;
  }

  Accumulator accumulator_of(const Statement& s) const {
    const OnlinePair* pair = pair_of(s);
    Accumulator a = accumulator(b_, s, index_of(s));
    if (!pair) return a;
    const bool soft = pair->kind == OnlinePair::Kind::Softmax;
    a.name = fmt::format("w{}", index_of(s));
    a.op = soft ? "c_op_soft()" : "c_op_moments()";
    a.identity = soft ? fmt::format("{{{}, 0}}", a.identity) : "{0, 0, 0}";
    a.type = fmt::format("{}<{}>", soft ? "c_soft" : "c_moments", cuda_register_type(s.body->dtype));
    return a;
  }

  /// The results of a pair. Where the first is not finite, one pass is not enough: each is then made by itself, as
  /// eager would.
  void publish(const OnlinePair& p) {
    const std::string w = accumulators_[index_of(*p.first)].name, type = cuda_register_type(p.first->body->dtype),
                      first = w + "a", second = w + "b";
    const bool soft = p.kind == OnlinePair::Kind::Softmax;
    b_.line("{} {} = {}, {} = {};", type, first, soft ? w + ".m" : fmt::format("{0}.mean * {0}.n", w), second,
            soft ? fmt::format("c_soft_sum({})", w) : w + ".squares");
    b_.block(soft ? fmt::format("if (!c_soft_fits({}))", first)
                  : fmt::format("if (!(c_abs({}) < c_infinity<{}>()))", first, type),
             [&] {
               plain_ = true;
               for (const Statement* s : {p.first, p.second}) {
                 if (soft && s == p.first) {
                   b_.set_local(s->op->outs[0], first);
                   continue;
                 }
                 const std::vector<const Statement*> alone{s};
                 loop_over(alone);
                 finish_reductions(alone, false);
                 const Accumulator& a = accumulators_[index_of(*s)];
                 b_.line("{} = {};", s == p.first ? first : second, a.name);
                 b_.set_local(s->op->outs[0], s == p.first ? first : second);
               }
               plain_ = false;
             });
    made(*p.first, first);
    made(*p.second, second);
  }

  void loop_over(const std::vector<const Statement*>& statements) {
    const auto roots = roots_of(statements);
    b_.hoist(roots, inner_vars_);
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) {
        Accumulator& a = accumulators_[index_of(*s)];
        a = accumulator_of(*s);
        b_.line("{} {} = {};", a.type, a.name, a.identity);
      }
    if (!plain_) {
      renew();
      preload(roots);
    }
    b_.store_guard = guard_.empty() ? "" : "if (live) ";
    turns(roots, [&] {
      for (const Statement* s : statements)
        if (pair_of(*s)) {
          b_.line("{} y{}[{}];", cuda_register_type(s->body->dtype), index_of(*s), width_);
          // Nothing adds to a softmax.
          if (ends_short_)
            b_.line("for (int j = 0; j < {}; ++j) y{}[j] = {};", width_, index_of(*s),
                    reduction_identity(b_.dialect, ir::ReductionKind::Max, s->body->dtype));
        }
      b_.elements(roots, statements, [&] {
        for (const Kept& k : kept_)
          if (!k.pack && k.level < level_) b_.set_value_here(k.value, fmt::format("{}[c]{}", k.name, b_.lane()));
        for (const Statement* s : statements) {
          if (pair_of(*s)) {
            const std::string value = b_.name(s->body);
            b_.line("y{}{} = {};", index_of(*s), b_.lane(), value);
          } else if (s->role == Role::Reduce) {
            accumulate(b_, accumulators_[index_of(*s)], "");
          } else {
            const std::string value = b_.value_to_store(*s);
            if (s->stored) b_.store(*s, value);
          }
        }
        for (const Kept& k : kept_)
          if (!k.pack && k.level == level_) {
            const std::string value = b_.name(k.value);
            b_.line("{}[c]{} = {};", k.name, b_.lane(), value);
          }
      });
      for (const Statement* s : statements)
        if (pair_of(*s)) b_.line("{0} = c_take({0}, y{1});", accumulators_[index_of(*s)].name, index_of(*s));
    });
    b_.store_guard.clear();
    for (Scalar n : std::exchange(under_way_, {})) b_.drop_pack(n);
  }

  /// What earlier levels converted of many narrow elements is converted again, since it would take twice the registers.
  void renew() {
    for (const Kept& k : kept_) {
      if (!k.converts_again || k.level >= level_) continue;
      b_.put("#pragma unroll");
      b_.line("for (int c = 0; c < {}; ++c) c_renew({}[c]);", config_.unroll, k.name);
    }
  }

  /// Whether the load is of a sum over ranks, whose runs are all on their way before a thread waits for the first.
  bool gives_first(Scalar load) const { return b_.is_peer_sum(load) && !ends_short_; }
  std::string first_of(Scalar load) { return gives_first(load) ? b_.pack_send(load) : b_.pack_load(load); }

  void preload(const std::vector<Scalar>& roots) {
    std::vector<std::pair<Scalar, std::string>> packs;
    for (const Kept& k : kept_)
      if (k.pack && k.level == level_ && std::find(roots.begin(), roots.end(), k.value) != roots.end())
        packs.emplace_back(k.value, k.name);
    for (Scalar n : roots) {
      const bool is_kept = std::ranges::any_of(kept_, [&](const Kept& k) { return k.pack && k.value == n; });
      if (is_kept || !unrolled_ || !gives_first(n) || !b_.packable(n) || !moves(n) || !exchanged_.insert(n).second)
        continue;
      b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(n->buffer).layout.dtype),
              packs.emplace_back(n, b_.fresh("b")).second, config_.unroll);
    }
    if (packs.empty()) return;
    const std::vector<Scalar> meanwhile = loaded_meanwhile(roots, packs);
    for (Scalar n : meanwhile)
      b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(n->buffer).layout.dtype),
              packs.emplace_back(n, b_.fresh("b")).second, config_.unroll);
    turns(roots, [&] {
      for (const auto& [value, name] : packs) b_.line("{}[c] = {};", name, first_of(value));
    });
    if (std::ranges::any_of(packs, [&](const auto& p) { return gives_first(p.first); })) {
      b_.settle_peer_sum();
      turns(roots, [&] {
        for (const auto& [value, name] : packs)
          if (gives_first(value)) b_.line("{}[c] = {};", name, b_.pack_receive(value, name + "[c]"));
      });
    }
    for (const auto& [value, name] : packs) b_.set_pack(value, name + "[c]");
    under_way_ = meanwhile;
  }

  /// What else a level reads, where it waits for other ranks: on its way before that.
  std::vector<Scalar> loaded_meanwhile(const std::vector<Scalar>& roots,
                                       const std::vector<std::pair<Scalar, std::string>>& packs) {
    std::vector<Scalar> found;
    const auto is_here = [&](Scalar n) {
      return std::ranges::any_of(packs, [&](const auto& p) { return p.first == n; });
    };
    if (std::ranges::none_of(packs, [&](const auto& p) { return gives_first(p.first); })) return found;
    for (Scalar n : batched(roots))
      if (!is_here(n) && !b_.is_peer_sum(n) && std::ranges::none_of(kept_, [&](const Kept& k) { return k.value == n; }))
        found.push_back(n);
    return found;
  }

  bool read_later(const Statement& made) const {
    for (const Statement& s : b_.nest.statements)
      if (s.level > made.level)
        for (Scalar n : ir::topological(std::span(&s.body, 1)))
          if (n->op == ScalarOp::LinearLoad && n->buffer == made.op->outs[0]) return true;
    return false;
  }

  std::size_t index_of(const Statement& s) const { return static_cast<std::size_t>(&s - b_.nest.statements.data()); }

  void finish_reductions(const std::vector<const Statement*>& statements, bool publishes = true) {
    std::vector<const Accumulator*> all;
    for (const Statement* s : statements)
      if (s->role == Role::Reduce) all.push_back(&accumulators_[index_of(*s)]);
    if (all.empty()) return;
    if (team_ > 1)
      for (const Accumulator* a : all)
        b_.line("{0} = c_reduce_warp<{1}>({0}, {2});", a->name, std::min(team_, 32), a->op);
    if (team_ > 32) {
      // In a cluster every block is given what all warps of the row have.
      const int warps = team_ / 32, across = std::min(warps, 32);
      if (cluster_ > 1 && !begun_) b_.put("c_cluster_begun();");
      begun_ = true;
      for (const Accumulator* a : all) {
        b_.shared(fmt::format("{} h{}[{}]", a->type, a->name, warps));
        if (cluster_ > 1)
          b_.line("if (lane < {1}) c_shared_of(h{0}, lane)[warp] = {0};", a->name, cluster_);
        else
          b_.line("if (lane == 0) h{0}[warp] = {0};", a->name);
      }
      wait();
      for (const Accumulator* a : all) {
        b_.line("{0} = h{0}[lane % {1}];", a->name, across);
        for (int w = across; w < warps; w += across) b_.line("{0} = {1}({0}, h{0}[lane + {2}]);", a->name, a->op, w);
        b_.line("{0} = c_reduce_warp<{1}>({0}, {2});", a->name, across, a->op);
      }
    }
    if (!publishes) return;
    for (const Accumulator* a : all)
      if (!pair_of(*a->statement)) made(*a->statement, a->result());
  }

  /// A value that the whole team has: one thread stores it.
  void made(const Statement& s, const std::string& value) {
    if (s.stored) {
      b_.store_guard = guard_.empty() ? "if (t == 0) " : "if (t == 0 && live) ";
      b_.store(s, value);
      b_.store_guard.clear();
    }
    b_.set_local(s.op->outs[0], value);
  }

  void outer_level() {
    std::vector<const Statement*> statements;
    for (const Statement& s : b_.nest.statements)
      if (s.level == level_ && s.role == Role::Outer) statements.push_back(&s);
    std::vector<std::pair<const Statement*, std::string>> values;
    // All are computed before any is stored: a thread must not read what another has just written.
    bool reads_written = false;
    for (const Statement* s : statements)
      for (Scalar n : ir::topological(std::span(&s->body, 1)))
        if (n->op == ScalarOp::LinearLoad && !b_.made_here(n))
          for (const Statement& w : b_.nest.statements)
            reads_written = reads_written || (w.stored && w.op->outs[0] == n->buffer);
    for (const Statement* s : statements) {
      values.emplace_back(s, b_.name(s->body));
      if (reads_written) wait();
      made(*s, values.back().second);
    }
  }

  KernelBuilder& b_;
  const RowPlan& plan_;
  const LaunchConfig& config_;
  std::vector<LoopDim> outer_, inner_;
  Expr length_;
  Exprs inner_vars_;
  std::optional<sym::AssumedMultiples> aligned_;  ///< of ragged rows
  int width_, team_, cluster_, level_ = 0;
  bool unrolled_, ends_short_, begun_ = false, exact_ = false, plain_ = false;
  std::string guard_;
  std::vector<Accumulator> accumulators_;
  std::vector<Kept> kept_;
  std::vector<Scalar> under_way_;  ///< loads of this level that are in registers
  std::set<Scalar> exchanged_;     ///< loads of sums over ranks that are in registers
};

}  // namespace

Kernel cuda_rows(KernelBuilder& b, const RowPlan& plan) { return Rows(b, plan).print(); }

}  // namespace coil::codegen
