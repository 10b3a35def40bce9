// Reductions along rows: a team of threads (part of a warp, a warp, a block, or a cluster of blocks) takes a row. Rows
// that fit stay in registers from level to level; others are read again, which the second-level cache mostly serves.
// Several blocks share a long row so that each is small: a multiprocessor then has others that load while one combines.
#include "codegen/cuda/forms.h"
#include "codegen/cuda/online.h"
#include "support/error.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr int kBlockThreads = 128;                  // threads of a block whose rows belong to warps
constexpr int kKeptBytes = 192;                     // of a row, in one thread's registers
constexpr int kMostTurns = 16;                      // runs of a row that one thread takes where its loop is unrolled
constexpr int kBatch = 4;                           // runs that a thread has under way where its loop is not
constexpr int kBatchBytes = 128;                    // of them, in one thread's registers
constexpr int kLeastShare = 128, kMostShare = 256;  // threads of a block that shares a row with others
// Elements of a pack's kind in one thread, from which on they are converted again at each level, not kept converted.
constexpr int kManyElements = 64;
// Bytes of a row that is as well read from any other place as from behind the one before.
constexpr std::int64_t kOwnRowBytes = 512;
constexpr std::int64_t kSharedRowRuns = 4096;  // runs of a row that several blocks share
constexpr int kOnceTeam = 256;                 // threads of a row that is read once, where there are rows enough
constexpr std::int64_t kLongRow = 1024;        // elements for which a run cut short at the end is worth its checks

class Rows {
 public:
  Rows(Body& b, const GpuModel& gpu)
      : b_(b), gpu_(gpu), outer_(b.nest.outer), inner_(b.nest.inner), length_(b.env().simplify(product_of(inner_))) {
    b.outer_in_place = false;
    inner_vars_ = variables_of(inner_);
    order_rows();
  }

  Kernel print() {
    pairs_ = online_pairs(b_, length_);
    choose_team();
    accumulators_.resize(b_.nest.statements.size());
    choose_kept();
    // A softmax's terms are at most 1, and their quotients too: no digit that counts is lost.
    for (const OnlinePair& p : pairs_)
      if (p.kind == OnlinePair::Kind::Softmax && p.second->body->dtype == DType::F32) b_.make_coarse(p.second->body);
    // What stays in registers is gone through again at no cost but a wait for the row's other threads, which is long
    // only where they are of several blocks.
    std::erase_if(pairs_, [&](const OnlinePair& p) {
      return team_ <= 32 || (unrolled_ && (cluster_ == 1 || p.kind != OnlinePair::Kind::Moments));
    });
    point();
    for (level_ = 0; level_ < b_.nest.levels; ++level_) {
      inner_level();
      outer_level();
    }
    const Expr rows = product_of(outer_);
    return b_.finish({.grid = {cluster_ > 1 ? rows * cluster_ : sym::ceil_div(rows, rows_), 1, 1},
                      .block = std::max(team_ * rows_ / cluster_, 32),
                      .cluster = cluster_,
                      .resident = cluster_ > 1 ? std::max(1, resident_threads() / (team_ / cluster_)) : 0});
  }

 private:
  /// Rows that read the same row of something beside their own come one after another, so that it is read once: the
  /// outer dimension that most such loads leave out turns fastest.
  void order_rows() {
    if (outer_.size() < 2 || inner_.empty()) return;
    std::set<Scalar> loads;
    for (const Statement& s : b_.nest.statements)
      if (s.role != Role::Outer)
        for (Scalar n : ir::topological(std::span(&s.body, 1)))
          if (n->op == ScalarOp::LinearLoad && !b_.made_here(n) && moves(n) &&
              b_.env().hint_or(length_, 4096) *
                      static_cast<std::int64_t>(size_of(b_.graph.buffer(n->buffer).layout.dtype)) >=
                  kOwnRowBytes)
            loads.insert(n);
    auto shared = [&](const LoopDim& d) {
      return std::ranges::count_if(
          loads, [&](Scalar n) { return !b_.depends(n, Exprs{d.var}) && b_.depends(n, variables_of(outer_)); });
    };
    auto best = std::prev(outer_.end());
    for (auto d = outer_.begin(); d != outer_.end(); ++d)
      if (shared(*d) > shared(*best)) best = d;
    std::rotate(best, std::next(best), outer_.end());
  }

  // ---- How many threads take a row, and in how many turns ----

  void choose_team() {
    const std::int64_t n = b_.env().hint_or(length_, 4096), rows = b_.env().hint_or(product_of(outer_), 1 << 16);
    if (!inner_.empty() && b_.nest.vector == LoopNest::Vector::Inner) {
      width_ = run_width(b_, inner_.back());
      // Rows that start on a vector but do not end on one. Counts and means of a run take all of its elements.
      const bool counts = std::any_of(pairs_.begin(), pairs_.end(),
                                      [](const OnlinePair& p) { return p.kind == OnlinePair::Kind::Moments; });
      if (width_ == 1 && inner_.size() == 1 && n >= kLongRow && !counts) {
        width_ = run_width(b_, inner_.back(), true);
        ends_short_ = width_ > 1;
      }
    }
    const std::int64_t runs = (n + width_ - 1) / width_;
    const bool once = read_once();
    const Shape shape = chosen(b_, gpu_, shapes(runs, rows, once));
    team_ = shape.team;
    rows_ = shape.rows;
    cluster_ = shape.cluster;
    if (!inner_.empty()) b_.lanes = {inner_.back().var, width_};
    if (auto whole = length_.constant()) {
      const std::int64_t per_turn = static_cast<std::int64_t>(team_) * width_;
      turns_ = static_cast<int>(std::min<std::int64_t>((*whole + per_turn - 1) / per_turn, kMostTurns + 1));
      unrolled_ = turns_ <= kMostTurns && turns_ >= 1 && (pairs_.empty() || !once || runs <= 4096);
      exact_ = *whole == static_cast<std::int64_t>(turns_) * per_turn;
    }
  }

  /// A row has `team` threads, of `cluster` blocks; a block takes `rows` of them.
  struct Shape {
    int team, rows, cluster;
    bool operator==(const Shape&) const = default;
  };

  std::vector<Shape> shapes(std::int64_t runs, std::int64_t rows, bool once) const {
    const std::int64_t wanted = runs <= 128 ? runs : std::max<std::int64_t>(64, (runs + 3) / 4);
    int team = power_of_two_at_least(wanted, runs <= 128 ? 32 : runs > 4096 ? 1024 : 512);
    // Rows that are read once: more rows at a time, each with fewer threads, so that some load while others combine.
    if (once && team > kOnceTeam && rows * kOnceTeam >= gpu_.threads()) team = kOnceTeam;
    // Few rows: more threads on each.
    while (team < 1024 && team < runs && rows * team < gpu_.threads() / 2) team *= 2;
    auto in_block = [](int t, int block) { return t > 32 ? 1 : std::max(1, block / t); };
    std::vector<Shape> out{{team, in_block(team, kBlockThreads), 1}};
    auto add = [&](Shape s) {
      if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    };
    const bool shares = length_.is_constant() && gpu_.most_cluster > 1;
    if (shares && !once && runs >= kSharedRowRuns) out[0] = shared_row(runs, out[0]);
    for (int t : {team / 2, team * 2, team / 4, team})
      if (t >= 1 && t <= 1024 && (t <= runs || t <= 32)) add({t, in_block(t, kBlockThreads), 1});
    if (team <= 32)
      for (int block : {kBlockThreads / 2, kBlockThreads * 2}) add({team, in_block(team, block), 1});
    if (shares && gpu_.cluster == 0 && runs >= kSharedRowRuns / 4)
      for (int blocks = 2; blocks <= gpu_.most_cluster; blocks *= 2)
        for (int share : {kMostShare, kLeastShare, kMostShare * 2})
          if (runs >= static_cast<std::int64_t>(blocks) * share &&
              runs <= static_cast<std::int64_t>(blocks) * share * (once ? runs : kMostTurns))
            add({blocks * share, 1, blocks});
    return out;
  }

  /// Threads of a cluster that hold a row in registers with so few runs each that a multiprocessor has room for several
  /// blocks: the fewest of few threads, else of many. One block where the row is too long for that.
  Shape shared_row(std::int64_t runs, Shape otherwise) const {
    auto fits = [&](int blocks, int share, int turns) {
      return runs <= static_cast<std::int64_t>(blocks) * share * turns;
    };
    for (int share : {kLeastShare, kMostShare}) {
      int blocks = std::max(1, gpu_.cluster);
      while (gpu_.cluster == 0 && blocks < gpu_.most_cluster && !fits(blocks, share, kMostTurns / 2)) blocks *= 2;
      if (blocks > 1 && fits(blocks, share, share == kMostShare ? kMostTurns : kMostTurns / 2))
        return {blocks * share, 1, blocks};
    }
    return otherwise;
  }

  /// Of blocks that share rows, how many threads a multiprocessor should hold: 64 registers for each, or 80 where much
  /// is kept.
  int resident_threads() const {
    int kept = 0;
    for (const Kept& k : kept_) kept += turns_ * bytes_to_keep(k.value);
    return kept <= kKeptBytes * 2 / 3 ? 1024 : 768;
  }

  /// Whether one pass over a row is enough: all that runs along it are reductions of one level, or such pairs.
  bool read_once() const {
    int level = -1;
    for (const Statement& s : b_.nest.statements) {
      if (s.role == Role::Outer) continue;
      if (s.role != Role::Reduce) return false;
      const bool paired =
          std::any_of(pairs_.begin(), pairs_.end(), [&](const OnlinePair& p) { return p.second == &s; });
      if (paired) continue;
      if (level >= 0 && s.level != level) return false;
      level = s.level;
    }
    return true;
  }

  // ---- What stays in registers from one level to the next ----

  struct Kept {
    Scalar value;
    std::string name;
    bool pack = false;
    int level = 0;
  };

  std::vector<const Statement*> inner_statements(int level) const {
    std::vector<const Statement*> out;
    for (const Statement& s : b_.nest.statements)
      if (s.level == level && s.role != Role::Outer) out.push_back(&s);
    return out;
  }

  /// Operations of a value down to loads, counting those that take many instructions for more.
  static int cost(Scalar n) {
    int c = 0;
    for (Scalar x : ir::topological(std::span(&n, 1)))
      if (!x->args.empty() && x->op != ScalarOp::LinearLoad)
        c += x->op == ScalarOp::Div || x->op == ScalarOp::Pow || x->op >= ScalarOp::Exp ? 8 : 1;
    return c;
  }

  bool moves(Scalar n) { return n->op != ScalarOp::Constant && b_.depends(n, inner_vars_); }

  void choose_kept() {
    if (!unrolled_ || keep(true) || keep(false)) return;
    unrolled_ = false;
  }

  /// `values`: what is cheap to make from loads is kept itself where it takes no more registers than they do. Returns
  /// whether all fits.
  bool keep(bool values) {
    kept_.clear();
    std::map<Scalar, int> first;  // level of first use
    std::vector<Scalar> order;
    std::vector<std::vector<Scalar>> nodes(static_cast<std::size_t>(b_.nest.levels));
    for (int l = 0; l < b_.nest.levels; ++l) {
      for (Scalar n : b_.roots(inner_statements(l)))
        if (moves(n)) nodes[static_cast<std::size_t>(l)].push_back(n), first.emplace(n, l);
    }
    std::set<Scalar> wanted;
    std::function<void(Scalar)> keep = [&](Scalar n) {
      if (wanted.contains(n)) return;
      if (n->op != ScalarOp::LinearLoad && n->op != ScalarOp::Index && cost(n) <= 6 &&
          !(values && bytes_of_loads(n, wanted) >= bytes_to_keep(n))) {
        for (Scalar a : n->args)
          if (moves(a)) keep(a);
        if (!n->args.empty()) return;
      }
      if (n->op == ScalarOp::Index) return;
      wanted.insert(n);
      order.push_back(n);
    };
    for (int l = 1; l < b_.nest.levels; ++l) {
      const auto& here = nodes[static_cast<std::size_t>(l)];
      std::set<Scalar> old;
      for (Scalar n : here)
        if (first.at(n) < l) old.insert(n);
      for (Scalar n : here) {
        if (old.contains(n)) continue;
        for (Scalar a : n->args)
          if (old.contains(a)) keep(a);
        if (n->mask && old.contains(n->mask)) keep(n->mask);
      }
      for (const Statement* s : inner_statements(l))
        if (old.contains(s->body)) keep(s->body);
    }
    const std::size_t kept = order.size();
    // All loads of the first level are under way before the first is used, though only what is made of them stays.
    if (turns_ > 1)
      for (Scalar n : nodes[0])
        if (n->op == ScalarOp::LinearLoad && !wanted.contains(n) && b_.packable(n))
          wanted.insert(n), order.push_back(n);
    int bytes = 0, passing = 0;
    bool full = false;
    const int budget = team_ / cluster_ > 512 ? kKeptBytes * 2 / 3 : kKeptBytes;
    for (std::size_t k = 0; k < order.size(); ++k) {
      Scalar n = order[k];
      const int size = turns_ * bytes_to_keep(n);
      int& sum = k < kept ? bytes : passing;
      if (sum + size > budget) {
        full = full || k < kept;
        continue;
      }
      sum += size;
      kept_.push_back({n, fmt::format("k{}", kept_.size()), b_.packable(n), first.at(n)});
    }
    if (full && b_.nest.levels > 1) kept_.clear();
    return !full || b_.nest.levels == 1;
  }

  /// In a thread's registers, of one run.
  int bytes_to_keep(Scalar n) const {
    const DType stored = n->op == ScalarOp::LinearLoad ? b_.graph.buffer(n->buffer).layout.dtype : n->dtype;
    return width_ * static_cast<int>(b_.packable(n) ? size_of(stored) : std::max<std::size_t>(4, size_of(n->dtype)));
  }

  /// The same of the loads that a value is made of, but for what is kept already.
  int bytes_of_loads(Scalar root, const std::set<Scalar>& kept) {
    std::set<Scalar> seen;
    int bytes = 0;
    std::function<void(Scalar)> walk = [&](Scalar n) {
      if (kept.contains(n) || !moves(n) || !seen.insert(n).second) return;
      if (n->op == ScalarOp::LinearLoad) bytes += bytes_to_keep(n);
      for (Scalar a : n->args) walk(a);
    };
    walk(root);
    return bytes;
  }

  // ---- Loops ----

  void point() {
    const std::string& index = b_.index_type();
    if (cluster_ > 1) {
      b_.line("const {0} row = ({0})(blockIdx.x / {1});", index, cluster_);
      b_.line(
          "const int part = blockIdx.x % {0}, t = part * {1} + threadIdx.x, lane = threadIdx.x % 32, warp = t / 32;",
          cluster_, team_ / cluster_);
      b_.put("c_cluster_begin();");
    } else if (team_ > 32) {
      b_.line("const {0} row = ({0})blockIdx.x;", index);
      b_.put("const int t = threadIdx.x, lane = t % 32, warp = t / 32;");
    } else {
      b_.line("{0} row = ({0})blockIdx.x * {1} + threadIdx.x / {2};", index, rows_, team_);
      b_.line("const int t = threadIdx.x % {};", team_);
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
    for (const Kept& k : kept_) {
      if (k.pack)
        b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(k.value->buffer).layout.dtype), k.name, turns_);
      else
        b_.line("{} {}[{}][{}];", cuda_register_type(k.value->dtype), k.name, turns_, width_);
    }
  }

  /// The loop over a thread's runs of the row. `inside` stands where the run's variables are known; `roots` are what it
  /// computes.
  void turns(const std::vector<Scalar>& roots, const std::function<void()>& inside) {
    const std::string& index = b_.index_type();
    const std::string n = b_.text(length_);
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
    if (unrolled_) return each(turns_, fmt::format("({0})(c * {1} + t) * {2}", index, team_, width_), exact_, inside);
    const std::vector<Scalar> loads = batched(roots);
    if (loads.empty()) {
      b_.put(b_.nest.levels > 0 ? "#pragma unroll 4" : "");
      b_.block(fmt::format("for ({0} q = ({0})t * {1}; q < {2}; q += {3})", index, width_, n, team_ * width_),
               [&] { run(inside); });
      return;
    }
    // Several runs are under way before the first is used.
    const std::string begin = b_.fresh("q"), at = fmt::format("{} + ({})(c * {})", begin, index, team_ * width_);
    b_.block(fmt::format("for ({0} {1} = ({0})t * {2}; {1} < {3}; {1} += {4})", index, begin, width_, n,
                         kBatch * team_ * width_),
             [&] {
               std::vector<std::string> packs;
               for (Scalar l : loads)
                 b_.line("{} {}[{}];", b_.pack_type(b_.graph.buffer(l->buffer).layout.dtype),
                         packs.emplace_back(b_.fresh("b")), kBatch);
               each(kBatch, at, false, [&] {
                 for (std::size_t k = 0; k < loads.size(); ++k) {
                   const std::string value = b_.pack_load(loads[k]);
                   b_.line("{}[c] = {};", packs[k], value);
                 }
               });
               for (std::size_t k = 0; k < loads.size(); ++k) b_.set_pack(loads[k], packs[k] + "[c]");
               each(kBatch, at, false, inside);
               for (Scalar l : loads) b_.drop_pack(l);
             });
  }

  /// Loads of a level's runs that can stand before all of what the level computes, as many as registers hold.
  std::vector<Scalar> batched(const std::vector<Scalar>& roots) {
    std::vector<Scalar> loads;
    int bytes = 0;
    for (Scalar n : roots) {
      if (!b_.packable(n) || !moves(n) ||
          std::any_of(n->args.begin(), n->args.end(), [&](Scalar a) { return moves(a); }))
        continue;
      if (std::any_of(b_.nest.statements.begin(), b_.nest.statements.end(),
                      [&](const Statement& s) { return s.stored && s.op->outs[0] == n->buffer; }))
        continue;
      if ((bytes += kBatch * bytes_to_keep(n)) > kBatchBytes) break;
      loads.push_back(n);
    }
    return loads;
  }

  void inner_level() {
    auto statements = inner_statements(level_);
    std::erase_if(statements, [&](const Statement* s) {
      return std::any_of(pairs_.begin(), pairs_.end(), [&](const OnlinePair& p) { return p.second == s; });
    });
    if (statements.empty()) return;
    loop_over(statements);
    finish_reductions(statements);
    for (const OnlinePair& p : pairs_)
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
    for (const OnlinePair& p : pairs_)
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
    const auto roots = b_.roots(statements);
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
                    reduction_identity(ir::ReductionKind::Max, s->body->dtype));
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
  }

  /// What earlier levels converted of many narrow elements is converted again, since it would take twice the registers.
  void renew() {
    for (const Kept& k : kept_) {
      if (!k.pack || k.level >= level_ || turns_ * width_ < kManyElements ||
          size_of(b_.graph.buffer(k.value->buffer).layout.dtype) >= 4)
        continue;
      b_.put("#pragma unroll");
      b_.line("for (int c = 0; c < {}; ++c) c_renew({}[c]);", turns_, k.name);
    }
  }

  void preload(const std::vector<Scalar>& roots) {
    std::vector<const Kept*> packs;
    for (const Kept& k : kept_)
      if (k.pack && k.level == level_ && std::find(roots.begin(), roots.end(), k.value) != roots.end())
        packs.push_back(&k);
    if (packs.empty()) return;
    turns(roots, [&] {
      for (const Kept* k : packs) b_.line("{}[c] = {};", k->name, b_.pack_load(k->value));
    });
    for (const Kept* k : packs) b_.set_pack(k->value, k->name + "[c]");
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
        b_.head(fmt::format("__shared__ {} h{}[{}];", a->type, a->name, warps));
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

  Body& b_;
  const GpuModel& gpu_;
  std::vector<LoopDim> outer_, inner_;
  Expr length_;
  Exprs inner_vars_;
  int width_ = 1, team_ = 1, rows_ = 1, turns_ = 1, level_ = 0;
  int cluster_ = 1;  // blocks that share a row
  bool begun_ = false, unrolled_ = false, exact_ = false, ends_short_ = false;
  std::string guard_;
  std::vector<Accumulator> accumulators_;
  std::vector<Kept> kept_;
  std::vector<OnlinePair> pairs_;
  bool plain_ = false;
};

}  // namespace

Kernel cuda_rows(Body& b, const GpuModel& gpu) { return Rows(b, gpu).print(); }

}  // namespace coil::codegen
