#include "codegen/heuristics/windows.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using scheduler::Role;

constexpr int kMostNear = 8, kMostFar = 2;  // results of a thread along the near and the far dimension
constexpr int kMostResults = 64;            // of a thread: each is a register
constexpr int kMostText = 1600;             // additions that a kernel's text writes out for one vector
constexpr std::int64_t kMostTaps = 128;     // of a window
// The greatest share of all loads that no other result has as well: with more, nothing is won.
constexpr double kMostApart = 0.8, kMostApartOfWeights = kMostApart / 2;
constexpr int kWindowThreads = 128;  // of a block
// For a gradient of weights: sums of a thread in all, additions that its text writes out, places of a window along a
// dimension, and points along the sum that it takes at once.
constexpr int kMostSums = 100, kMostSumsText = 400, kMostPlaces = 16, kMostPoints = 8;

/// A block's threads: as many side by side as there are vectors, within a tenth.
void set_block(LaunchConfig& c, std::int64_t side_by_side, bool shares_sums) {
  const std::int64_t vectors = std::max<std::int64_t>(1, side_by_side / c.vector);
  int across = 32;
  for (; across > 8; across /= 2)
    if (10 * ((vectors + across - 1) / across * across) <= 11 * vectors) break;
  c.threads = kWindowThreads;
  (shares_sums ? c.team : c.rows) = kWindowThreads / across;
}

/// Tiles of results, made smaller until they fit a thread and fill the machine.
class WindowConfigs {
 public:
  WindowConfigs(const WindowFacts& facts, const target::Costs& costs) : f_(facts), filling_(costs.threads() / 8) {}

  std::vector<LaunchConfig> all() {
    const int near = run(f_.near, f_.near_known, kMostNear), far = run(f_.far, f_.far_known, kMostFar);
    const int half = run(f_.near, f_.near_known, kMostNear / 2);
    add(near, far, std::min(f_.vector, 4));
    add(near, far, std::min(f_.vector, 2));
    add(near, 1, std::min(f_.vector, 4));
    add(half, far, std::min(f_.vector, 8));
    add(half, far, std::min(f_.vector, 4));
    add(near, 1, std::min(f_.vector, 2));
    add(near, 1, f_.vector);
    return std::move(out_);
  }

 private:
  int run(std::int64_t size, bool known, int most) const {
    if (known) return window_run(size, f_.near_taps, most);
    return static_cast<int>(std::min<std::int64_t>(size, most));  // `size` is the least that it can be
  }

  bool fits(const LaunchConfig& c) const {
    return c.near * c.far * c.vector <= kMostResults && c.near * c.far * f_.taps <= kMostText;
  }

  bool fills(const LaunchConfig& c) const { return f_.results / (c.near * c.far * c.vector) >= filling_; }

  void add(int near, int far, int vector) {
    LaunchConfig c{.vector = vector, .near = near, .far = far};
    while (c.far > 1 && !fits(c)) c.far = 1;
    while (c.vector > 1 && !fits(c)) c.vector /= 2;
    while (c.near > 1 && !fits(c)) c.near = run(f_.near, f_.near_known, c.near - 1);
    // Few results: threads that fill the machine are worth more than what they would share.
    while (c.far > 1 && !fills(c)) c.far = 1;
    while (c.near > 1 && !fills(c)) c.near = run(f_.near, f_.near_known, c.near / 2);
    while (c.vector > 2 && !fills(c)) c.vector /= 2;
    set_block(c, f_.side_by_side, false);
    add_candidate(out_, c);
  }

  const WindowFacts& f_;
  std::int64_t filling_;
  std::vector<LaunchConfig> out_;
};

/// Decides what a nest is unrolled by.
class WindowPlanner {
 public:
  WindowPlanner(ir::Graph& graph, const LoopNest& nest, const target::Costs& costs, const LaunchRequest& request)
      : graph_(graph), nest_(nest), costs_(costs), request_(request) {}

  std::optional<WindowPlan> plan() {
    if (!is_candidate()) return std::nullopt;
    vector_ = widest_vector(graph_, nest_, last());
    return taps() ? of_results() : of_weights();
  }

 private:
  sym::ShapeEnv& env() const { return graph_.env(); }
  const LoopDim& last() const { return nest_.outer.back(); }
  std::int64_t side_by_side() const { return env().hint_or(last().size, 1024); }

  bool is_candidate() const {
    if (nest_.levels != 1 || nest_.outer.size() < 2 || nest_.inner.empty() || nest_.vector != LoopNest::Vector::Outer)
      return false;
    auto is_empty = [](const auto& loop) { return loop.size.is_constant(0); };
    if (std::ranges::any_of(nest_.outer, is_empty) || std::ranges::any_of(nest_.inner, is_empty)) return false;
    const auto suits = [](const Statement& s) {
      if (s.role != Role::Reduce && s.role != Role::Outer) return false;
      if (!s.position.is_constant() || !s.indirect.empty() || ir::may_fail(s.body)) return false;
      auto* r = std::get_if<ir::Reduction>(&s.op->node);
      return !r || (r->kind != ir::ReductionKind::ArgMax && r->kind != ir::ReductionKind::ArgMin);
    };
    return std::ranges::all_of(nest_.statements, suits) &&
           std::ranges::any_of(nest_.statements, [](const Statement& s) { return s.role == Role::Reduce; });
  }

  /// Elements of a window; nothing where they are many, or how many is not known.
  std::optional<std::int64_t> taps() const {
    std::int64_t n = 1;
    for (const LoopDim& d : nest_.inner) {
      const auto size = d.size.constant();
      if (!size || *size > kMostTaps) return std::nullopt;
      n *= *size;
    }
    return n <= kMostTaps ? std::optional(n) : std::nullopt;
  }

  std::vector<Unrolled> whole_windows() const {
    std::vector<Unrolled> out;
    for (std::size_t d = 0; d < nest_.inner.size(); ++d)
      out.push_back({d, static_cast<int>(*nest_.inner[d].size.constant()), true});
    return out;
  }

  /// How much neighbours along a dimension share of what moves with it: 0 to 1.
  double overlap(std::size_t dim) const {
    const Expr var = nest_.outer[dim].var;
    if (env().bounds(nest_.outer[dim].size).low < 2) return 0;
    std::unordered_set<Scalar> first;
    std::size_t moving = 0, shared = 0;
    const Unrolling two(graph_, nest_, std::vector<Unrolled>{{dim, 2, false}}, whole_windows());
    const std::size_t half = two.nest().statements.size() / 2;
    for (std::size_t k = 0; k < two.nest().statements.size(); ++k) {
      const Statement& s = two.nest().statements[k];
      if (s.role != Role::Reduce) continue;
      for (Scalar l : ir::loads(s.body)) {
        if (!moves(l, var)) continue;
        if (k < half) {
          first.insert(l);
        } else {
          ++moving;
          shared += first.contains(l);
        }
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

  /// The outer dimensions in which windows overlap, the nearest first; not the last.
  std::vector<std::size_t> overlapping() const {
    std::vector<std::size_t> out;
    for (std::size_t d = nest_.outer.size() - 1; d-- > 0;)
      if (overlap(d) > 0) out.push_back(d);
    return out;
  }

  WindowFacts facts_of(const std::vector<std::size_t>& overlapping) const {
    WindowFacts facts{.results = env().hint_or(product_of(nest_.outer), 1 << 22),
                      .side_by_side = side_by_side(),
                      .taps = *taps(),
                      .near_taps = *nest_.inner.back().size.constant(),
                      .vector = vector_};
    auto size_of_dim = [&](std::size_t d, std::int64_t& size, bool& known) {
      const auto constant = nest_.outer[d].size.constant();
      known = constant.has_value();
      size = constant ? *constant : std::max<std::int64_t>(1, env().bounds(nest_.outer[d].size).low);
    };
    if (!overlapping.empty()) size_of_dim(overlapping[0], facts.near, facts.near_known);
    if (overlapping.size() > 1) size_of_dim(overlapping[1], facts.far, facts.far_known);
    return facts;
  }

  WindowPlan plan_of(LaunchChoice choice, std::vector<Unrolled> outer, std::vector<Unrolled> inner,
                     const Unrolling& unrolling) const {
    const LaunchConfig& c = choice.config;
    const std::int64_t sum_bytes = static_cast<std::int64_t>(c.threads) * c.vector * 8;
    return {
        .choice = std::move(choice),
        .nest = unrolling.nest(),
        .steps = unrolling.steps(),
        .sizes = nest_.outer,
        .outer = std::move(outer),
        .inner = std::move(inner),
        .sums_at_once = static_cast<std::size_t>(std::max<std::int64_t>(1, costs_.declared_shared_bytes / sum_bytes))};
  }

  /// Windows of constant size: neighbouring results, each window as a whole.
  std::optional<WindowPlan> of_results() const {
    const std::vector<std::size_t> dims = overlapping();
    if (dims.empty() && (vector_ > 1 || overlap(nest_.outer.size() - 1) == 0)) return std::nullopt;
    LaunchChoice choice = choose(window_configs(facts_of(dims), costs_), request_);
    const LaunchConfig& c = choice.config;
    std::vector<Unrolled> outer, inner = whole_windows();
    if (dims.size() > 1) outer.push_back(unrolled(dims[1], c.far));
    if (!dims.empty()) outer.push_back(unrolled(dims[0], c.near));
    const Unrolling unrolling(graph_, nest_, outer, inner);
    if (c.near * c.far > 1 && unrolling.share_of_loads() > kMostApart) return std::nullopt;
    return plan_of(std::move(choice), std::move(outer), std::move(inner), unrolling);
  }

  /// Places of windows that a thread has sums for: as many whole dimensions as registers hold.
  std::vector<Unrolled> places_of_weights(int& steps) const {
    std::vector<Unrolled> out;
    for (std::size_t d = 0; d + 1 < nest_.outer.size(); ++d) {
      const auto size = nest_.outer[d].size.constant();
      if (!size || *size > kMostPlaces || *size < 2 || steps * *size > kMostSums / 2 || !shares_some(d)) continue;
      out.push_back({d, static_cast<int>(*size), true});
      steps *= static_cast<int>(*size);
    }
    return out;
  }

  /// Results that are places of a window, each a sum over all places where the window stood: all of a window, and a run
  /// of the sum.
  std::optional<WindowPlan> of_weights() const {
    if (vector_ < 2 || nest_.statements.size() > 1) return std::nullopt;
    int steps = 1;
    std::vector<Unrolled> outer = places_of_weights(steps);
    const auto along = nest_.inner.back().size.constant();
    if (steps < 2 || !along) return std::nullopt;
    int run = 1;
    for (int r = 2; r <= kMostPoints; ++r)
      if (*along % r == 0 && steps * r <= kMostSumsText) run = r;
    LaunchConfig c{.vector = vector_};
    while (c.vector > 2 && steps * c.vector > kMostSums) c.vector /= 2;
    std::vector<Unrolled> inner{{nest_.inner.size() - 1, run, true}};
    const Unrolling unrolling(graph_, nest_, outer, inner);
    if (unrolling.share_of_loads() > kMostApartOfWeights) return std::nullopt;
    set_block(c, side_by_side(), !unrolling.nest().inner.empty());
    return plan_of({.config = c, .candidates = {c}}, std::move(outer), std::move(inner), unrolling);
  }

  ir::Graph& graph_;
  const LoopNest& nest_;
  const target::Costs& costs_;
  const LaunchRequest& request_;
  int vector_ = 1;
};

}  // namespace

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

std::vector<LaunchConfig> window_configs(const WindowFacts& facts, const target::Costs& costs) {
  return WindowConfigs(facts, costs).all();
}

std::optional<WindowPlan> plan_windows(ir::Graph& graph, const LoopNest& nest, const target::Costs& costs,
                                       const LaunchRequest& request) {
  return WindowPlanner(graph, nest, costs, request).plan();
}

}  // namespace coil::codegen
