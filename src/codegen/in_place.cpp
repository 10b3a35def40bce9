#include "codegen/in_place.h"

#include <map>

namespace coil::codegen {

using ir::BufferId;
using ir::Scalar;
using ir::ScalarOp;

std::vector<std::pair<BufferId, BufferId>> in_place_pairs(const ir::Graph& graph, const LoopNest& nest,
                                                          const KernelArguments& arguments, bool outer) {
  std::vector<std::pair<BufferId, BufferId>> pairs;
  for (std::size_t k = 0; k < nest.statements.size(); ++k) {
    const Statement& out = nest.statements[k];
    if (!out.stored || out.role == scheduler::Role::Reduce || !out.indirect.empty() ||
        (out.role == scheduler::Role::Outer && !outer))
      continue;
    const std::size_t width = size_of(graph.buffer(out.op->outs[0]).layout.dtype);
    std::map<BufferId, bool> fits;
    for (std::size_t j = 0; j < nest.statements.size(); ++j) {
      const Statement& in = nest.statements[j];
      for (Scalar l : ir::topological(std::span(&in.body, 1))) {
        if (l->op != ScalarOp::LinearLoad) continue;
        const bool ok = j <= k && l->index[0] == out.store && l->args.empty() && !l->mask && in.level <= out.level &&
                        size_of(graph.buffer(l->buffer).layout.dtype) == width;
        auto [it, added] = fits.emplace(l->buffer, ok);
        it->second = it->second && ok;
      }
    }
    for (auto [b, ok] : fits)
      if (ok && arguments.only_reads(b)) pairs.emplace_back(b, out.op->outs[0]);
  }
  return pairs;
}

}  // namespace coil::codegen
