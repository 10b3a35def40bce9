#include "scheduler/verify.h"

#include "support/error.h"

namespace coil::scheduler {
void verify(const ir::Graph& graph, const Schedule& schedule) {
  std::vector<bool> ran(graph.operations().size(), false);
  std::set<ir::BufferId> written;
  ir::KnownSymbols known;
  for (const ir::Buffer& b : graph.buffers())
    if (b.kind != ir::BufferKind::Computed) written.insert(b.id);
  auto visit = [&](ir::OperationId id) {
    const ir::Operation& op = graph.operations()[id];
    COIL_CHECK(!ran[id], "op{} is scheduled twice", id);
    ran[id] = true;
    if (const auto* c = std::get_if<ir::Control>(&op.node)) known.border(*c);
    for (sym::Expr s : ir::runtime_symbols(graph, op))
      COIL_CHECK(known.contains(s), "op{} is scheduled before {} has a value", id, s.name());
    for (ir::BufferId b : ir::reads(op))
      COIL_CHECK(written.contains(b), "op{} is scheduled before buf{} is written", id, b);
    written.insert(op.outs.begin(), op.outs.end());
    if (auto symbol = op.defined_symbol()) known.define(*symbol);
  };
  for (const Item& item : schedule.items) {
    if (auto* single = std::get_if<Single>(&item))
      visit(single->op);
    else
      for (const Member& m : std::get<Group>(item).members) visit(m.op);
  }
  const std::vector<bool> live = ir::live_operations(graph);
  for (std::size_t k = 0; k < live.size(); ++k) COIL_CHECK(!live[k] || ran[k], "op{} is needed, but not scheduled", k);
}

}  // namespace coil::scheduler
