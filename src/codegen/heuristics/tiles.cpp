#include "codegen/heuristics/tiles.h"

#include <algorithm>

#include "codegen/heuristics/nest_facts.h"

namespace coil::codegen {
namespace {

constexpr int kTileSide = 64;            // large squares: longer pieces of memory
constexpr int kTileThreads = 256;        // of a block
constexpr int kWidestInTiles = 8;        // elements of a vector
constexpr std::size_t kTileAccess = 16;  // bytes that a thread moves at once

/// Bytes of a square with one column more than `side`, so that columns lie in different banks.
std::int64_t square_bytes(std::size_t element, int side) {
  return static_cast<std::int64_t>(element) * side * (side + 1);
}

struct Accesses {
  std::vector<TileAccess> across, direct;
};

Accesses accesses_of_tiles(ir::Graph& graph, const LoopNest& nest, const LoopDim& u, const LoopDim& v) {
  auto lies_across = [&](Expr e) {
    auto a = sym::linear_in(e, u.var), c = sym::linear_in(e, v.var);
    return a && a->coefficient.is_constant(1) && c && !c->coefficient.is_constant(0) && !c->coefficient.is_constant(1);
  };
  Accesses out;
  auto add = [&](TileAccess a) { (lies_across(a.index) ? out.across : out.direct).push_back(std::move(a)); };
  auto dtype = [&](ir::BufferId b) { return graph.buffer(b).layout.dtype; };
  const std::vector<const Statement*> statements = statements_of(nest);
  for (ir::Scalar n : roots_of(statements))
    if (n->op == ir::ScalarOp::LinearLoad && n->args.empty() && !n->mask)
      add({.load = n, .dtype = dtype(n->buffer), .index = n->index[0]});
  for (const Statement* s : statements)
    if (s->stored) add({.store = s, .dtype = dtype(s->op->outs[0]), .index = s->store});
  return out;
}

/// The widest vector for accesses that lie along `dim`, with work for all threads in a square.
int vector_along(const sym::ShapeEnv& env, const LoopDim& dim, std::span<const TileAccess> accesses, int side) {
  for (int width = std::min(kWidestInTiles, side * side / kTileThreads); width > 1; width /= 2) {
    const Lanes lanes{dim.var, width};
    bool any = false, all = env.statically_known_multiple_of(dim.size, width);
    for (const TileAccess& a : accesses) {
      if (lane_stride(env, a.index, lanes) != 1) continue;
      any = true;
      all =
          all && run_aligned(env, a.index, lanes) && size_of(a.dtype) * static_cast<std::size_t>(width) <= kTileAccess;
    }
    if (any && all) return width;
  }
  return 1;
}

}  // namespace

std::vector<LaunchConfig> tile_configs(const TileFacts& f, const target::Costs& costs) {
  std::size_t bytes = 0;
  for (std::size_t b : f.across) bytes += b;
  const LaunchConfig small{.threads = kTileThreads, .tile = kTileSide / 2};
  // A square that is mostly outside of its dimensions wastes threads.
  const bool large =
      square_bytes(bytes, kTileSide) <= costs.declared_shared_bytes && f.u > kTileSide / 2 && f.v > kTileSide / 2;
  if (!large) return {small};
  return {{.threads = kTileThreads, .tile = kTileSide}, small};
}

std::vector<bool> accesses_in_tiles(const TileFacts& f, int side, const target::Costs& costs) {
  // What does not fit even as small squares is read and written element by element.
  std::vector<bool> out;
  std::size_t used = 0;
  for (std::size_t bytes : f.across) {
    out.push_back(square_bytes(used + bytes, side) <= costs.declared_shared_bytes);
    if (out.back()) used += bytes;
  }
  return out;
}

TilePlan plan_tiles(ir::Graph& graph, const LoopNest& nest, const target::Costs& costs, const LaunchRequest& request) {
  const LoopDim &v = nest.outer.back(), &u = nest.outer[*nest.tiled];
  const Accesses accesses = accesses_of_tiles(graph, nest, u, v);
  TileFacts facts{.v = graph.env().hint_or(v.size, kTileSide), .u = graph.env().hint_or(u.size, kTileSide)};
  for (const TileAccess& a : accesses.across) facts.across.push_back(size_of(a.dtype));
  TilePlan plan{.choice = choose(tile_configs(facts, costs), request)};
  LaunchConfig& config = plan.choice.config;
  const std::vector<bool> fits = accesses_in_tiles(facts, config.tile, costs);
  for (std::size_t k = 0; k < fits.size(); ++k)
    if (fits[k]) plan.tiles.push_back(accesses.across[k]);
  plan.across_vector = vector_along(graph.env(), u, plan.tiles, config.tile);
  config.vector = vector_along(graph.env(), v, accesses.direct, config.tile);
  return plan;
}

}  // namespace coil::codegen
