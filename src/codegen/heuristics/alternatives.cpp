#include "codegen/heuristics/alternatives.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "codegen/heuristics/kernel_plan.h"
#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

constexpr double kLoop = 2;           // what a loop over a row is worth, in powers of two: the row is read once more
constexpr double kCompile = 1.5;      // what a range must save, summed over its buckets
constexpr int kMostAlternatives = 4;  // to the usual kernel
constexpr std::int64_t kFirst = 16;   // where the first bucket ends; each further one is four times as long
constexpr std::int64_t kStep = 4;
constexpr std::int64_t kLast = std::int64_t{1} << 24;     // behind it is one bucket more
constexpr std::int64_t kLargest = std::int64_t{1} << 31;  // value of a symbol that is asked about

double apart(double a, double b) { return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0))); }

/// The cheapest way to share out the buckets so far, with so many ranges.
struct Shared {
  double cost = std::numeric_limits<double>::infinity();
  std::size_t begin = 0;  ///< of the last range
  bool usual = true;      ///< the last bucket is left to the usual config
};

/// What the sweep over one symbol asks of a nest.
class Sweep {
 public:
  Sweep(ir::Graph& graph, const LoopNest& nest, const target::Target& target, Expr size, Expr symbol, bool along_rows)
      : graph_(graph), nest_(nest), target_(target), size_(size), symbol_(symbol), along_rows_(along_rows) {}

  /// Nothing where the nest takes another form at some of the sizes.
  std::optional<std::vector<SizeBucket>> buckets(std::size_t form) {
    const sym::Range range = graph_.env().range(symbol_);
    const std::int64_t low = std::max<std::int64_t>(1, range.low), high = std::min(range.high, kLargest);
    std::vector<SizeBucket> out;
    for (std::int64_t last = kFirst; low <= high; last *= kStep) {
      const bool ends = last > kLast || size_at(high) <= last;
      const std::int64_t value = ends ? std::min(high, largest(low, high, last)) : largest(low, high, last);
      if (value < low) continue;
      values_.push_back(value);
      last_.push_back(ends ? sym::Range::kMax : last);
      const AssumedSize assumed(graph_.env(), symbol_, value);
      const KernelPlan plan = plan_kernel(graph_, nest_, target_, request(out.size()));
      if (plan.index() != form) return std::nullopt;
      out.push_back({last_.back(), choice_of(plan).config, weight()});
      if (ends) break;
    }
    return out;
  }

  SizedKernel kernel(const SizeRange& range) const {
    Expr when = 1;
    if (range.first > 0) when = sym::le(range.first, size_);
    if (range.last != sym::Range::kMax) when = sym::logical_and(when, sym::le(size_, range.last));
    return {graph_.env().simplify(when), symbol_, values_[range.bucket], request(range.bucket)};
  }

 private:
  std::int64_t size_at(std::int64_t value) const {
    const AssumedSize assumed(graph_.env(), symbol_, value);
    return graph_.env().hint_or(size_, sym::Range::kMax);
  }

  /// The largest value of the symbol at which the size is no more than `limit`; less than `low` where none is.
  std::int64_t largest(std::int64_t low, std::int64_t high, std::int64_t limit) const {
    std::int64_t fits = low - 1, over = high + 1;
    while (over - fits > 1) {
      const std::int64_t middle = fits + (over - fits) / 2;
      (size_at(middle) <= limit ? fits : over) = middle;
    }
    return fits;
  }

  LaunchRequest request(std::size_t bucket) const {
    LaunchRequest out;
    const std::int64_t last = std::min(last_[bucket], graph_.env().bounds(size_).high);
    if (along_rows_ && last <= kLast) out.longest_row = last;
    // Blocks share a row where rows are few, which nobody knows of a free number of them.
    if (!graph_.env().simplify(product_of(nest_.outer)).is_constant()) out.cluster = 1;
    return out;
  }

  /// A kernel of few points takes as long as its launch, whatever its config.
  double weight() const {
    const double points = static_cast<double>(graph_.env().hint_or(product_of(nest_.outer), 1 << 16)) *
                          static_cast<double>(graph_.env().hint_or(product_of(nest_.inner), 1 << 12));
    return points < static_cast<double>(target_.costs.threads()) / 8 ? 0 : 1;
  }

  ir::Graph& graph_;
  const LoopNest& nest_;
  const target::Target& target_;
  Expr size_, symbol_;
  bool along_rows_;
  std::vector<std::int64_t> values_, last_;  ///< of each bucket: the symbol's value, and the size where it ends
};

/// A free size of the expression that has a hint.
std::optional<Expr> swept_symbol(const sym::ShapeEnv& env, Expr size) {
  for (Expr s : sym::free_symbols(size)) {
    const sym::Range range = env.range(s);
    if (s.symbol_kind() == sym::SymbolKind::Size && env.hint(s) && range.low < range.high) return s;
  }
  return std::nullopt;
}

}  // namespace

double distance(const LaunchConfig& a, const LaunchConfig& b) {
  double out = a.looped == b.looped ? 0 : kLoop;
  out += apart(a.vector, b.vector) + apart(a.team, b.team) + apart(a.cluster, b.cluster);
  out += apart(a.threads, b.threads) + apart(a.unroll, b.unroll) / 2;
  // What holds a row without a loop goes through all that it could hold, however short the row is.
  const auto held = [](const LaunchConfig& c) { return static_cast<double>(c.threads) * c.unroll * c.vector; };
  if (!a.looped && !b.looped) out += apart(held(a), held(b));
  return a == b ? 0 : out;
}

std::vector<SizeRange> ranges_worth_a_kernel(std::span<const SizeBucket> buckets, const LaunchConfig& usual, int most) {
  const std::size_t count = buckets.size();
  // best[k][i]: the first i buckets in k ranges.
  std::vector<std::vector<Shared>> best(static_cast<std::size_t>(most) + 1, std::vector<Shared>(count + 1));
  for (auto& row : best) row[0].cost = 0;
  for (std::size_t k = 0; k < best.size(); ++k)
    for (std::size_t i = 1; i <= count; ++i) {
      const LaunchConfig& own = buckets[i - 1].config;
      best[k][i] = {best[k][i - 1].cost + buckets[i - 1].weight * distance(own, usual), i - 1, true};
      double cost = kCompile;
      for (std::size_t begin = i; k > 0 && begin-- > 0;) {
        cost += buckets[begin].weight * distance(buckets[begin].config, own);
        const double all = best[k - 1][begin].cost + cost;
        const bool longer = !best[k][i].usual && all == best[k][i].cost;
        if (longer || all < best[k][i].cost) best[k][i] = {all, begin, false};
      }
    }
  std::vector<SizeRange> out;
  std::size_t k = best.size() - 1, i = count;
  while (i > 0) {
    const Shared& last = best[k][i];
    if (!last.usual) {
      out.push_back({last.begin == 0 ? 0 : buckets[last.begin - 1].last + 1, buckets[i - 1].last, i - 1});
      --k;
    }
    i = last.begin;
  }
  std::ranges::reverse(out);
  return out;
}

AssumedSize::AssumedSize(sym::ShapeEnv& env, Expr symbol, std::int64_t value)
    : env_(env), symbol_(symbol), before_(env.hint(symbol).value()) {
  env_.add_size(symbol_.name(), value);
}

AssumedSize::~AssumedSize() { env_.add_size(symbol_.name(), before_); }

std::vector<SizedKernel> sized_kernels(ir::Graph& graph, const LoopNest& nest, const target::Target& target,
                                       const LaunchRequest& usual) {
  const Expr length = graph.env().simplify(product_of(nest.inner)),
             points = graph.env().simplify(product_of(nest.outer));
  const bool along_rows = !length.is_constant();
  const Expr size = along_rows ? length : points;
  const std::optional<Expr> symbol = swept_symbol(graph.env(), size);
  if (!symbol) return {};
  const KernelPlan plan = plan_kernel(graph, nest, target, usual);
  if (!std::holds_alternative<PointPlan>(plan) && !std::holds_alternative<RowPlan>(plan) &&
      !std::holds_alternative<ColumnPlan>(plan))
    return {};
  Sweep sweep(graph, nest, target, size, *symbol, along_rows);
  const auto buckets = sweep.buckets(plan.index());
  if (!buckets) return {};
  std::vector<SizedKernel> out;
  for (const SizeRange& range : ranges_worth_a_kernel(*buckets, choice_of(plan).config, kMostAlternatives))
    out.push_back(sweep.kernel(range));
  return out;
}

}  // namespace coil::codegen
