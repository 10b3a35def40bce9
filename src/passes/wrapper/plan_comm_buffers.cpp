#include "passes/wrapper/plan_comm_buffers.h"

#include <algorithm>
#include <map>

#include "library_ops/collectives.h"
#include "runtime/plan/arena_planner.h"
#include "runtime/plan/plan.h"
#include "support/error.h"
#include "wrapper/comm_pools.h"

namespace coil::wrapper {
namespace {

struct Life {
  std::size_t first = SIZE_MAX, last = 0;
  std::int64_t offset = 0, bytes = 0;
  bool used_by_host = false;
};

class Planner {
 public:
  explicit Planner(Program& p) : p_(p), tables_(peer_tables(p)) {}

  void run() {
    find_lives();
    if (lives_.empty()) return;
    for (const auto& [layout, buffers] : groups_) place(buffers);
    set_offsets();
    add_barriers();
  }

 private:
  void find_lives() {
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      if (auto* a = std::get_if<AllocateComm>(&p_.lines[k])) born(a->buffer, k);
      if (auto* f = std::get_if<FreeComm>(&p_.lines[k])) lives_.at(f->buffer).last = k;
      if (!std::holds_alternative<CallFallback>(p_.lines[k])) continue;
      const Uses u = uses(p_.lines[k]);
      for (const auto* side : {&u.reads, &u.writes})
        for (BufferId b : *side)
          if (auto found = lives_.find(b); found != lives_.end()) found->second.used_by_host = true;
    }
  }

  void born(BufferId b, std::size_t line) {
    const auto [life, added] = lives_.try_emplace(b, Life{.first = line, .bytes = comm_bytes(p_, b)});
    life->second.last = line;
    if (added && !tables_.contains(b)) groups_[p_.buffers[b].comm->group].push_back(b);
  }

  void place(const std::vector<BufferId>& buffers) {
    std::vector<runtime::Interval> intervals;
    for (BufferId b : buffers) {
      const Life& life = lives_.at(b);
      const auto bytes =
          static_cast<std::uint64_t>((life.bytes + kCommAlignment - 1) / kCommAlignment * kCommAlignment);
      intervals.push_back({bytes, static_cast<std::uint32_t>(life.first), static_cast<std::uint32_t>(life.last)});
    }
    const runtime::ArenaPlan plan = runtime::plan_arena(intervals);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      lives_.at(buffers[k]).offset = static_cast<std::int64_t>(plan.offsets[k]);
      COIL_CHECK(plan.offsets[k] % kCommAlignment == 0, "places of whole multiples do not begin at one");
    }
  }

  std::int64_t behind_pool(const std::string& group) const {
    std::int64_t end = 0;
    for (BufferId b : groups_.at(group)) {
      const Life& life = lives_.at(b);
      end = std::max(end, life.offset + (life.bytes + kCommAlignment - 1) / kCommAlignment * kCommAlignment);
    }
    return static_cast<std::int64_t>(runtime::peer_table_offset(static_cast<std::uint64_t>(end)));
  }

  void set_offsets() {
    for (BufferId b : tables_) lives_.at(b).offset = behind_pool(p_.buffers[b].comm->group);
    for (Line& l : p_.lines)
      if (auto* a = std::get_if<AllocateComm>(&l)) a->offset = lives_.at(a->buffer).offset;
  }

  bool shares(BufferId b) const {
    if (tables_.contains(b)) return false;
    const Life& mine = lives_.at(b);
    return std::ranges::any_of(groups_.at(p_.buffers[b].comm->group), [&](BufferId other) {
      const Life& theirs = lives_.at(other);
      return other != b && mine.offset < theirs.offset + theirs.bytes && theirs.offset < mine.offset + mine.bytes;
    });
  }

  void add_barriers() {
    std::vector<Line> lines;
    for (Line& l : p_.lines) {
      if (auto* f = std::get_if<FreeComm>(&l); f && lives_.at(f->buffer).used_by_host && shares(f->buffer))
        lines.push_back(barrier(f->buffer));
      lines.push_back(std::move(l));
    }
    p_.lines = std::move(lines);
  }

  CallExtern barrier(BufferId id) const {
    const Buffer& b = p_.buffers[id];
    const View all{id, b.dtype, b.sizes, b.strides, 0};
    return {.op = std::string(library_ops::collectives::kBarrier),
            .attributes = {{"group", b.comm->group}},
            .inputs = {all},
            .outputs = {all},
            .nodes = {},
            .origins = {},
            .where = {}};
  }

  Program& p_;
  const std::set<BufferId> tables_;
  std::map<BufferId, Life> lives_;
  std::map<std::string, std::vector<BufferId>> groups_;
};

}  // namespace

void plan_comm_buffers(Program& p) { Planner(p).run(); }

}  // namespace coil::wrapper
