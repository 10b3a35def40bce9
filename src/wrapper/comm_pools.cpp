#include "wrapper/comm_pools.h"

#include <algorithm>

#include "ir/comm_buffers.h"
#include "library_ops/table.h"
#include "support/error.h"

namespace coil::wrapper {
namespace {

std::int64_t aligned(std::int64_t bytes) { return (bytes + kCommAlignment - 1) / kCommAlignment * kCommAlignment; }

/// The operation of a line that calls one; empty for others. Kernels have names that hold a hash of their text, which
/// may be another on each rank: slices of weights differ.
std::string operation(const Line& line) {
  if (auto* c = std::get_if<CallExtern>(&line)) return c->op;
  if (auto* c = std::get_if<CallFallback>(&line)) return c->op;
  return {};
}

class Pools {
 public:
  explicit Pools(const Program& p) : p_(p), tables_(peer_tables(p)), offset_(p.buffers.size(), -1) {}

  std::vector<CommPool> run() {
    for (const Line& l : p_.lines) {
      if (auto* a = std::get_if<AllocateComm>(&l)) allocate(*a);
      if (const std::string op = operation(l); !op.empty()) call(op, uses(l));
    }
    return std::move(pools_);
  }

 private:
  CommPool& pool(BufferId b) {
    const ir::CommBufferLayout& layout = *p_.buffers[b].comm;
    const auto found = std::ranges::find(pools_, layout, &CommPool::layout);
    if (found != pools_.end()) return *found;
    pools_.push_back({.layout = layout});
    return pools_.back();
  }

  void allocate(const AllocateComm& a) {
    CommPool& to = pool(a.buffer);
    if (tables_.contains(a.buffer)) return;
    const std::int64_t bytes = aligned(comm_bytes(p_, a.buffer));
    if (std::exchange(offset_[a.buffer], a.offset) < 0) to.apart += bytes;
    to.bytes = std::max(to.bytes, a.offset + bytes);
    to.plan += fmt::format("{}+{};", a.offset, bytes);
  }

  void call(const std::string& op, const Uses& u) {
    for (const auto* side : {&u.reads, &u.writes})
      for (BufferId b : *side)
        if (p_.buffers[b].comm && !tables_.contains(b))
          pool(b).plan += fmt::format("{}{}@{};", op, side == &u.writes ? " writes" : "", offset_[b]);
  }

  const Program& p_;
  const std::set<BufferId> tables_;
  std::vector<std::int64_t> offset_;
  std::vector<CommPool> pools_;
};

}  // namespace

std::set<BufferId> peer_tables(const Program& p) {
  std::set<BufferId> tables;
  for (const Line& l : p.lines)
    if (auto* c = std::get_if<CallExtern>(&l); c && library_ops::has(c->op, library_ops::Trait::PeerSum))
      tables.insert(c->outputs.at(1).buffer);
  return tables;
}

std::int64_t comm_bytes(const Program& p, BufferId id) {
  const Buffer& b = p.buffers[id];
  const auto bytes = ir::comm_bytes(*p.env, b.dtype, b.sizes, b.strides);
  COIL_CHECK(bytes, "the communication buffer {} has no upper bound", b.name);
  return *bytes;
}

std::vector<CommPool> comm_pools(const Program& p) { return Pools(p).run(); }

std::size_t comm_pool_of(const std::vector<CommPool>& pools, const Buffer& b) {
  const auto found = std::ranges::find(pools, *b.comm, &CommPool::layout);
  COIL_CHECK(found != pools.end(), "the communication buffer {} lies in no pool", b.name);
  return static_cast<std::size_t>(found - pools.begin());
}

}  // namespace coil::wrapper
