#include "codegen/in_place.h"

#include <algorithm>
#include <map>

namespace coil::codegen {
namespace {

using ir::BufferId;
using ir::Scalar;
using ir::ScalarOp;

/// Where the statements of a nest load a buffer.
struct BufferLoads {
  sym::Expr index;            ///< of each load, where they are alike
  bool alike = true;          ///< all at one index that no data decide, and under no mask
  std::size_t statement = 0;  ///< the last that loads it
  std::size_t first = 0;      ///< the first that does on the greatest level
  int level = 0;              ///< the greatest of those

  void add(Scalar load, const Statement& at, std::size_t place) {
    alike = alike && load->index[0] == index && load->args.empty() && !load->mask;
    if (at.level > level) first = place;
    statement = place;
    level = std::max(level, at.level);
  }
};

std::vector<Scalar> loads_in(const Statement& s) {
  std::vector<Scalar> roots = s.indirect, found;
  roots.push_back(s.body);
  for (Scalar l : ir::topological(roots))
    if (l->op == ScalarOp::LinearLoad) found.push_back(l);
  return found;
}

/// `computed_again`: what has no memory may be computed where it is read, and loads its operands there.
std::map<BufferId, BufferLoads> loads_of(const LoopNest& nest, bool computed_again) {
  std::map<BufferId, BufferLoads> found;
  std::map<BufferId, std::vector<Scalar>> of_unstored;
  for (std::size_t k = 0; k < nest.statements.size(); ++k) {
    const Statement& s = nest.statements[k];
    std::vector<Scalar> loads = loads_in(s);
    if (computed_again) {
      for (std::size_t l = 0; l < loads.size(); ++l)
        if (const auto again = of_unstored.find(loads[l]->buffer); again != of_unstored.end())
          loads.insert(loads.end(), again->second.begin(), again->second.end());
      if (s.role == scheduler::Role::Inner && !s.stored) of_unstored[s.op->outs[0]] = loads;
    }
    for (Scalar l : loads)
      found.try_emplace(l->buffer, BufferLoads{.index = l->index[0], .first = k, .level = s.level})
          .first->second.add(l, s, k);
  }
  return found;
}

InPlacePairs pairs_of(const ir::Graph& graph, const LoopNest& nest, std::map<BufferId, BufferLoads> loads,
                      const std::function<bool(const Statement&)>& takes_part,
                      const std::function<bool(BufferId)>& only_read,
                      const std::function<bool(const BufferLoads&, std::size_t)>& is_read_by_then) {
  std::erase_if(loads, [&](const auto& entry) { return !entry.second.alike || !only_read(entry.first); });
  const auto width = [&](BufferId b) { return size_of(graph.buffer(b).layout.dtype); };
  InPlacePairs pairs;
  for (std::size_t k = 0; k < nest.statements.size(); ++k) {
    const Statement& out = nest.statements[k];
    if (!out.stored || out.role == scheduler::Role::Reduce || !takes_part(out)) continue;
    const BufferId to = out.op->outs[0];
    for (const auto& [from, of] : loads)
      if (of.index == out.store && is_read_by_then(of, k) && width(from) == width(to)) pairs.emplace_back(from, to);
  }
  return pairs;
}

}  // namespace

InPlacePairs in_place_pairs(const ir::Graph& graph, const LoopNest& nest,
                            const std::function<bool(const Statement&)>& takes_part,
                            const std::function<bool(BufferId)>& only_read) {
  return pairs_of(graph, nest, loads_of(nest, false), takes_part, only_read, [&](const BufferLoads& of, std::size_t k) {
    return of.statement <= k && of.level <= nest.statements[k].level;
  });
}

InPlacePairs in_place_pairs(const ir::Graph& graph, const LoopNest& nest, const KernelArguments& arguments,
                            InPlaceForm form) {
  return pairs_of(
      graph, nest, loads_of(nest, true),
      [&](const Statement& s) { return s.indirect.empty() && (form.outer || s.role != scheduler::Role::Outer); },
      [&](BufferId b) { return arguments.only_reads(b); },
      [&](const BufferLoads& of, std::size_t k) {
        const int level = nest.statements[k].level;
        if (form.loads_once && of.level == level) return of.first <= k;
        return of.statement <= k && of.level <= level;
      });
}

}  // namespace coil::codegen
