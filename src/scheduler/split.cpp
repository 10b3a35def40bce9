#include "scheduler/split.h"

#include <algorithm>

#include "library_ops/table.h"
#include "scheduler/memory_order.h"
#include "support/error.h"

namespace coil::scheduler {
namespace {

using ir::BufferId;
using ir::Operation;

constexpr std::int64_t kUnknownElements = 1 << 16;
constexpr int kRounds = 4;
constexpr std::size_t kMostRejoined = 16;  ///< groups that are tried whole again, each by an estimate

const Operation& operation(const ir::Graph& graph, const Member& m) { return graph.operations()[m.op]; }

std::uint64_t bytes_of(const ir::Graph& graph, BufferId b) {
  const ir::Layout& l = graph.buffer(b).layout;
  const std::int64_t elements = graph.env_ptr()->hint_or(sym::product(l.sizes), kUnknownElements);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, elements)) * size_of(l.dtype);
}

/// Buffers that an item reads and writes.
struct Touched {
  std::vector<BufferId> reads, writes;
};

Touched touched_by(const ir::Graph& graph, const Item& item) {
  Touched out;
  auto add = [&](ir::OperationId id) {
    const Operation& op = graph.operations()[id];
    for (BufferId b : ir::reads(op)) out.reads.push_back(b);
    out.writes.insert(out.writes.end(), op.outs.begin(), op.outs.end());
  };
  if (const auto* single = std::get_if<Single>(&item)) {
    add(single->op);
    return out;
  }
  const auto& group = std::get<Group>(item);
  for (const Member& m : group.members) add(m.op);
  for (auto* side : {&out.reads, &out.writes})
    std::erase_if(*side, [&](BufferId b) { return group.internal.contains(b); });
  return out;
}

/// Items over which no other moves.
bool is_fence(const ir::Graph& graph, const Item& item) {
  const auto* single = std::get_if<Single>(&item);
  if (!single) return false;
  const Operation& op = graph.operations()[single->op];
  if (const auto* call = std::get_if<ir::Extern>(&op.node))
    return library_ops::has(call->op, library_ops::Trait::Collective) ||
           library_ops::has(call->op, library_ops::Trait::Wait);
  return std::holds_alternative<ir::Assertion>(op.node) || op.defined_symbol() ||
         std::holds_alternative<ir::Control>(op.node);
}

/// What the host carries out, a kernel of the user's, or an exchange with other processes: they keep their order among
/// each other.
bool is_outside(const ir::Graph& graph, const Item& item) {
  const auto* single = std::get_if<Single>(&item);
  if (!single) return false;
  const auto& node = graph.operations()[single->op].node;
  if (const auto* call = std::get_if<ir::Extern>(&node))
    return library_ops::has(call->op, library_ops::Trait::Exchange);
  return std::holds_alternative<ir::Fallback>(node) || std::holds_alternative<ir::UserCall>(node);
}

void add_in_place(MemoryStep& step, const MemoryProgram& program, const Touched& touched) {
  auto temporary = [&](BufferId b) { return program.storages[b].of == StorageClass::Temporary; };
  for (BufferId to : touched.writes)
    for (BufferId from : touched.reads)
      if (temporary(from) && temporary(to) && from != to && program.storages[from].bytes == program.storages[to].bytes)
        step.in_place.emplace_back(from, to);
}

/// The parts of a group: an operation goes into the part that makes the last of its operands unless the part would then
/// read a large value more, or write a second one.
class Parts {
 public:
  Parts(const ir::Graph& graph, const Group& group) : graph_(graph), group_(group) {
    for (const Member& m : group.members) place(m);
  }

  std::vector<Group> take() {
    std::vector<Group> out;
    for (std::vector<Member>& members : members_) out.emplace_back(group_).members = std::move(members);
    return out;
  }

 private:
  bool is_outside(BufferId b) const {
    return graph_.buffer(b).kind == ir::BufferKind::Computed && !made_in_.contains(b);
  }

  void place(const Member& m) {
    const Operation& op = operation(graph_, m);
    std::optional<std::size_t> last;
    std::vector<BufferId> outside;
    for (BufferId b : ir::reads(op)) {
      if (is_outside(b)) outside.push_back(b);
      if (auto made = made_in_.find(b); made != made_in_.end()) last = std::max(last.value_or(0), made->second);
    }
    // Values that two operations write parts of stay in one kernel.
    for (BufferId b : op.outs)
      if (auto made = made_in_.find(b); made != made_in_.end()) last = made->second, outside.clear();
    const bool stored = std::ranges::any_of(op.outs, [&](BufferId b) { return !group_.internal.contains(b); });
    if (!last || !takes(*last, outside, stored)) {
      last = members_.size();
      members_.emplace_back();
      reads_.emplace_back();
      stores_.push_back(false);
    }
    members_[*last].push_back(m);
    reads_[*last].insert(outside.begin(), outside.end());
    stores_[*last] = stores_[*last] || stored;
    for (BufferId b : op.outs) made_in_[b] = *last;
  }

  bool takes(std::size_t part, const std::vector<BufferId>& outside, bool stored) const {
    if (stored && stores_[part]) return false;
    return reads_[part].empty() || std::ranges::all_of(outside, [&](BufferId b) { return reads_[part].contains(b); });
  }

  const ir::Graph& graph_;
  const Group& group_;
  std::vector<std::vector<Member>> members_;
  std::vector<std::set<BufferId>> reads_;  ///< of each part: values made outside of the group
  std::vector<bool> stores_;               ///< of each part: whether it makes something that needs memory
  std::map<BufferId, std::size_t> made_in_;
};

/// Operations of a group with an inner loop that hand one another no values, apart: rows of several layers that one
/// operand brought together.
class RowParts {
 public:
  RowParts(ir::Graph& graph, const Group& group) : graph_(graph), group_(group) {}

  std::vector<Group> take() {
    std::map<BufferId, std::size_t> made_in;
    for (const Member& m : group_.members) {
      const Operation& op = operation(graph_, m);
      if (m.role == Role::Scan || !op.is_loop()) return {};
      std::set<std::size_t> joined;
      for (const std::vector<BufferId>& touched : {ir::reads(op), op.outs})
        for (BufferId b : touched)
          if (const auto made = made_in.find(b); made != made_in.end()) joined.insert(made->second);
      const std::size_t part = joined.empty() ? parts_.size() : *joined.begin();
      if (joined.empty()) parts_.emplace_back();
      for (std::size_t other : joined)
        if (other != part) join(part, other, made_in);
      parts_[part].push_back(m);
      for (BufferId b : op.outs) made_in[b] = part;
    }
    std::erase_if(parts_, [](const auto& members) { return members.empty(); });
    std::vector<Group> out;
    for (std::vector<Member>& members : parts_) {
      if (has(members, Role::Outer) && has(members, Role::Inner) && !has(members, Role::Reduce)) return {};
      out.push_back(group_of(std::move(members)));
    }
    return out;
  }

 private:
  static bool has(const std::vector<Member>& members, Role role) {
    return std::ranges::find(members, role, &Member::role) != members.end();
  }

  void join(std::size_t part, std::size_t other, std::map<BufferId, std::size_t>& made_in) {
    std::vector<Member> both;
    const auto position = [&](const Member& m) {
      return std::ranges::find(group_.members, m.op, &Member::op) - group_.members.begin();
    };
    std::ranges::merge(parts_[part], parts_[other], std::back_inserter(both), {}, position, position);
    parts_[part] = std::move(both);
    parts_[other].clear();
    for (auto& [buffer, in] : made_in)
      if (in == other) in = part;
  }

  /// The group of these members, without the levels that none of them is of, and without an inner loop where nothing is
  /// combined.
  Group group_of(std::vector<Member> members) const {
    Group part = group_;
    part.members = std::move(members);
    std::map<int, int> levels;
    for (const Member& m : part.members) levels.emplace(m.level, 0);
    int count = 0;
    for (auto& [old, now] : levels) now = count++;
    for (Member& m : part.members) m.level = levels.at(m.level);
    if (has(part.members, Role::Reduce)) return part;
    for (Member& m : part.members) m.level = 0;
    if (has(part.members, Role::Outer))
      part.inner.clear();
    else
      flatten(part);
    return part;
  }

  void flatten(Group& part) const {
    Exprs from, to;
    for (std::size_t d = 0; d < part.inner.size(); ++d) {
      from.push_back(graph_.rvar(d));
      to.push_back(graph_.ivar(part.outer.size() + d));
    }
    part.outer.insert(part.outer.end(), part.inner.begin(), part.inner.end());
    part.inner.clear();
    for (Member& m : part.members) {
      m.role = Role::Outer;
      for (Expr& e : m.ivars) e = sym::substitute(e, from, to);
    }
  }

  ir::Graph& graph_;
  const Group& group_;
  std::vector<std::vector<Member>> parts_;
};

class Splitter {
 public:
  Splitter(ir::Graph& graph, Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  /// Whether it took something apart.
  bool run() {
    find_parts();
    if (parts_.empty()) return false;
    const std::uint64_t whole = peak({});
    keep_large(whole / 4);
    if (parts_.empty()) return false;
    std::set<std::size_t> split;
    for (const auto& [item, parts] : parts_) split.insert(item);
    const std::uint64_t least = peak(split);
    if (least + std::max(whole / kFusionSlack, kFusionSlackBytes) >= whole) return false;
    rejoin(split, least + least / kFusionSlack);
    refuse(split, peak(split), whole);
    schedule_ = with(split);
    return true;
  }

 private:
  void find_parts() {
    for (std::size_t k = 0; k < schedule_.items.size(); ++k) {
      const auto* group = std::get_if<Group>(&schedule_.items[k]);
      if (!group || group->members.size() < 2) continue;
      auto parts = group->pointwise() ? Parts(graph_, *group).take() : RowParts(graph_, *group).take();
      if (parts.size() > 1) parts_.emplace(k, std::move(parts));
    }
  }

  /// Keeps, of the groups that fall into parts, those that hold at least `bytes`.
  void keep_large(std::uint64_t bytes) {
    const MemoryProgram program = memory_of(graph_, schedule_);
    std::erase_if(parts_, [&](const auto& entry) {
      std::uint64_t held = 0;
      for (StorageId s : program.steps[entry.first].touches)
        if (program.storages[s].of == StorageClass::Temporary) held += program.storages[s].bytes;
      return held == 0 || held < bytes;
    });
  }

  Schedule with(const std::set<std::size_t>& split) const {
    Schedule out;
    out.refusals = schedule_.refusals;
    for (std::size_t k = 0; k < schedule_.items.size(); ++k) {
      if (!split.contains(k)) {
        out.items.push_back(schedule_.items[k]);
        continue;
      }
      for (const Group& part : parts_.at(k)) out.items.emplace_back(part);
    }
    find_internal(graph_, out);
    return out;
  }

  std::uint64_t peak(const std::set<std::size_t>& split) const {
    const Schedule schedule = with(split);
    return listed_for_memory(memory_of(graph_, schedule)).found.temporaries;
  }

  /// Groups stay whole again, those with the most parts first, while the peak stays within `bound`.
  void rejoin(std::set<std::size_t>& split, std::uint64_t bound) const {
    std::vector<std::size_t> order(split.begin(), split.end());
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t k) { return parts_.at(k).size(); });
    for (std::size_t k = 0; k < std::min(order.size(), kMostRejoined) && split.size() > 1; ++k) {
      split.erase(order[k]);
      if (peak(split) > bound) split.insert(order[k]);
    }
  }

  void refuse(const std::set<std::size_t>& split, std::uint64_t now, std::uint64_t whole) {
    constexpr double kMiB = 1 << 20;
    const std::string reason =
        fmt::format("together they raise the peak of temporaries and results from {:.1f} to {:.1f} MiB",
                    static_cast<double>(now) / kMiB, static_cast<double>(whole) / kMiB);
    for (std::size_t item : split) {
      const auto& parts = parts_.at(item);
      for (std::size_t k = 1; k < parts.size(); ++k)
        schedule_.refusals.push_back({parts[k - 1].members.back().op, parts[k].members.front().op, reason});
    }
  }

  ir::Graph& graph_;
  Schedule& schedule_;
  std::map<std::size_t, std::vector<Group>> parts_;  ///< of items that may be taken apart
};

}  // namespace

void find_internal(const ir::Graph& graph, Schedule& schedule) {
  constexpr std::size_t kNone = SIZE_MAX, kSeveral = SIZE_MAX - 1;
  std::vector<std::size_t> reader(graph.buffers().size(), kNone);
  std::set<BufferId> kept(graph.mutated.begin(), graph.mutated.end());
  for (const ir::GraphOutput& o : graph.outputs)
    if (const auto* view = std::get_if<ir::BufferView>(&o.value)) kept.insert(view->buffer);
  auto each = [&](const Item& item, auto&& f) {
    if (const auto* single = std::get_if<Single>(&item)) return f(graph.operations()[single->op]);
    for (const Member& m : std::get<Group>(item).members) f(operation(graph, m));
  };
  for (std::size_t k = 0; k < schedule.items.size(); ++k)
    each(schedule.items[k], [&](const Operation& op) {
      for (BufferId b : ir::reads(op)) reader[b] = reader[b] == kNone || reader[b] == k ? k : kSeveral;
    });
  for (std::size_t k = 0; k < schedule.items.size(); ++k) {
    auto* group = std::get_if<Group>(&schedule.items[k]);
    if (!group) continue;
    group->internal.clear();
    for (const Member& m : group->members)
      for (BufferId b : operation(graph, m).outs) {
        const ir::Buffer& buffer = graph.buffer(b);
        const bool read_here_only = reader[b] == kNone || reader[b] == k;
        if (read_here_only && !kept.contains(b) && buffer.kind == ir::BufferKind::Computed && buffer.writers.size() < 2)
          group->internal.insert(b);
      }
  }
}

MemoryProgram memory_of(ir::Graph& graph, const Schedule& schedule) {
  MemoryProgram program;
  for (const ir::Buffer& b : graph.buffers())
    program.storages.push_back({bytes_of(graph, b.id), b.kind != ir::BufferKind::Computed ? StorageClass::Caller
                                                       : b.is_output                      ? StorageClass::Output
                                                                                          : StorageClass::Temporary});
  for (const ir::GraphOutput& o : graph.outputs)
    if (const auto* view = std::get_if<ir::BufferView>(&o.value);
        view && program.storages[view->buffer].of == StorageClass::Temporary)
      program.storages[view->buffer].of = StorageClass::Output;
  program.counts_callers = true;  // results come when they are made
  StepOrder order(program);
  std::vector<StepId> since_fence;
  std::optional<StepId> fence, outside;
  for (const Item& item : schedule.items) {
    const Touched touched = touched_by(graph, item);
    const StepId step = order.add(touched.reads, touched.writes);
    std::vector<StepId>& after = program.steps[step].after;
    if (fence) after.push_back(*fence);
    if (is_fence(graph, item)) {
      after.insert(after.end(), since_fence.begin(), since_fence.end());
      since_fence.clear();
      fence = step;
    } else {
      since_fence.push_back(step);
    }
    if (is_outside(graph, item)) {
      if (outside) after.push_back(*outside);
      outside = step;
    }
    if (const auto* group = std::get_if<Group>(&item); group && group->pointwise())
      add_in_place(program.steps[step], program, touched);
  }
  return program;
}

void split_for_memory(ir::Graph& graph, Schedule& schedule) {
  // Where the peak has become lower, smaller groups stand out.
  for (int round = 0; round < kRounds && Splitter(graph, schedule).run(); ++round) {}
}

}  // namespace coil::scheduler
