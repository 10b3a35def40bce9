#include "codegen/heuristics/whole_vectors.h"

#include <algorithm>
#include <numeric>

#include "codegen/heuristics/kernel_plan.h"
#include "codegen/heuristics/nest_facts.h"
#include "codegen/heuristics/points.h"

namespace coil::codegen {
namespace {

constexpr double kWorthCompile = 1.2;  // times as much at once as the usual kernel moves

/// What an expression lacks to be a multiple of `width`; a number that is none is no requirement but a refusal, and so
/// is what only data or loops tell.
class Requirements {
 public:
  Requirements(ir::Graph& graph, const LoopNest& nest, int width)
      : env_(graph.env()), vars_(nest.vars()), width_(width), known_(graph.env()) {}

  /// Makes all of them multiples, or none.
  void require(const Exprs& all) {
    if (!std::ranges::all_of(all, [&](Expr e) { return can_be(e); })) return;
    for (Expr e : all) add(e);
  }

  /// The terms of an index that moves along `along` by 1: where a vector begins is a multiple if they are. Nothing for
  /// other indices.
  std::optional<Exprs> terms(Expr index, Expr along) const {
    auto step = sym::linear_in(index, along);
    if (!step || !step->coefficient.is_constant(1)) return std::nullopt;
    Exprs out;
    for (const sym::LoopVar& v : vars_) {
      if (v.var == along) continue;
      const auto l = sym::linear_in(step->rest, v.var);
      if (!l) return std::nullopt;
      out.push_back(l->coefficient);
      step->rest = l->rest;
    }
    out.push_back(step->rest);
    return out;
  }

  const WholeVectors& result() const { return result_; }

 private:
  bool can_be(Expr e) const {
    if (env_.statically_known_multiple_of(e, width_)) return true;
    const std::vector<Expr> symbols = sym::free_symbols(e);
    return !symbols.empty() &&
           std::ranges::all_of(symbols, [](Expr s) { return s.symbol_kind() == sym::SymbolKind::Size; });
  }

  /// Requires that the width divides an expression: of 6*s0, half of it has to divide s0; of 3*s0, all of it.
  void add(Expr e) {
    e = env_.simplify(e);
    if (env_.statically_known_multiple_of(e, width_)) return;
    std::int64_t factor = 1;
    if (e.kind() == sym::Kind::Mul)
      for (Expr x : e.operands()) factor = x.constant().value_or(factor);
    if (const auto part = sym::divide_exact(e, factor)) e = *part;
    const std::int64_t divisor = width_ / std::gcd(factor, static_cast<std::int64_t>(width_));
    known_.assume(e, divisor);
    result_.multiples.emplace_back(e, divisor);
  }

  sym::ShapeEnv& env_;
  std::vector<sym::LoopVar> vars_;
  int width_;
  sym::AssumedMultiples known_;
  WholeVectors result_;
};

/// The dimensions that vectors of a nest lie along.
std::vector<LoopDim> vector_dims(const LoopNest& nest) {
  if (!nest.inner.empty() && nest.vector == LoopNest::Vector::Inner) return {nest.inner.back()};
  if (nest.outer.empty()) return {};
  std::vector<LoopDim> out{nest.outer.back()};
  if (nest.tiled && nest.inner.empty()) out.push_back(nest.outer[*nest.tiled]);
  return out;
}

WholeVectors multiples_for(ir::Graph& graph, const LoopNest& nest, int width) {
  Requirements wanted(graph, nest, width);
  const std::vector<AccessOfNest> accesses = accesses_of(graph, nest);
  for (const LoopDim& d : vector_dims(nest)) {
    if (graph.env().simplify(d.size).is_constant(1)) continue;
    wanted.require({d.size});
    for (const AccessOfNest& a : accesses)
      if (const auto terms = wanted.terms(a.index, d.var)) wanted.require(*terms);
  }
  return wanted.result();
}

/// Elements that an access of the kernel moves at once, on average over the bytes that it moves.
double moved_at_once(ir::Graph& graph, const LoopNest& nest, const KernelPlan& plan) {
  const LaunchConfig& config = choice_of(plan).config;
  const auto mean = [&](const MovedBytes& m) {
    const double all = static_cast<double>(m.packed + m.loose);
    return all == 0 ? 1 : (static_cast<double>(m.packed) * config.vector + static_cast<double>(m.loose)) / all;
  };
  if (const auto* tiles = std::get_if<TilePlan>(&plan)) return (config.vector + tiles->across_vector) / 2.0;
  if (config.flat) return mean(moved_flat(graph, nest));
  if (const auto* rows = std::get_if<RowPlan>(&plan); rows && config.ragged) return mean(rows->ragged.moved);
  const std::vector<LoopDim> dims = vector_dims(nest);
  if (dims.empty()) return 1;
  return mean(moved_bytes(graph.env(), accesses_of(graph, nest), {dims[0].var, config.vector}));
}

}  // namespace

Expr WholeVectors::when(const sym::ShapeEnv& env) const {
  Expr all = 1;
  for (const auto& [e, divisor] : multiples) all = sym::logical_and(all, sym::eq(sym::mod(e, divisor), 0));
  return env.simplify(all);
}

std::optional<WholeVectors> whole_vectors(ir::Graph& graph, const LoopNest& nest, const target::Target& target,
                                          const LaunchRequest& usual, bool in_registers) {
  constexpr int kWidest = 8;
  const KernelPlan plan = plan_kernel(graph, nest, target, usual);
  const bool ragged = choice_of(plan).config.ragged;
  double most = kWorthCompile * (ragged && in_registers ? 1 : moved_at_once(graph, nest, plan));
  std::optional<WholeVectors> best;
  for (int width = 2; width <= kWidest; width *= 2) {
    WholeVectors whole = multiples_for(graph, nest, width);
    if (whole.multiples.empty()) continue;
    sym::AssumedMultiples known(graph.env());
    whole.assume(known);
    const KernelPlan vectors = plan_kernel(graph, nest, target, {.cluster = usual.cluster});
    const double moved = moved_at_once(graph, nest, vectors);
    if (moved < most) continue;
    most = moved + 0.01;
    best = std::move(whole);
  }
  return best;
}

}  // namespace coil::codegen
