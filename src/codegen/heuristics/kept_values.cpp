#include "codegen/heuristics/kept_values.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

using ir::Scalar;
using ir::ScalarOp;

constexpr int kCheap = 6;          // operations that are made again rather than kept
constexpr int kManyElements = 64;  // of one thread, from which on narrow ones are converted again at each level
constexpr int kManyThreads = 512;  // of a block: more leave each fewer registers

/// Operations of a value down to loads, counting those that take many instructions for more.
int cost_of(Scalar n) {
  int c = 0;
  for (Scalar x : ir::topological(std::span(&n, 1)))
    if (!x->args.empty() && x->op != ScalarOp::LinearLoad)
      c += x->op == ScalarOp::Div || x->op == ScalarOp::Pow || x->op >= ScalarOp::Exp ? 8 : 1;
  return c;
}

class Keeper {
 public:
  Keeper(ir::Graph& graph, const LoopNest& nest, const LaunchConfig& config, std::span<const OnlinePair> pairs)
      : graph_(graph),
        nest_(nest),
        config_(config),
        pairs_(pairs),
        along_(variables_of(nest.inner)),
        lanes_(nest.inner.empty() ? Lanes{0, 1} : Lanes{nest.inner.back().var, config.vector}),
        nodes_(static_cast<std::size_t>(nest.levels)) {
    for (int l = 0; l < nest_.levels; ++l)
      for (Scalar n : roots_of(inner_statements(l))) {
        if (!moves(n)) continue;
        nodes_[static_cast<std::size_t>(l)].push_back(n);
        first_.emplace(n, l);
      }
  }

  /// `values`: what is cheap to make from loads is kept itself where it takes no more registers than they do.
  KeptValues keep(bool values) {
    values_ = values;
    wanted_.clear();
    order_.clear();
    for (int l = 1; l < nest_.levels; ++l) want_of_level(l);
    const std::size_t needed = order_.size();
    // All loads of the first level are under way before the first is used, though only what is made of them stays.
    if (config_.unroll > 1)
      for (Scalar n : nodes_[0])
        if (n->op == ScalarOp::LinearLoad && packable(n) && wanted_.insert(n).second) order_.push_back(n);
    return within_registers(needed);
  }

 private:
  std::vector<const Statement*> inner_statements(int level) const {
    std::vector<const Statement*> out;
    for (const Statement& s : nest_.statements)
      if (s.level == level && s.role != scheduler::Role::Outer && !is_made_before(s)) out.push_back(&s);
    return out;
  }

  bool is_made_before(const Statement& s) const {
    return std::ranges::any_of(pairs_, [&](const OnlinePair& p) { return p.second == &s; });
  }

  bool moves(Scalar n) const { return n->op != ScalarOp::Constant && depends_on(n, along_); }
  bool varies(Scalar n) { return varies_in_run(graph_.env(), n, lanes_, varies_); }
  bool packable(Scalar n) {
    return loads_as_one(graph_.env(), n, lanes_, [&](Scalar x) { return varies(x); });
  }
  int bytes_of(Scalar n) { return register_bytes(graph_, n, packable(n), config_.vector); }

  /// What a level needs of values that earlier levels have made already.
  void want_of_level(int level) {
    std::set<Scalar> old;
    const std::vector<Scalar>& here = nodes_[static_cast<std::size_t>(level)];
    for (Scalar n : here)
      if (first_.at(n) < level) old.insert(n);
    for (Scalar n : here) {
      if (old.contains(n)) continue;
      for (Scalar a : n->args)
        if (old.contains(a)) want(a);
      if (n->mask && old.contains(n->mask)) want(n->mask);
    }
    for (const Statement* s : inner_statements(level))
      if (old.contains(s->body)) want(s->body);
  }

  /// The value itself, or what it is made of.
  void want(Scalar n) {
    if (wanted_.contains(n)) return;
    const bool made = n->op != ScalarOp::LinearLoad && n->op != ScalarOp::Index;
    if (made && cost_of(n) <= kCheap && !(values_ && bytes_of_loads(n) >= bytes_of(n))) {
      for (Scalar a : n->args)
        if (moves(a)) want(a);
      if (!n->args.empty()) return;
    }
    if (n->op == ScalarOp::Index) return;
    wanted_.insert(n);
    order_.push_back(n);
  }

  /// In registers, of the loads that a value is made of, but for what is kept already.
  int bytes_of_loads(Scalar root) {
    std::set<Scalar> seen;
    int bytes = 0;
    std::function<void(Scalar)> walk = [&](Scalar n) {
      if (wanted_.contains(n) || !moves(n) || !seen.insert(n).second) return;
      if (n->op == ScalarOp::LinearLoad) bytes += bytes_of(n);
      for (Scalar a : n->args) walk(a);
    };
    walk(root);
    return bytes;
  }

  /// The first `needed` of what is wanted are kept, all or none; of what only passes, as much as has room by itself.
  KeptValues within_registers(std::size_t needed) {
    const int budget = config_.threads > kManyThreads ? kKeptBytesOfMany : kKeptBytes;
    int kept = 0, passing = 0;
    KeptValues out{.fits = true};
    for (std::size_t k = 0; k < order_.size(); ++k) {
      const int size = config_.unroll * bytes_of(order_[k]);
      int& sum = k < needed ? kept : passing;
      if (sum + size > budget) {
        out.fits = out.fits && k >= needed;
        continue;
      }
      sum += size;
      out.bytes += size;
      out.values.push_back(kept_value(order_[k]));
    }
    if (!out.fits && nest_.levels > 1) return {};
    out.fits = true;
    return out;
  }

  KeptValue kept_value(Scalar n) {
    KeptValue out{.value = n, .pack = packable(n), .level = first_.at(n)};
    out.converts_again = out.pack && config_.unroll * config_.vector >= kManyElements &&
                         size_of(graph_.buffer(n->buffer).layout.dtype) < 4;
    return out;
  }

  ir::Graph& graph_;
  const LoopNest& nest_;
  const LaunchConfig& config_;
  std::span<const OnlinePair> pairs_;
  Exprs along_;
  Lanes lanes_;
  std::unordered_map<Scalar, bool> varies_;
  std::vector<std::vector<Scalar>> nodes_;  ///< by level, what moves along a row
  std::map<Scalar, int> first_;             ///< the level of a node's first use
  bool values_ = false;
  std::set<Scalar> wanted_;
  std::vector<Scalar> order_;
};

}  // namespace

int register_bytes(const ir::Graph& graph, Scalar n, bool pack, int vector) {
  const std::size_t number = std::max<std::size_t>(4, size_of(n->dtype));
  return vector * static_cast<int>(pack ? size_of(graph.buffer(n->buffer).layout.dtype) : number);
}

KeptValues values_to_keep(ir::Graph& graph, const LoopNest& nest, const LaunchConfig& config,
                          std::span<const OnlinePair> pairs) {
  Keeper keeper(graph, nest, config, pairs);
  KeptValues out = keeper.keep(true);
  return out.fits ? out : keeper.keep(false);
}

}  // namespace coil::codegen
