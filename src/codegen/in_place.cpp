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
  int level = 0;              ///< the greatest of those
};

std::map<BufferId, BufferLoads> loads_of(const LoopNest& nest) {
  std::map<BufferId, BufferLoads> found;
  for (std::size_t k = 0; k < nest.statements.size(); ++k) {
    const Statement& s = nest.statements[k];
    std::vector<Scalar> roots = s.indirect;
    roots.push_back(s.body);
    for (Scalar l : ir::topological(roots)) {
      if (l->op != ScalarOp::LinearLoad) continue;
      BufferLoads& of = found.try_emplace(l->buffer, BufferLoads{.index = l->index[0]}).first->second;
      of.alike = of.alike && l->index[0] == of.index && l->args.empty() && !l->mask;
      of.statement = k;
      of.level = std::max(of.level, s.level);
    }
  }
  return found;
}

}  // namespace

InPlacePairs in_place_pairs(const ir::Graph& graph, const LoopNest& nest,
                            const std::function<bool(const Statement&)>& takes_part,
                            const std::function<bool(BufferId)>& only_read) {
  std::map<BufferId, BufferLoads> loads = loads_of(nest);
  std::erase_if(loads, [&](const auto& entry) { return !entry.second.alike || !only_read(entry.first); });
  const auto width = [&](BufferId b) { return size_of(graph.buffer(b).layout.dtype); };
  InPlacePairs pairs;
  for (std::size_t k = 0; k < nest.statements.size(); ++k) {
    const Statement& out = nest.statements[k];
    if (!out.stored || out.role == scheduler::Role::Reduce || !takes_part(out)) continue;
    const BufferId to = out.op->outs[0];
    for (const auto& [from, of] : loads)
      if (of.index == out.store && of.statement <= k && of.level <= out.level && width(from) == width(to))
        pairs.emplace_back(from, to);
  }
  return pairs;
}

InPlacePairs in_place_pairs(const ir::Graph& graph, const LoopNest& nest, const KernelArguments& arguments,
                            bool outer) {
  return in_place_pairs(
      graph, nest,
      [&](const Statement& s) { return s.indirect.empty() && (outer || s.role != scheduler::Role::Outer); },
      [&](BufferId b) { return arguments.only_reads(b); });
}

}  // namespace coil::codegen
