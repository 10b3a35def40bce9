#include "codegen/heuristics/nest_facts.h"

#include <algorithm>

namespace coil::codegen {

using ir::Scalar;
using ir::ScalarOp;

namespace {

constexpr std::size_t kWidestAccess = 16;    // bytes that a thread reads or writes at once
constexpr std::size_t kWidestElements = 64;  // bytes of the widest elements of a vector: four accesses

/// Whether a statement stores at every point of its nest, not once for a sum over `inner`.
bool stores_each_point(const LoopNest& nest, const Statement& s) {
  auto moves = [&](const LoopDim& d) { return sym::contains(s.store, d.var); };
  return nest.inner.empty() || std::ranges::any_of(nest.inner, moves);
}

}  // namespace

std::vector<AccessOfNest> accesses_of(ir::Graph& graph, const LoopNest& nest) {
  auto bytes = [&](ir::BufferId b) { return size_of(graph.buffer(b).layout.dtype); };
  std::vector<AccessOfNest> out;
  for (const Statement& s : nest.statements) {
    for (Scalar n : ir::topological(std::span(&s.body, 1)))
      if (n->op == ScalarOp::LinearLoad) out.push_back({n->index[0], bytes(n->buffer)});
    if (s.stored) out.push_back({s.store, bytes(s.op->outs[0]), stores_each_point(nest, s)});
  }
  return out;
}

MovedBytes moved_bytes(const sym::ShapeEnv& env, std::span<const AccessOfNest> accesses, const Lanes& lanes) {
  MovedBytes out;
  for (const AccessOfNest& a : accesses) {
    if (!sym::contains(a.index, lanes.var)) continue;
    if (lane_stride(env, a.index, lanes) == 1 && run_aligned(env, a.index, lanes)) {
      out.packed += a.bytes;
      out.narrowest = std::min(out.narrowest, a.bytes);
      out.widest = std::max(out.widest, a.bytes);
      if (a.stores_each_point) out.widest_stored = std::max(out.widest_stored, a.bytes);
    } else if (lane_stride(env, a.index, lanes) != 0) {
      out.loose += a.bytes;
    }
  }
  return out;
}

bool moves_in_vectors(const MovedBytes& m, int vector) {
  const std::size_t width = static_cast<std::size_t>(vector);
  return m.packed > 0 && m.packed >= m.loose && width * m.narrowest <= kWidestAccess &&
         width * m.widest <= kWidestElements && width * m.widest_stored <= kWidestAccess;
}

Expr product_of(std::span<const LoopDim> dims) {
  Expr p = 1;
  for (const LoopDim& d : dims) p *= d.size;
  return p;
}

Exprs variables_of(std::span<const LoopDim> dims) {
  Exprs out;
  for (const LoopDim& d : dims) out.push_back(d.var);
  return out;
}

std::vector<const Statement*> statements_of(const LoopNest& nest) {
  std::vector<const Statement*> out;
  for (const Statement& s : nest.statements) out.push_back(&s);
  return out;
}

std::vector<Scalar> roots_of(std::span<const Statement* const> statements) {
  std::vector<Scalar> out;
  for (const Statement* s : statements) {
    out.push_back(s->body);
    out.insert(out.end(), s->indirect.begin(), s->indirect.end());
  }
  return ir::topological(out);
}

bool depends_on(Scalar root, std::span<const Expr> variables) {
  for (Scalar n : ir::topological(std::span(&root, 1)))
    for (Expr e : n->index)
      for (Expr v : variables)
        if (sym::contains(e, v)) return true;
  return false;
}

int widest_vector(ir::Graph& graph, const LoopNest& nest, const LoopDim& dim, bool cut_short) {
  const std::vector<AccessOfNest> accesses = accesses_of(graph, nest);
  for (int width = 8; width > 1; width /= 2)
    if ((cut_short || graph.env().statically_known_multiple_of(dim.size, width)) &&
        moves_in_vectors(moved_bytes(graph.env(), accesses, {dim.var, width}), width))
      return width;
  return 1;
}

}  // namespace coil::codegen
