#include "codegen/loop_nest.h"

#include "support/error.h"

namespace coil::codegen {

using ir::Scalar;
using ir::ScalarOp;
using scheduler::Role;

std::vector<sym::LoopVar> LoopNest::vars() const {
  std::vector<sym::LoopVar> out;
  for (const LoopDim& d : outer) out.push_back({d.var, d.size});
  for (const LoopDim& d : inner) out.push_back({d.var, d.size});
  return out;
}

namespace {

constexpr std::size_t kWorthKeeping = 10;     // scalar operations of a vector that another dimension has no part in
constexpr std::int64_t kRunForWhatStays = 8;  // points of that dimension
constexpr std::int64_t kFullPiece = 32;       // contiguous elements from which more gain nothing
constexpr double kStoreWeight = 1.5;          // of a contiguous store against a contiguous load

/// Every index expression of a nest, loads, stores and index values alike.
std::vector<Expr> all_indices(const LoopNest& nest) {
  std::vector<Expr> out;
  std::unordered_set<Expr> seen;
  auto take = [&](Expr e) {
    if (!e.is_constant() && seen.insert(e).second) out.push_back(e);
  };
  for (const Statement& s : nest.statements) {
    std::vector<Scalar> roots = s.indirect;
    roots.push_back(s.body);
    for (Scalar n : ir::topological(roots))
      for (Expr e : n->index) take(e);
    take(s.store);
    take(s.position);
  }
  return out;
}

class Builder {
 public:
  Builder(ir::Graph& graph, LoopNest& nest) : graph_(graph), nest_(nest) {}

  /// Loads by the layouts' strides, index expressions simplified under the loops' extents.
  Scalar linear(Scalar body) {
    const auto vars = nest_.vars();
    return graph_.pool().replace_loads(body, [&](Scalar l) -> Scalar {
      const ir::Layout& layout = graph_.buffer(l->buffer).layout;
      Expr index = l->op == ScalarOp::Load ? ir::linear_index(layout, l->index) : l->index[0];
      index = graph_.env().simplify(index, vars);
      return graph_.pool().linear_load(l->buffer, layout.dtype, index, l->args, l->mask);
    });
  }

  /// Orders dimensions by how far apart their neighbours lie in memory, farthest outermost, so that the last is the
  /// contiguous one.
  void order(std::vector<LoopDim>& dims) {
    std::vector<std::pair<double, std::size_t>> keys;
    for (std::size_t k = 0; k < dims.size(); ++k) keys.push_back({distance(dims[k].var), k});
    std::stable_sort(keys.begin(), keys.end(), [](auto& a, auto& b) { return a.first > b.first; });
    std::vector<LoopDim> sorted;
    for (auto& [key, k] : keys) sorted.push_back(dims[k]);
    dims = std::move(sorted);
    end_in_contiguous(dims);
  }

  /// Merges neighbours that every index walks as one.
  void merge(std::vector<LoopDim>& dims) {
    for (std::size_t k = dims.size(); k-- > 1;) {
      if (!mergeable(dims[k - 1], dims[k])) continue;
      const LoopDim a = dims[k - 1], b = dims[k];
      rewrite({a.var, b.var}, {0, b.var});
      dims[k - 1] = {b.var, graph_.env().simplify(a.size * b.size)};
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(k));
    }
  }

  /// Cuts outer dimensions in two where indices ask for their parts, v / k and v % k: batch and channel of what was
  /// flattened lie apart in memory, and neighbours of the last part may lie side by side.
  void cut() {
    std::size_t next = nest_.outer.size();
    for (std::size_t d = 0; d < nest_.outer.size(); ++d) {
      const LoopDim whole = nest_.outer[d];
      const auto size = whole.size.constant();
      const auto part = size ? common_part(whole.var, *size) : std::nullopt;
      if (!part) continue;
      const LoopDim first{graph_.ivar(next++), *size / *part}, last{graph_.ivar(next++), *part};
      nest_.outer[d] = first;
      nest_.outer.insert(nest_.outer.begin() + static_cast<std::ptrdiff_t>(d) + 1, last);
      rewrite({whole.var}, {first.var * *part + last.var});
      simplify();
    }
  }

  void drop_ones(std::vector<LoopDim>& dims) {
    Exprs from;
    std::erase_if(dims, [&](const LoopDim& d) {
      if (d.size.is_constant(1)) from.push_back(d.var);
      return d.size.is_constant(1);
    });
    if (!from.empty()) rewrite(from, Exprs(from.size(), 0));
  }

  void choose_vector(int lanes, bool in_turn) {
    // A scan keeps its dimension even where that has one point, which no index names.
    const double inner = nest_.inner.empty() || in_turn || nest_.inner.back().size.is_constant(1)
                             ? -1e30
                             : fitness(nest_.inner.back(), lanes, true);
    const double outer = nest_.outer.empty() ? -1e30 : fitness(nest_.outer.back(), lanes, false);
    if (inner <= -1e30 && outer <= -1e30)
      nest_.vector = LoopNest::Vector::None;
    else
      nest_.vector = inner >= outer ? LoopNest::Vector::Inner : LoopNest::Vector::Outer;
  }

  void choose_tile() {
    if (nest_.vector != LoopNest::Vector::Outer || !nest_.inner.empty() || nest_.outer.size() < 2) return;
    const Expr vector = nest_.outer.back().var;
    double best = 0;
    for (std::size_t k = 0; k + 1 < nest_.outer.size(); ++k) {
      double gain = 0;
      for_each_access([&](ir::BufferId b, Expr index, bool) {
        if (!sym::contains(index, vector)) return;
        auto along = sym::linear_in(index, nest_.outer[k].var);
        if (along && along->coefficient.is_constant(1)) gain += weight(b);
      });
      if (gain > best) best = gain, nest_.tiled = k;
    }
    if (!nest_.tiled) tile_for_what_stays();
  }

 private:
  /// The k of all v / k and v % k of a variable, when it is the same in all, divides the variable's size, and is worth
  /// a loop of its own.
  std::optional<std::int64_t> common_part(Expr var, std::int64_t size) {
    std::unordered_set<Expr> parts;
    const std::function<void(Expr)> collect = [&](Expr e) {
      const bool divides = e.kind() == sym::Kind::FloorDiv || e.kind() == sym::Kind::Mod;
      if (divides && e.operands()[0] == var) parts.insert(e.operands()[1]);
      std::ranges::for_each(e.operands(), collect);
    };
    std::ranges::for_each(all_indices(nest_), collect);
    const auto part = parts.size() == 1 ? parts.begin()->constant() : std::nullopt;
    if (!part || *part < kFullPiece || *part >= size || size % *part != 0) return std::nullopt;
    return part;
  }

  /// Indices anew, after the loops' variables changed.
  void simplify() {
    const auto vars = nest_.vars();
    const auto simple = [&](Expr e) { return graph_.env().simplify(e, vars); };
    for (Statement& s : nest_.statements) {
      s.body = graph_.pool().map_indices(s.body, simple);
      for (Scalar& x : s.indirect) x = graph_.pool().map_indices(x, simple);
      s.store = simple(s.store);
      s.position = simple(s.position);
    }
  }

  /// Where much of what a vector computes is the same all along another dimension (positions and weights of an
  /// interpolation), runs of that dimension inside the vector loop compute it once.
  void tile_for_what_stays() {
    std::size_t ops = 0, most = 0;
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k + 1 < nest_.outer.size(); ++k) {
      if (graph_.env().hint_or(nest_.outer[k].size, 0) < kRunForWhatStays) continue;
      std::size_t stays = 0;
      ops = 0;
      for (const Statement& s : nest_.statements) {
        std::unordered_map<Scalar, bool> along_vector, along_run;
        for (Scalar n : ir::topological(std::span(&s.body, 1))) {
          along_vector[n] = depends(n, nest_.outer.back().var, along_vector);
          along_run[n] = depends(n, nest_.outer[k].var, along_run);
          const bool computes = n->op != ScalarOp::Constant && n->op != ScalarOp::LinearLoad;
          ops += computes;
          stays += computes && along_vector[n] && !along_run[n];
        }
      }
      if (stays > most) most = stays, best = k;
    }
    if (most >= kWorthKeeping && 3 * most >= ops) nest_.tiled = best;
  }

  /// `known`: the same of what the node is made of.
  static bool depends(Scalar n, Expr var, const std::unordered_map<Scalar, bool>& known) {
    const auto of_var = [&](Expr e) { return sym::contains(e, var); };
    const auto does = [&](Scalar a) { return known.at(a); };
    return std::ranges::any_of(n->index, of_var) || std::ranges::any_of(n->args, does) || (n->mask && does(n->mask));
  }

  /// A dimension that is near in every access may be contiguous in none (the middle one where three are turned
  /// around): the last is then the one along which the most bytes lie side by side, in pieces worth a vector.
  void end_in_contiguous(std::vector<LoopDim>& dims) {
    if (dims.empty() || contiguous_bytes(dims.back()) > 0) return;
    auto best = std::ranges::max_element(dims, {}, [&](const LoopDim& d) { return contiguous_bytes(d); });
    if (contiguous_bytes(*best) > 0) std::rotate(best, best + 1, dims.end());
  }

  /// Bytes of the accesses that are contiguous along a dimension, short ones counted in part, stores more than loads.
  double contiguous_bytes(const LoopDim& dim) {
    double sum = 0;
    const auto add = [&](ir::BufferId b, Expr index, double factor) {
      auto linear = sym::linear_in(index, dim.var);
      if (linear && linear->coefficient.is_constant(1)) sum += factor * weight(b);
    };
    for (const Statement& s : nest_.statements) {
      for (Scalar n : ir::topological(std::span(&s.body, 1)))
        if (n->op == ScalarOp::LinearLoad) add(n->buffer, n->index[0], 1);
      if (s.stored) add(s.op->outs[0], s.store, kStoreWeight);
    }
    const std::int64_t size = graph_.env().hint_or(dim.size, kFullPiece);
    return sum * static_cast<double>(std::min(size, kFullPiece));
  }

  double weight(ir::BufferId b) {
    return static_cast<double>(graph_.env().hint_or(sym::product(graph_.buffer(b).layout.sizes), 1 << 12)) *
           static_cast<double>(size_of(graph_.buffer(b).layout.dtype));
  }

  template <class F>
  void for_each_access(F f) {
    for (const Statement& s : nest_.statements) {
      for (Scalar n : ir::topological(std::span(&s.body, 1)))
        if (n->op == ScalarOp::LinearLoad) f(n->buffer, n->index[0], n->args.empty());
      if (s.stored) f(s.op->outs[0], s.store, true);
    }
  }

  /// Elements between neighbours along a variable, weighted over the accesses that move with it; big accesses decide.
  double distance(Expr var) {
    double sum = 0, total = 0;
    for_each_access([&](ir::BufferId b, Expr index, bool) {
      if (!sym::contains(index, var)) return;
      auto linear = sym::linear_in(index, var);
      const double step =
          linear ? std::abs(static_cast<double>(graph_.env().hint_or(linear->coefficient, 1 << 20))) : 2;
      sum += weight(b) * step;
      total += weight(b);
    });
    return total > 0 ? sum / total : 1e18;
  }

  bool mergeable(const LoopDim& a, const LoopDim& b) {
    for (Expr e : all_indices(nest_)) {
      const bool has_a = sym::contains(e, a.var), has_b = sym::contains(e, b.var);
      if (!has_a && !has_b) continue;
      auto la = sym::linear_in(e, a.var), lb = sym::linear_in(e, b.var);
      if (!la || !lb || !(la->coefficient == lb->coefficient * b.size)) return false;
    }
    return true;
  }

  void rewrite(const Exprs& from, const Exprs& to) {
    auto same = [](Expr e) { return e; };
    for (Statement& s : nest_.statements) {
      s.body = graph_.pool().substitute(s.body, from, to, same);
      for (Scalar& x : s.indirect) x = graph_.pool().substitute(x, from, to, same);
      s.store = sym::substitute(s.store, from, to);
      s.position = sym::substitute(s.position, from, to);
    }
  }

  /// How well vectors along a dimension suit the accesses: contiguous ones count for, strided and indirect ones
  /// against, weighted by bytes.
  double fitness(const LoopDim& dim, int lanes, bool across) {
    double sum = 0, total = 0;
    for_each_access([&](ir::BufferId b, Expr index, bool direct) {
      const double w = weight(b);
      total += w;
      if (!sym::contains(index, dim.var)) {
        sum += direct ? 0.25 * w : -0.5 * w;
        return;
      }
      auto linear = sym::linear_in(index, dim.var);
      // Two or four apart is a shuffle of whole loads.
      const bool near = linear && (linear->coefficient.is_constant(2) || linear->coefficient.is_constant(4));
      sum += linear && linear->coefficient.is_constant(1) ? w : near ? -0.1 * w : -w;
    });
    const double size = static_cast<double>(graph_.env().hint_or(dim.size, 64));
    double filled = std::min(1.0, size / lanes);
    if (across) filled *= size / (size + lanes);  // the lanes are combined in the end
    const double score = total > 0 ? sum / total : 0;
    return score > 0 ? score * filled : score / std::max(filled, 0.05);
  }

  ir::Graph& graph_;
  LoopNest& nest_;
};

}  // namespace

LoopNest make_loop_nest(ir::Graph& graph, const scheduler::Group& group, int lanes, bool scans_along) {
  LoopNest nest;
  for (std::size_t d = 0; d < group.outer.size(); ++d) nest.outer.push_back({graph.ivar(d), group.outer[d]});
  for (std::size_t d = 0; d < group.inner.size(); ++d) nest.inner.push_back({graph.rvar(d), group.inner[d]});
  Builder builder(graph, nest);
  bool scans = false, in_turn = false;
  for (const scheduler::Member& m : group.members) {
    const ir::Operation& op = graph.operations()[m.op];
    Statement s{.op = &op, .role = m.role, .level = m.level};
    s.body = builder.linear(scheduler::body_in_group(graph, group, m));
    s.store = graph.env().simplify(
        ir::linear_index(graph.buffer(op.outs[0]).layout, scheduler::store_in_group(graph, group, m)), nest.vars());
    s.stored = !group.internal.contains(op.outs[0]);
    Expr position = 0;
    for (std::size_t d = 0; d < m.rvars.size(); ++d) position = position * op.reduced()[d] + m.rvars[d];
    if (auto* r = std::get_if<ir::Reduction>(&op.node);
        r && (r->kind == ir::ReductionKind::ArgMax || r->kind == ir::ReductionKind::ArgMin))
      s.position = position;
    if (auto* scan = std::get_if<ir::Scan>(&op.node))
      scans = true, in_turn = in_turn || (!scans_along &&
                                          (scan->kind == ir::ScanKind::LogSumExp || scan->body->dtype == DType::Bool));
    nest.levels = std::max(nest.levels, m.level + 1);
    nest.statements.push_back(std::move(s));
  }
  builder.cut();
  builder.drop_ones(nest.outer);
  if (!scans) builder.drop_ones(nest.inner);
  builder.order(nest.outer);
  builder.order(nest.inner);
  builder.merge(nest.outer);
  builder.merge(nest.inner);
  builder.choose_vector(lanes, in_turn);
  builder.choose_tile();
  return nest;
}

namespace {

constexpr std::int64_t kEnoughPoints = 8;        // parallel points that keep threads busy
constexpr std::int64_t kSmallScatter = 1 << 14;  // iterations that are not worth a second thread
// Elements that an index moves for which threads that each read every index gain on one that reads them once.
constexpr std::int64_t kSharedScatterRow = 8;

/// Loops of a scatter by what they may do.
struct ScatterLoops {
  std::vector<bool> apart;            ///< iterations that differ here write to different places
  std::optional<std::size_t> vector;  ///< neighbours write to neighbouring places
  // Hints of numbers of points:
  std::int64_t points = 1;  ///< of the loops apart, but for the vector
  std::int64_t row = 1;     ///< of those and the vector
  std::int64_t work = 1;    ///< of all
};

ScatterLoops look_at(ir::Graph& graph, const ir::Scatter& scatter, const ir::Layout& layout, int lanes) {
  auto& env = graph.env();
  ScatterLoops loops{std::vector<bool>(scatter.sizes.size()), {}};
  auto used_by_data = [&](Expr var) {
    for (Scalar n : ir::topological(scatter.indirect))
      for (Expr e : n->index)
        if (sym::contains(e, var)) return true;
    return false;
  };
  for (std::size_t k = 0; k < scatter.sizes.size(); ++k)
    for (std::size_t d = 0; d < scatter.index.size(); ++d) {
      if (!(scatter.index[d] == graph.ivar(k))) continue;
      loops.apart[k] = true;
      if (layout.strides[d].is_constant(1) && layout.dtype != DType::Bool &&
          env.hint_or(scatter.sizes[k], lanes) >= lanes / 2 && !used_by_data(graph.ivar(k)))
        loops.vector = k;
    }
  for (std::size_t k = 0; k < scatter.sizes.size(); ++k) {
    const std::int64_t size = env.hint_or(scatter.sizes[k], 64);
    loops.work *= size;
    if (loops.apart[k]) loops.row *= size;
    if (loops.apart[k] && loops.vector != k) loops.points *= size;
  }
  return loops;
}

/// The elements of the vector loop that one point takes so that there are points enough, where its size divides so.
std::optional<std::int64_t> choose_block(Expr size, std::int64_t points, int lanes) {
  const auto n = size.constant();
  if (!n) return std::nullopt;
  for (std::int64_t block = 16 * lanes; block >= lanes; block -= lanes)
    if (*n % block == 0 && points * (*n / block) >= kEnoughPoints) return block;
  return std::nullopt;
}

LoopNest with_statement(ir::Graph& graph, const ir::Operation& op, const ir::Scatter& scatter, LoopNest nest) {
  Builder builder(graph, nest);
  Statement s{.op = &op, .role = Role::Inner};
  s.body = builder.linear(scatter.body);
  for (Scalar x : scatter.indirect) s.indirect.push_back(builder.linear(x));
  s.store = graph.env().simplify(ir::linear_index(graph.buffer(op.outs[0]).layout, scatter.index), nest.vars());
  nest.statements.push_back(std::move(s));
  return nest;
}

/// Moves the last parallel loop inside the others where it walks what they stride over.
void share_out(LoopNest& nest) {
  const std::size_t at = nest.inner.size() - (nest.vector == LoopNest::Vector::Inner ? 1 : 0);
  if (nest.partition || nest.outer.empty() || at == 0) return;
  const LoopDim d = nest.outer.back();
  const Expr step = at < nest.inner.size() ? nest.inner.back().size : Expr(1);
  std::vector<Scalar> roots = nest.statements.front().indirect;
  roots.push_back(nest.statements.front().body);
  bool walks = false;
  for (Scalar n : ir::topological(roots)) {
    if (n->op != ir::ScalarOp::LinearLoad || !sym::contains(n->index[0], d.var)) continue;
    const auto linear = sym::linear_in(n->index[0], d.var);
    walks |= linear && linear->coefficient == step;
  }
  if (!walks) return;
  nest.outer.pop_back();
  nest.inner.insert(nest.inner.begin() + static_cast<std::ptrdiff_t>(at), d);
  nest.shared = at;
}

}  // namespace

LoopNest make_scatter_nest(ir::Graph& graph, const ir::Operation& op) {
  const auto& scatter = std::get<ir::Scatter>(op.node);
  LoopNest nest;
  for (std::size_t d = 0; d < scatter.sizes.size(); ++d) nest.inner.push_back({graph.ivar(d), scatter.sizes[d]});
  return with_statement(graph, op, scatter, std::move(nest));
}

LoopNest make_threaded_scatter_nest(ir::Graph& graph, const ir::Operation& op, int lanes) {
  ir::Scatter scatter = std::get<ir::Scatter>(op.node);
  const ir::Layout& layout = graph.buffer(op.outs[0]).layout;
  ScatterLoops loops = look_at(graph, scatter, layout, lanes);
  LoopNest nest;
  std::optional<std::int64_t> block;
  if (loops.vector && loops.points < kEnoughPoints)
    block = choose_block(scatter.sizes[*loops.vector], loops.points, lanes);
  if (!block && loops.points < kEnoughPoints && loops.row >= kSharedScatterRow && loops.work >= kSmallScatter)
    for (std::size_t d = 0; d < scatter.index.size(); ++d)
      for (std::size_t j = 0; j < scatter.indirect.size(); ++j)
        if (scatter.index[d] == graph.pool().indirect(j) &&
            (!nest.partition ||
             graph.env().hint_or(layout.sizes[d], 0) > graph.env().hint_or(nest.partition->places, 0)))
          nest.partition = {j, layout.sizes[d]};
  for (std::size_t k = 0; k < scatter.sizes.size(); ++k) {
    if (loops.vector == k) continue;
    const bool outer = loops.apart[k] && !nest.partition;
    (outer ? nest.outer : nest.inner).push_back({graph.ivar(k), scatter.sizes[k]});
  }
  if (loops.vector) {
    const Expr whole = graph.ivar(*loops.vector), within = graph.rvar(0), size = scatter.sizes[*loops.vector];
    nest.vector = LoopNest::Vector::Inner;
    nest.inner.push_back({block ? within : whole, block ? Expr(*block) : size});
    if (block) {
      nest.outer.push_back({whole, graph.env().simplify(sym::floor_div(size, *block))});
      const Expr place = whole * *block + within;
      auto same = [](Expr e) { return e; };
      scatter.body = graph.pool().substitute(scatter.body, {&whole, 1}, {&place, 1}, same);
      for (Expr& e : scatter.index) e = sym::substitute(e, std::span(&whole, 1), std::vector<Expr>{place});
    }
  }
  nest = with_statement(graph, op, scatter, std::move(nest));
  share_out(nest);
  return nest;
}

}  // namespace coil::codegen
