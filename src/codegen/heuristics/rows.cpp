#include "codegen/heuristics/rows.h"

#include <algorithm>
#include <set>

#include "codegen/heuristics/nest_facts.h"
#include "ir/comm_buffers.h"

namespace coil::codegen {
namespace {

using scheduler::Role;

constexpr int kRowThreads = 128;                    // of a block whose rows belong to warps
constexpr int kMostTurns = 16;                      // vectors of a row that one thread takes without a loop
constexpr int kLoopTurns = 4;                       // vectors that a thread has under way in a loop
constexpr int kLoopBytes = 128;                     // of them, in its registers
constexpr int kLeastShare = 128, kMostShare = 256;  // threads of a block that shares a row with others
constexpr int kResidentThreads = 1024;              // of a multiprocessor with such blocks: 64 registers each
constexpr int kResidentFew = 768;                   // 80 registers each, where much is kept
constexpr std::int64_t kSharedRow = 4096;           // vectors of a row that several blocks share
constexpr std::int64_t kShortRow = 128;             // vectors of a row that a warp takes
constexpr int kOnceTeam = 256;                      // threads of a row that is read once, where there are rows enough
constexpr std::int64_t kRaggedRow = 64;  // elements for which what is left over at both ends of a row is little
constexpr std::int64_t kLongRow = 1024;  // elements for which a vector cut short is worth its checks
// Bytes of a row that is as well read from any other place as from behind the one before.
constexpr std::int64_t kOwnRowBytes = 512;

/// The team's size and the rest that follows from it.
class RowConfigs {
 public:
  RowConfigs(const RowFacts& facts, const target::Costs& costs, int cluster)
      : f_(facts), costs_(costs), cluster_(cluster) {
    if (f_.vector == 1 && !f_.known && f_.length >= kRaggedRow && f_.ragged_vector > 1) {
      vector_ = f_.ragged_vector;
      ragged_ = true;
    } else if (f_.vector == 1 && f_.length >= kLongRow && f_.cut_vector > 1) {
      vector_ = f_.cut_vector;
      cut_ = true;
    } else {
      vector_ = f_.vector;
    }
    runs_ = (f_.length + vector_ - 1) / vector_;
  }

  std::vector<LaunchConfig> all() {
    const int team = usual_team(), warp = costs_.threads_of_warp;
    const bool shares = f_.known && costs_.blocks_of_cluster > 1;
    LaunchConfig usual = config(team, rows_of(team, kRowThreads), 1);
    if (shares && !f_.once && runs_ >= kSharedRow) usual = shared_row(usual);
    out_ = {usual};
    for (int t : {team / 2, team * 2, team / 4, team})
      if (t >= 1 && t <= costs_.threads_of_block && (t <= runs_ || t <= warp)) add(t, rows_of(t, kRowThreads), 1);
    if (team <= warp)
      for (int block : {kRowThreads / 2, kRowThreads * 2}) add(team, rows_of(team, block), 1);
    if (shares && cluster_ == 0 && runs_ >= kSharedRow / 4) add_clusters();
    return std::move(out_);
  }

 private:
  void add(int team, int rows, int cluster) { add_candidate(out_, config(team, rows, cluster)); }

  int rows_of(int team, int block) const { return team > costs_.threads_of_warp ? 1 : std::max(1, block / team); }

  int usual_team() const {
    const std::int64_t wanted = runs_ <= kShortRow ? runs_ : std::max<std::int64_t>(64, (runs_ + 3) / 4);
    const int most = runs_ <= kShortRow   ? costs_.threads_of_warp
                     : runs_ > kSharedRow ? costs_.threads_of_block
                                          : costs_.threads_of_block / 2;
    int team = power_of_two_at_least(wanted, most);
    // Rows that are read once: more rows at a time, each with fewer threads, so that some load while others combine.
    if (f_.once && team > kOnceTeam && f_.rows * kOnceTeam >= costs_.threads()) team = kOnceTeam;
    // Few rows: more threads on each.
    while (team < costs_.threads_of_block && team < runs_ && f_.rows * team < costs_.threads() / 2) team *= 2;
    return team;
  }

  bool fits(int blocks, int share, std::int64_t turns) const {
    return runs_ <= static_cast<std::int64_t>(blocks) * share * turns;
  }

  /// Threads of a cluster that hold a row in registers with so few vectors each that a multiprocessor has room for
  /// several blocks: the fewest of few threads, else of many. One block where the row is too long for that.
  LaunchConfig shared_row(const LaunchConfig& otherwise) const {
    for (int share : {kLeastShare, kMostShare}) {
      int blocks = std::max(1, cluster_);
      while (cluster_ == 0 && blocks < costs_.blocks_of_cluster && !fits(blocks, share, kMostTurns / 2)) blocks *= 2;
      if (blocks > 1 && fits(blocks, share, share == kMostShare ? kMostTurns : kMostTurns / 2))
        return config(blocks * share, 1, blocks);
    }
    return otherwise;
  }

  void add_clusters() {
    for (int blocks = 2; blocks <= costs_.blocks_of_cluster; blocks *= 2)
      for (int share : {kMostShare, kLeastShare, kMostShare * 2})
        if (runs_ >= static_cast<std::int64_t>(blocks) * share && fits(blocks, share, f_.once ? runs_ : kMostTurns))
          add(blocks * share, 1, blocks);
  }

  LaunchConfig config(int team, int rows, int cluster) const {
    LaunchConfig c{.threads = std::max(team * rows / cluster, costs_.threads_of_warp),
                   .vector = vector_,
                   .partial_vectors = cut_,
                   .ragged = ragged_,
                   .unroll = kLoopTurns,
                   .looped = true,
                   .team = team,
                   .rows = rows,
                   .cluster = cluster};
    const std::int64_t at_once = static_cast<std::int64_t>(team) * vector_;
    const std::int64_t turns = (f_.length + at_once - 1) / at_once;
    // What one pass makes of a pair gains nothing from staying in registers.
    const bool stays = !f_.pairs || !f_.once || runs_ <= kSharedRow;
    if (f_.known && turns >= 1 && turns <= kMostTurns && stays) {
      c.unroll = static_cast<int>(turns);
      c.looped = false;
    }
    return c;
  }

  const RowFacts& f_;
  const target::Costs& costs_;
  int cluster_;
  int vector_ = 1;
  bool cut_ = false, ragged_ = false;
  std::int64_t runs_ = 1;
  std::vector<LaunchConfig> out_;
};

/// Whether one pass over a row is enough: all that runs along it are reductions of one level, or pairs of two.
bool read_once(const LoopNest& nest, std::span<const OnlinePair> pairs) {
  int level = -1;
  for (const Statement& s : nest.statements) {
    if (s.role == Role::Outer) continue;
    if (s.role != Role::Reduce) return false;
    if (std::any_of(pairs.begin(), pairs.end(), [&](const OnlinePair& p) { return p.second == &s; })) continue;
    if (level >= 0 && s.level != level) return false;
    level = s.level;
  }
  return true;
}

RowFacts row_facts(ir::Graph& graph, const LoopNest& nest, Expr length, std::span<const OnlinePair> pairs,
                   std::optional<std::int64_t> longest, int ragged_vector) {
  if (length.is_constant()) longest.reset();
  RowFacts f{.length = longest.value_or(graph.env().hint_or(length, 4096)),
             .rows = graph.env().hint_or(product_of(nest.outer), 1 << 16),
             .known = length.is_constant() || longest,
             .ragged_vector = ragged_vector,
             .once = read_once(nest, pairs),
             .pairs = !pairs.empty()};
  if (nest.inner.empty() || nest.vector != LoopNest::Vector::Inner) return f;
  f.vector = widest_vector(graph, nest, nest.inner.back());
  // Counts and means of a vector take all of its elements.
  const bool counts =
      std::any_of(pairs.begin(), pairs.end(), [](const OnlinePair& p) { return p.kind == OnlinePair::Kind::Moments; });
  if (f.vector == 1 && nest.inner.size() == 1 && !counts)
    f.cut_vector = widest_vector(graph, nest, nest.inner.back(), true);
  return f;
}

/// Rows of a free length. What other ranks send comes in vectors that lie as the rows do.
bool may_be_ragged(ir::Graph& graph, const LoopNest& nest, Expr length) {
  if (length.is_constant() || nest.inner.size() != 1 || nest.vector != LoopNest::Vector::Inner) return false;
  return std::ranges::none_of(nest.statements, [&](const Statement& s) {
    return std::ranges::any_of(ir::loads(s.body), [&](ir::Scalar l) { return ir::is_peer_sum(graph, l->buffer); });
  });
}

/// Rows that read the same row of something beside their own come one after another, so that it is read once: the outer
/// dimension that most such loads leave out turns fastest.
std::vector<LoopDim> order_of_rows(ir::Graph& graph, const LoopNest& nest, std::int64_t length) {
  std::vector<LoopDim> outer = nest.outer;
  if (outer.size() < 2 || nest.inner.empty()) return outer;
  const Exprs along = variables_of(nest.inner), rows = variables_of(outer);
  auto is_long = [&](ir::Scalar n) {
    return length * static_cast<std::int64_t>(size_of(graph.buffer(n->buffer).layout.dtype)) >= kOwnRowBytes;
  };
  std::set<ir::Scalar> loads;
  for (const Statement& s : nest.statements)
    if (s.role != Role::Outer)
      for (ir::Scalar n : ir::topological(std::span(&s.body, 1)))
        if (n->op == ir::ScalarOp::LinearLoad && depends_on(n, along) && is_long(n)) loads.insert(n);
  auto shared = [&](const LoopDim& d) {
    return std::ranges::count_if(loads,
                                 [&](ir::Scalar n) { return !depends_on(n, Exprs{d.var}) && depends_on(n, rows); });
  };
  auto best = std::prev(outer.end());
  for (auto d = outer.begin(); d != outer.end(); ++d)
    if (shared(*d) > shared(*best)) best = d;
  std::rotate(best, std::next(best), outer.end());
  return outer;
}

/// A softmax's terms are at most 1, and their quotients too: no digit that counts is lost.
std::vector<ir::Scalar> coarse_terms(std::span<const OnlinePair> pairs) {
  std::vector<ir::Scalar> out;
  for (const OnlinePair& p : pairs)
    if (p.kind == OnlinePair::Kind::Softmax && p.second->body->dtype == DType::F32) out.push_back(p.second->body);
  return out;
}

/// The pairs that one pass makes. What stays in registers is gone through again at no cost but a wait for the row's
/// other threads, which is long only where they are of several blocks.
std::vector<OnlinePair> taken_at_once(std::vector<OnlinePair> pairs, const LaunchConfig& config,
                                      const target::Costs& costs) {
  std::erase_if(pairs, [&](const OnlinePair& p) {
    const bool waits = config.cluster > 1 && p.kind == OnlinePair::Kind::Moments;
    return config.team <= costs.threads_of_warp || (!config.looped && !waits);
  });
  return pairs;
}

}  // namespace

std::vector<LaunchConfig> row_configs(const RowFacts& facts, const target::Costs& costs, int cluster) {
  return RowConfigs(facts, costs, cluster).all();
}

RowPlan plan_rows(ir::Graph& graph, const LoopNest& nest, const target::Costs& costs, const LaunchRequest& request) {
  const Expr length = graph.env().simplify(product_of(nest.inner));
  std::vector<OnlinePair> pairs = online_pairs(graph.env(), nest, length);
  RaggedRows ragged;
  if (may_be_ragged(graph, nest, length)) ragged = ragged_rows(graph, nest);
  RowFacts facts = row_facts(graph, nest, length, pairs, request.longest_row, ragged.vector);
  // A kernel for rows up to some length is for any number of them, where that is free.
  if (request.longest_row && !graph.env().simplify(product_of(nest.outer)).is_constant()) facts.rows = costs.threads();
  RowPlan plan{.choice = choose(row_configs(facts, costs, request.cluster), request),
               .outer = order_of_rows(graph, nest, facts.length),
               .ragged = ragged,
               .coarse = coarse_terms(pairs)};
  LaunchConfig& config = plan.choice.config;
  KeptValues kept;
  if (!config.looped) kept = values_to_keep(graph, nest, config, taken_at_once(pairs, config, costs));
  if (!config.looped && !kept.fits) {
    config.unroll = kLoopTurns;
    config.looped = true;
  }
  if (config.cluster > 1)
    config.min_blocks = std::max(1, (kept.bytes > kKeptBytesOfMany ? kResidentFew : kResidentThreads) / config.threads);
  plan.kept = std::move(kept.values);
  plan.pairs = taken_at_once(std::move(pairs), config, costs);
  return plan;
}

std::size_t loads_under_way(std::span<const int> bytes, int unroll) {
  std::size_t count = 0;
  for (int sum = 0; count < bytes.size(); ++count)
    if ((sum += unroll * bytes[count]) > kLoopBytes) break;
  return count;
}

}  // namespace coil::codegen
