#include "codegen/cuda/windows.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "codegen/cuda/forms.h"

namespace coil::codegen {

int window_run(std::int64_t size, std::int64_t taps, int most) {
  // An element that two threads load costs about half of what a result costs.
  auto cost = [&](std::int64_t run) {
    const double computed = static_cast<double>((size + run - 1) / run * run) / static_cast<double>(size);
    return computed * (1 + static_cast<double>(taps - 1) / static_cast<double>(2 * run));
  };
  std::int64_t best = 1;
  for (std::int64_t run = 2; run <= std::min<std::int64_t>(most, size); ++run)
    if (cost(run) < cost(best)) best = run;
  return static_cast<int>(best);
}

std::vector<WindowTile> window_tiles(const WindowFacts& f, const GpuModel& gpu) {
  constexpr int kMostNear = 8, kMostFar = 2, kMostResults = 64, kMostText = 1600;
  auto run = [&](std::int64_t size, bool known, int most) {
    if (known) return window_run(size, f.near_taps, most);
    return static_cast<int>(std::min<std::int64_t>(size, most));  // `size` is the least that it can be
  };
  auto fits = [&](const WindowTile& t) {
    return t.near * t.far * t.pack <= kMostResults && t.near * t.far * f.taps <= kMostText;
  };
  std::vector<WindowTile> tiles;
  auto add = [&](WindowTile t) {
    while (t.far > 1 && !fits(t)) t.far = 1;
    while (t.pack > 1 && !fits(t)) t.pack /= 2;
    while (t.near > 1 && !fits(t)) t.near = run(f.near, f.near_known, t.near - 1);
    // Few results: threads that fill the machine are worth more than what they would share.
    auto threads = [&] { return f.results / (t.near * t.far * t.pack); };
    while (t.far > 1 && threads() < gpu.threads() / 8) t.far = 1;
    while (t.near > 1 && threads() < gpu.threads() / 8) t.near = run(f.near, f.near_known, t.near / 2);
    while (t.pack > 2 && threads() < gpu.threads() / 8) t.pack /= 2;
    if (std::find(tiles.begin(), tiles.end(), t) == tiles.end()) tiles.push_back(t);
  };
  const int near = run(f.near, f.near_known, kMostNear), far = run(f.far, f.far_known, kMostFar);
  const int half = run(f.near, f.near_known, kMostNear / 2);
  add({near, far, std::min(f.pack, 4)});
  add({near, far, std::min(f.pack, 2)});
  add({near, 1, std::min(f.pack, 4)});
  add({half, far, std::min(f.pack, 8)});
  add({half, far, std::min(f.pack, 4)});
  add({near, 1, std::min(f.pack, 2)});
  add({near, 1, f.pack});
  return tiles;
}

namespace {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

constexpr std::int64_t kMostTaps = 128;  // of a window
constexpr double kMostApart = 0.8;       // of all loads, those that no other result shares: more, and nothing is won
constexpr int kThreads = 128;

/// A loop of which a thread carries out several turns: `var` becomes `var * run + k`, or `var + k` where the last run
/// begins early so as to end with the dimension.
struct Unrolled {
  std::size_t dim = 0;  ///< of the nest's outer or inner dimensions
  int run = 1;
  bool whole = true;  ///< runs divide the dimension
};

/// The nest in the order in which a thread goes through it: `steps` results, and for each what it adds up.
class Unrolling {
 public:
  Unrolling(ir::Graph& graph, const LoopNest& nest, std::vector<Unrolled> outer, std::vector<Unrolled> inner)
      : graph_(graph), outer_(std::move(outer)), inner_(std::move(inner)) {
    nest_.vector = nest.vector;
    nest_.levels = nest.levels;
    nest_.outer = rolled(nest.outer, outer_);
    nest_.inner = rolled(nest.inner, inner_);
    std::erase_if(nest_.inner, [](const LoopDim& d) { return d.size.is_constant(1); });
    const auto loops = nest_.vars();
    const auto simplify = [&](Expr e) { return graph_.env().simplify(e, loops); };
    for (const Exprs& step : turns(nest.outer, outer_)) {
      for (const Statement& s : nest.statements) {
        for (const Exprs& point : s.role == Role::Reduce ? turns(nest.inner, inner_) : std::vector<Exprs>{{}}) {
          Exprs from, to = step;
          for (const Unrolled& u : outer_) from.push_back(nest.outer[u.dim].var);
          if (!point.empty())
            for (const Unrolled& u : inner_) from.push_back(nest.inner[u.dim].var);
          to.insert(to.end(), point.begin(), point.end());
          Statement copy = s;
          copy.body = graph_.pool().substitute(s.body, from, to, simplify);
          copy.store = simplify(sym::substitute(s.store, from, to));
          nest_.statements.push_back(std::move(copy));
        }
      }
      ++steps_;
    }
  }

  const LoopNest& nest() const { return nest_; }
  std::size_t steps() const { return steps_; }

  /// Loads that a thread makes, of all that its results need.
  double share_of_loads() const {
    std::size_t all = 0;
    std::unordered_set<Scalar> distinct;
    for (const Statement& s : nest_.statements) {
      if (s.role != Role::Reduce) continue;
      for (Scalar l : ir::loads(s.body)) ++all, distinct.insert(l);
    }
    return all == 0 ? 1 : static_cast<double>(distinct.size()) / static_cast<double>(all);
  }

 private:
  static std::vector<LoopDim> rolled(std::vector<LoopDim> dims, const std::vector<Unrolled>& unrolled) {
    for (const Unrolled& u : unrolled) {
      Expr& size = dims[u.dim].size;
      size = u.whole ? sym::floor_div(size, u.run) : size - (u.run - 1);
    }
    return dims;
  }

  /// What the variables of unrolled loops become, for each turn; the last moves fastest.
  static std::vector<Exprs> turns(const std::vector<LoopDim>& dims, const std::vector<Unrolled>& unrolled) {
    std::vector<Exprs> all{{}};
    for (const Unrolled& u : unrolled) {
      std::vector<Exprs> longer;
      for (const Exprs& begin : all)
        for (int k = 0; k < u.run; ++k) {
          const Expr var = dims[u.dim].var;
          longer.push_back(begin);
          longer.back().push_back(dims[u.dim].size.is_constant(u.run) ? Expr(k) : u.whole ? var * u.run + k : var + k);
        }
      all = std::move(longer);
    }
    return all;
  }

  ir::Graph& graph_;
  std::vector<Unrolled> outer_, inner_;
  LoopNest nest_;
  std::size_t steps_ = 0;
};

/// Decides what a nest is unrolled by.
class Planner {
 public:
  Planner(ir::Graph& graph, const LoopNest& nest, const GpuModel& gpu) : graph_(graph), nest_(nest), gpu_(gpu) {}

  struct Plan {
    std::vector<Unrolled> outer, inner;
    int pack = 1, shapes = 1;
    std::size_t far = 0;  ///< of `outer`: the loop whose neighbours share a block
  };

  std::optional<Plan> plan() {
    if (!is_candidate()) return std::nullopt;
    pack_ = widest_pack();
    return small_windows() ? of_results() : of_weights();
  }

 private:
  sym::ShapeEnv& env() const { return graph_.env(); }

  bool is_candidate() const {
    if (nest_.levels != 1 || nest_.outer.size() < 2 || nest_.inner.empty() || nest_.vector != LoopNest::Vector::Outer)
      return false;
    auto is_empty = [](const auto& loop) { return loop.size.is_constant(0); };
    if (std::ranges::any_of(nest_.outer, is_empty) || std::ranges::any_of(nest_.inner, is_empty)) return false;
    bool reduces = false;
    for (const Statement& s : nest_.statements) {
      if (s.role == Role::Reduce)
        reduces = true;
      else if (s.role != Role::Outer)
        return false;
      if (!s.position.is_constant() || !s.indirect.empty() || ir::may_fail(s.body)) return false;
      if (auto* r = std::get_if<ir::Reduction>(&s.op->node);
          r && (r->kind == ir::ReductionKind::ArgMax || r->kind == ir::ReductionKind::ArgMin))
        return false;
    }
    return reduces;
  }

  std::optional<std::int64_t> taps() const {
    std::int64_t n = 1;
    for (const LoopDim& d : nest_.inner) {
      const auto size = d.size.constant();
      if (!size || *size > kMostTaps) return std::nullopt;
      n *= *size;
    }
    return n;
  }
  bool small_windows() const {
    const auto n = taps();
    return n && *n <= kMostTaps;
  }

  /// The widest runs of results along the last dimension for which what moves with it lies side by side.
  int widest_pack() {
    Body body(graph_, nest_);
    return run_width(body, nest_.outer.back());
  }

  /// How much neighbours along a dimension share of what moves with it: 0 to 1.
  double overlap(std::size_t dim) const {
    const Expr var = nest_.outer[dim].var;
    const auto size = env().bounds(nest_.outer[dim].size).low;
    if (size < 2) return 0;
    std::vector<Unrolled> inner;
    for (std::size_t d = 0; d < nest_.inner.size(); ++d)
      inner.push_back({d, static_cast<int>(*nest_.inner[d].size.constant()), true});
    std::unordered_set<Scalar> first;
    std::size_t moving = 0, shared = 0;
    const Unrolling two(graph_, nest_, {{dim, 2, false}}, inner);
    const std::size_t half = two.nest().statements.size() / 2;
    for (std::size_t k = 0; k < two.nest().statements.size(); ++k) {
      const Statement& s = two.nest().statements[k];
      if (s.role != Role::Reduce) continue;
      for (Scalar l : ir::loads(s.body)) {
        if (!moves(l, var)) continue;
        if (k < half)
          first.insert(l);
        else
          ++moving, shared += first.contains(l);
      }
    }
    return moving == 0 ? 0 : static_cast<double>(shared) / static_cast<double>(moving);
  }

  static bool moves(Scalar load, Expr var) {
    return std::ranges::any_of(load->index, [&](Expr e) { return sym::contains(e, var); });
  }

  /// Whether a part of what is read is the same for all places along a dimension.
  bool shares_some(std::size_t dim) const {
    const std::vector<Scalar> all = ir::loads(nest_.statements[0].body);
    return std::ranges::any_of(all, [&](Scalar l) { return moves(l, nest_.outer[dim].var); }) &&
           std::ranges::any_of(all, [&](Scalar l) { return !moves(l, nest_.outer[dim].var); });
  }

  Unrolled unrolled(std::size_t dim, int run) const {
    return {dim, run, env().statically_known_multiple_of(nest_.outer[dim].size, run)};
  }

  /// Windows of constant size: neighbouring results, each window as a whole.
  std::optional<Plan> of_results() {
    std::vector<std::size_t> overlapping;
    for (std::size_t d = nest_.outer.size() - 1; d-- > 0;)
      if (overlap(d) > 0) overlapping.push_back(d);
    if (overlapping.empty() && (pack_ > 1 || overlap(nest_.outer.size() - 1) == 0)) return std::nullopt;
    Plan plan;
    WindowFacts facts{.results = env().hint_or(product_of(nest_.outer), 1 << 22), .taps = *taps(), .pack = pack_};
    auto size_of_dim = [&](std::size_t d, std::int64_t& size, bool& known) {
      const auto constant = nest_.outer[d].size.constant();
      known = constant.has_value();
      size = constant ? *constant : std::max<std::int64_t>(1, env().bounds(nest_.outer[d].size).low);
    };
    if (!overlapping.empty()) size_of_dim(overlapping[0], facts.near, facts.near_known);
    if (overlapping.size() > 1) size_of_dim(overlapping[1], facts.far, facts.far_known);
    for (const LoopDim& d : nest_.inner) {
      plan.inner.push_back({static_cast<std::size_t>(&d - nest_.inner.data()), static_cast<int>(*d.size.constant())});
      facts.near_taps = *d.size.constant();
    }
    const std::vector<WindowTile> tiles = window_tiles(facts, gpu_);
    plan.shapes = static_cast<int>(tiles.size());
    const WindowTile tile = tiles[static_cast<std::size_t>(std::min(gpu_.shape, plan.shapes - 1))];
    plan.pack = tile.pack;
    if (overlapping.size() > 1) plan.outer.push_back(unrolled(overlapping[1], tile.far));
    if (!overlapping.empty()) plan.outer.push_back(unrolled(overlapping[0], tile.near));
    if (tile.near * tile.far > 1 && Unrolling(graph_, nest_, plan.outer, plan.inner).share_of_loads() > kMostApart)
      return std::nullopt;
    return plan;
  }

  /// Results that are places of a window, each a sum over all places where the window stood: all of a window, and a run
  /// of the sum.
  std::optional<Plan> of_weights() {
    constexpr int kMostSums = 100, kMostText = 400;
    if (pack_ < 2 || nest_.statements.size() > 1) return std::nullopt;
    Plan plan;
    int steps = 1;
    for (std::size_t d = 0; d + 1 < nest_.outer.size(); ++d) {
      const auto size = nest_.outer[d].size.constant();
      if (!size || *size > 16 || *size < 2 || steps * *size > kMostSums / 2 || !shares_some(d)) continue;
      plan.outer.push_back({d, static_cast<int>(*size), true});
      steps *= static_cast<int>(*size);
    }
    if (steps < 2) return std::nullopt;
    plan.pack = pack_;
    while (plan.pack > 2 && steps * plan.pack > kMostSums) plan.pack /= 2;
    const std::size_t last = nest_.inner.size() - 1;
    const auto along = nest_.inner[last].size.constant();
    if (!along) return std::nullopt;
    int run = 1;
    for (int r = 2; r <= 8; ++r)
      if (*along % r == 0 && steps * r <= kMostText) run = r;
    plan.inner.push_back({last, run, true});
    if (Unrolling(graph_, nest_, plan.outer, plan.inner).share_of_loads() > kMostApart / 2) return std::nullopt;
    return plan;
  }

  ir::Graph& graph_;
  const LoopNest& nest_;
  const GpuModel& gpu_;
  int pack_ = 1;
};

class Windows {
 public:
  Windows(ir::Graph& graph, const LoopNest& nest, const Planner::Plan& plan)
      : unrolling_(graph, nest, plan.outer, plan.inner),
        b_(graph, unrolling_.nest()),
        plan_(plan),
        sizes_(nest.outer),
        steps_(unrolling_.steps()) {
    b_.outer_in_place = false;
    b_.shapes = plan.shapes;
    b_.lanes = {b_.nest.outer.back().var, plan.pack};
  }

  Kernel print() {
    choose_block();
    point();
    const std::size_t each = b_.nest.statements.size() / steps_;
    for (std::size_t step = 0; step < steps_; ++step)
      for (std::size_t k = 0; k < each; ++k)
        if (const Statement& s = b_.nest.statements[step * each + k]; s.role == Role::Reduce) add_point(step, s);
    std::stable_sort(sums_.begin(), sums_.end(), [](const Sums& a, const Sums& b) { return a.buffer < b.buffer; });
    for (const Sums& s : sums_) {
      b_.line("{} {}[{}];", s.accumulator.type, s.accumulator.name, plan_.pack);
      b_.put("#pragma unroll");
      b_.line("for (int j = 0; j < {}; ++j) {}[j] = {};", plan_.pack, s.accumulator.name, s.accumulator.identity);
    }
    add_up();
    if (down_ > 1) combine();
    for (std::size_t step = 0; step < steps_; ++step) finish_step(step, each);
    return b_.finish({.grid = {b_.env().simplify(blocks_), 1, 1}, .block = across_ * beside_ * down_});
  }

 private:
  /// A sum that the thread holds: of one result, by one statement.
  struct Sums {
    std::size_t step = 0;
    ir::BufferId buffer = 0;
    Accumulator accumulator;
    std::vector<const Statement*> points;
  };

  void add_point(std::size_t step, const Statement& s) {
    const ir::BufferId buffer = s.op->outs[0];
    auto found =
        std::find_if(sums_.begin(), sums_.end(), [&](const Sums& x) { return x.step == step && x.buffer == buffer; });
    if (found == sums_.end()) found = sums_.insert(sums_.end(), {step, buffer, accumulator(b_, s, sums_.size()), {}});
    found->points.push_back(&s);
  }

  /// Threads side by side take packs that lie side by side; those behind them, of one block, places further along the
  /// far dimension, or parts of a long sum.
  void choose_block() {
    const LoopDim v = b_.nest.outer.back();
    const std::int64_t packs = std::max<std::int64_t>(1, b_.env().hint_or(v.size, 1024) / plan_.pack);
    for (across_ = 32; across_ > 8; across_ /= 2)
      if (10 * ((packs + across_ - 1) / across_ * across_) <= 11 * packs) break;
    (b_.nest.inner.empty() ? beside_ : down_) = kThreads / across_;
  }

  bool is_stepped(std::size_t dim) const {
    return std::any_of(plan_.outer.begin(), plan_.outer.end(), [&](const Unrolled& u) { return u.dim == dim; });
  }

  /// How many runs a loop has.
  Expr runs(std::size_t dim) const {
    for (const Unrolled& u : plan_.outer)
      if (u.dim == dim) return sym::ceil_div(sizes_[dim].size, u.run);
    return sizes_[dim].size;
  }

  void point() {
    const std::string& index = b_.index_type();
    const std::string wide = index == "i32" ? "u32" : "u64";
    const std::size_t last = b_.nest.outer.size() - 1;
    // Places of runs, the far dimension's fastest, so that the threads of a block share rows.
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < last; ++d)
      if (!is_stepped(d)) order.push_back(d);
    for (std::size_t k = plan_.outer.size(); k-- > 0;) order.push_back(plan_.outer[k].dim);
    std::vector<LoopDim> places;
    for (std::size_t d : order) places.push_back({b_.nest.outer[d].var, b_.env().simplify(runs(d))});
    std::erase_if(places, [](const LoopDim& d) { return d.size.is_constant(1); });
    const Expr count = b_.env().simplify(product_of(places));
    const Expr columns = b_.env().simplify(sym::ceil_div(sizes_[last].size, across_ * plan_.pack));
    b_.line("const int lx = threadIdx.x % {0}, ly = threadIdx.x / {0};", across_);
    const std::string along(b_.nest.outer[last].var.name()), end = b_.text(sizes_[last].size);
    b_.line("{0} {1} = ({0})(blockIdx.x % ({2}){3}) * {4} + lx * {5};", index, along, wide, b_.text(columns),
            across_ * plan_.pack, plan_.pack);
    if (down_ > 1) {
      b_.line("const bool live = {} < {};", along, end);
      b_.line("if (!live) {} = 0;", along);
    } else {
      b_.line("if ({} >= {}) return;", along, end);
    }
    b_.line("{0} w = ({0})blockIdx.x / ({0}){1}{2};", wide, b_.text(columns),
            beside_ > 1 ? fmt::format(" * {} + ly", beside_) : "");
    if (beside_ > 1) b_.line("if (w >= ({}){}) return;", wide, b_.text(count));
    for (std::size_t k = places.size(); k-- > 0;) {
      const std::string name(places[k].var.name());
      const std::string at = k > 0 ? fmt::format("w % ({}){}", wide, b_.text(places[k].size)) : "w";
      b_.line("{0} {1} = ({0})({2});{3}", index, name, at,
              k > 0 ? fmt::format(" w /= ({}){};", wide, b_.text(places[k].size)) : "");
      begin_early(name, places[k].var);
    }
    for (std::size_t d : order)
      if (std::none_of(places.begin(), places.end(), [&](const LoopDim& p) { return p.var == b_.nest.outer[d].var; }))
        b_.line("const {} {} = 0;", index, b_.nest.outer[d].var.name());
    blocks_ = columns * sym::ceil_div(count, beside_);
  }

  /// The last run of a dimension that runs do not divide ends with it.
  void begin_early(const std::string& name, Expr var) {
    for (const Unrolled& u : plan_.outer) {
      if (!(b_.nest.outer[u.dim].var == var) || u.whole) continue;
      b_.line("{0} = {0} * {1} < {2} ? {0} * {1} : {2};", name, u.run,
              b_.text(b_.env().simplify(sizes_[u.dim].size - u.run)));
    }
  }

  /// What is added to a sum at a point of its window.
  struct Term {
    const Sums* sum;
    const Statement* statement;
  };

  /// Terms in the order in which what they load lies: those that read one row come together.
  std::vector<std::vector<Term>> rows() const {
    const std::size_t points = sums_[0].points.size(), near = plan_.outer.empty() ? 1 : run_of(plan_.outer.back()),
                      of_row = plan_.inner.empty() ? 1 : run_of(plan_.inner.back());
    std::vector<Expr> places;
    std::vector<std::vector<Term>> rows;
    for (std::size_t row = 0; row < points; row += of_row)
      for (std::size_t first = 0; first < sums_.size(); first += near) {
        std::vector<Term> terms;
        for (std::size_t k = first; k < first + near; ++k)
          for (std::size_t p = row; p < row + of_row; ++p)
            if (!adds_nothing(*sums_[k].points[p])) terms.push_back({&sums_[k], sums_[k].points[p]});
        if (terms.empty()) continue;
        const Expr place = place_of(terms[0].statement->body);
        const auto at = std::find(places.begin(), places.end(), place) - places.begin();
        if (static_cast<std::size_t>(at) == places.size()) places.push_back(place), rows.emplace_back();
        auto& there = rows[static_cast<std::size_t>(at)];
        there.insert(there.end(), terms.begin(), terms.end());
      }
    return rows;
  }

  static std::size_t run_of(const Unrolled& u) { return static_cast<std::size_t>(u.run); }

  /// Products with what lies outside of an operand for certain.
  static bool adds_nothing(const Statement& s) {
    if (std::get<ir::Reduction>(s.op->node).kind != ir::ReductionKind::Sum) return false;
    auto is_zero = [](Scalar x) { return x->op == ScalarOp::Constant && x->number == 0 && x->integer == 0; };
    return is_zero(s.body) || (s.body->op == ScalarOp::Mul && std::ranges::any_of(s.body->args, is_zero));
  }

  const Sums& sum_of(std::size_t step, ir::BufferId buffer) const {
    return *std::find_if(sums_.begin(), sums_.end(),
                         [&](const Sums& s) { return s.step == step && s.buffer == buffer; });
  }

  /// Where the largest operand of a point is read.
  Expr place_of(Scalar body) const {
    Expr at = 0;
    std::int64_t most = -1;
    for (Scalar l : ir::loads(body)) {
      const std::int64_t size = b_.graph.env().hint_or(sym::product(b_.graph.buffer(l->buffer).layout.sizes), 0);
      if (size > most) most = size, at = l->index[0];
    }
    return at;
  }

  void add_up() {
    auto all = [&] {
      for (const auto& row : rows()) {
        std::vector<Scalar> bodies;
        for (const Term& t : row) bodies.push_back(t.statement->body);
        b_.elements(ir::topological(bodies), {}, [&] {
          for (const Term& t : row) {
            Accumulator a = t.sum->accumulator;
            a.statement = t.statement;
            accumulate(b_, a, b_.lane());
          }
        });
      }
    };
    if (b_.nest.inner.empty()) return b_.block("", all);
    const std::string& index = b_.index_type();
    b_.block(fmt::format("for ({0} q = ({0})ly; q < {1}; q += {2})", index,
                         b_.text(b_.env().simplify(product_of(b_.nest.inner))), down_),
             [&] {
               decode(b_, b_.nest.inner, "q");
               all();
             });
  }

  /// The threads that share sums put their parts together, some sums at a time.
  void combine() {
    constexpr std::size_t kSharedBytes = 40000;
    const std::size_t each = static_cast<std::size_t>(down_ * across_ * plan_.pack) * sizeof(double);
    const std::size_t at_once = std::max<std::size_t>(1, std::min(sums_.size(), kSharedBytes / each));
    const std::string& type = sums_[0].accumulator.type;
    b_.head(fmt::format("__shared__ {} parts[{}][{}][{}];", type, at_once, down_, across_ * plan_.pack));
    const std::string place = fmt::format("[lx * {} + j]", plan_.pack);
    const std::string lanes = fmt::format("for (int j = 0; j < {}; ++j)", plan_.pack);
    for (std::size_t from = 0; from < sums_.size(); from += at_once) {
      const std::size_t count = std::min(at_once, sums_.size() - from);
      if (from > 0) b_.put("c_sync();");
      for (std::size_t k = 0; k < count; ++k)
        b_.line("{} parts[{}][ly]{} = {}[j];", lanes, k, place, sums_[from + k].accumulator.name);
      b_.put("c_sync();");
      b_.block(fmt::format("for (int i = ly; i < {}; i += {})", count, down_), [&] {
        b_.block(lanes, [&] {
          b_.line("{} sum = parts[i][0]{};", type, place);
          b_.line("for (int y = 1; y < {}; ++y) sum = {}(sum, parts[i][y]{});", down_, sums_[0].accumulator.op, place);
          b_.line("parts[i][0]{} = sum;", place);
        });
      });
      b_.put("c_sync();");
      for (std::size_t k = 0; k < count; ++k)
        b_.line("{} {}[j] = parts[{}][0]{};", lanes, sums_[from + k].accumulator.name, k, place);
    }
    b_.store_guard = "if (live && ly == 0) ";
  }

  void finish_step(std::size_t step, std::size_t each) {
    std::unordered_set<ir::BufferId> finished;
    for (std::size_t k = 0; k < each; ++k) {
      const Statement& s = b_.nest.statements[step * each + k];
      const ir::BufferId out = s.op->outs[0];
      if (s.role == Role::Reduce) {
        if (!finished.insert(out).second) continue;
        const std::string name = sum_of(step, out).accumulator.name;
        b_.set_local(out, name, true);
        if (s.stored) b_.elements({}, std::vector<const Statement*>{&s}, [&] { b_.store(s, name + b_.lane()); });
        continue;
      }
      const std::string local = b_.fresh("l");
      b_.line("{} {}[{}];", cuda_register_type(s.body->dtype), local, plan_.pack);
      b_.block("", [&] {
        const std::vector<const Statement*> stores{&s};
        b_.elements(b_.roots(stores), stores, [&] {
          const std::string value = b_.name(s.body);
          b_.line("{}{} = {};", local, b_.lane(), value);
          if (s.stored) b_.store(s, value);
        });
      });
      b_.set_local(out, local, true);
    }
  }

  Unrolling unrolling_;
  Body b_;
  const Planner::Plan& plan_;
  std::vector<LoopDim> sizes_;  ///< as they were before
  std::size_t steps_;
  int across_ = 32, beside_ = 1, down_ = 1;
  std::vector<Sums> sums_;
  Expr blocks_ = 1;
};

}  // namespace

std::optional<Kernel> cuda_windows(ir::Graph& graph, const LoopNest& nest, const GpuModel& gpu) {
  const auto plan = Planner(graph, nest, gpu).plan();
  if (!plan) return std::nullopt;
  return Windows(graph, nest, *plan).print();
}

}  // namespace coil::codegen
