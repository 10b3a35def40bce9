#include "scheduler/schedule.h"

#include <algorithm>
#include <set>

#include "ir/comm_buffers.h"
#include "passes/loop/part_writes.h"
#include "scheduler/space_match.h"
#include "scheduler/split.h"
#include "support/error.h"
#include "sym/print.h"

namespace coil::scheduler {

using ir::BufferId;
using ir::Operation;
using ir::OperationId;

bool Group::pointwise() const {
  return std::all_of(members.begin(), members.end(), [](const Member& m) { return m.role == Role::Outer; });
}

Exprs store_in_group(ir::Graph& graph, const Group& group, const Member& m) {
  const Operation& op = graph.operations()[m.op];
  if (op.store_index.empty()) return m.ivars;
  const auto loops = loop_vars(graph, group);
  const Exprs from = graph.ivars(op.sizes().size());
  Exprs out;
  for (Expr e : op.store_index) out.push_back(graph.env().simplify(sym::substitute(e, from, m.ivars), loops));
  return out;
}

namespace {

/// An operation's own loop variables, and what they are in its group.
std::pair<Exprs, Exprs> renaming(ir::Graph& graph, const Member& m) {
  Exprs from = graph.ivars(m.ivars.size()), to = m.ivars;
  for (std::size_t d = 0; d < m.rvars.size(); ++d) from.push_back(graph.rvar(d)), to.push_back(m.rvars[d]);
  return {std::move(from), std::move(to)};
}

/// 16-bit floats that the group itself computes are compared as they are stored: a kernel may hand them on with more
/// precision, which is for arithmetic alone. Results are read as they are stored in any case: gradients are computed of
/// what a forward graph has kept, and cancel only where it went on with the same numbers.
ir::Scalar read_as_stored(ir::Graph& graph, const Group& group, const Operation& op, ir::Scalar body) {
  std::set<BufferId> made;
  for (const Member& m : group.members)
    for (BufferId out : graph.operations()[m.op].outs)
      if (const DType t = graph.buffer(out).layout.dtype; t == DType::F16 || t == DType::BF16) made.insert(out);
  if (made.empty() || !body) return body;
  std::set<ir::Scalar> as_stored;
  const auto note = [&](ir::Scalar s) {
    if (ir::is_load(s) && made.contains(s->buffer)) as_stored.insert(s);
  };
  for (ir::Scalar s : ir::loads(body))
    if (graph.buffer(s->buffer).is_output) note(s);
  // Nothing but the smallest numbers changes its sign as it is stored.
  const auto is_zero = [](ir::Scalar s) { return s->op == ir::ScalarOp::Constant && s->number == 0; };
  for (ir::Scalar s : ir::topological({&body, 1}))
    if (ir::is_comparison(s->op) && std::ranges::none_of(s->args, is_zero)) std::ranges::for_each(s->args, note);
  if (const auto* r = std::get_if<ir::Reduction>(&op.node);
      r && (r->kind == ir::ReductionKind::ArgMax || r->kind == ir::ReductionKind::ArgMin))
    std::ranges::for_each(ir::loads(body), note);
  if (as_stored.empty()) return body;
  return graph.pool().replace_loads(body, [&](ir::Scalar s) -> ir::Scalar {
    if (!as_stored.contains(s)) return s;
    return graph.pool().exactly({.op = ir::ScalarOp::Round, .dtype = s->dtype, .args = {s}, .rounded = s->rounded});
  });
}

}  // namespace

ir::Scalar body_in_group(ir::Graph& graph, const Group& group, const Member& m) {
  const Operation& op = graph.operations()[m.op];
  const auto [from, to] = renaming(graph, m);
  ir::Scalar body = std::visit(
      [](const auto& n) -> ir::Scalar {
        if constexpr (requires { n.body; })
          return n.body;
        else
          return nullptr;
      },
      op.node);
  body = read_as_stored(graph, group, op, body);
  if (from == to) return body;
  const auto loops = loop_vars(graph, group);
  return graph.pool().substitute(body, from, to, [&](Expr e) { return graph.env().simplify(e, loops); });
}

std::vector<sym::LoopVar> loop_vars(ir::Graph& graph, const Group& group) {
  std::vector<sym::LoopVar> out;
  for (std::size_t d = 0; d < group.outer.size(); ++d) out.push_back({graph.ivar(d), group.outer[d]});
  for (std::size_t d = 0; d < group.inner.size(); ++d) out.push_back({graph.rvar(d), group.inner[d]});
  return out;
}

namespace {

bool names_variable(Expr e, char prefix) {
  for (Expr s : sym::free_symbols(e))
    if (s.symbol_kind() == sym::SymbolKind::Loop && s.name()[0] == prefix) return true;
  return false;
}

class Fuser {
 public:
  Fuser(ir::Graph& graph, ChoicesOf choices) : graph_(graph), choices_of_(std::move(choices)) {}

  Schedule run() {
    live_ = ir::live_operations(graph_);
    blocks_ = ir::blocks(graph_);
    for (const Operation& op : graph_.operations())
      if (live_[op.id])
        for (BufferId b : ir::reads(op)) ++uses_[b].to_come;
    for (const Operation& op : graph_.operations())
      if (live_[op.id]) place(op);
    find_internal(graph_, out_);
    return std::move(out_);
  }

 private:
  struct Use {
    std::vector<std::size_t> writers, readers;  ///< items, ascending
    std::size_t to_come = 0;                    ///< operations that read it and are not placed yet
  };
  static constexpr std::size_t kReaders = 4;  ///< how many of the last readers of a buffer another reader may join
  /// Bookkeeping of an item: buffers it touches, size of its bodies.
  struct Info {
    std::set<BufferId> reads, writes;
    std::set<std::int64_t> draws;  ///< numbers of the random bits that its bodies draw (ScalarOp::Random)
    std::size_t scalar_ops = 0, block = 0;
    bool is_copy = false, may_fail = false, adds_up = false;
    Device device;
  };

  /// Which of the items before an operation it must follow, may join, or may not join.
  struct Before {
    std::size_t earliest = 0;         ///< the first item that it may be part of
    std::set<std::size_t> conflicts;  ///< items that it may follow but not join
    std::set<std::size_t> producers;  ///< of what it reads
    /// Items that read a buffer which the operation writes: it may join one of them if that reads each element before
    /// the operation writes it.
    std::set<std::size_t> overwrites;
  };

  Before items_before(const Operation& op, const std::vector<BufferId>& reads) {
    Before out;
    for (Expr s : ir::runtime_symbols(graph_, op))
      if (auto made = definitions_.find(s); made != definitions_.end())
        out.earliest = std::max(out.earliest, made->second), out.conflicts.insert(made->second);
    for (BufferId b : reads)
      for (std::size_t w : uses_[b].writers) out.earliest = std::max(out.earliest, w), out.producers.insert(w);
    for (BufferId b : op.outs) {
      for (std::size_t w : uses_[b].writers) {
        out.earliest = std::max(out.earliest, w);
        const bool last = w == uses_[b].writers.back();  // items before the last writer cannot be joined anyway
        if (!last || !writes_beside(op, reads, w, b)) out.conflicts.insert(w);
      }
      for (std::size_t r : uses_[b].readers) out.earliest = std::max(out.earliest, r), out.overwrites.insert(r);
    }
    return out;
  }

  /// The items that an operation shares data with, the last first. A copy joins what makes its value, or nothing.
  std::set<std::size_t, std::greater<>> candidates(const Operation& op, const std::vector<BufferId>& reads,
                                                   const std::set<std::size_t>& producers, bool copy) {
    std::set<std::size_t, std::greater<>> out;
    if (!copy || needs_no_memory(reads[0])) out.insert(producers.begin(), producers.end());
    const auto add_last = [&](const std::vector<std::size_t>& items) {
      out.insert(items.end() - static_cast<std::ptrdiff_t>(std::min(items.size(), kReaders)), items.end());
    };
    for (BufferId b : reads)
      if (!copy) add_last(uses_[b].readers);
    for (std::int64_t draw : draws_of(op)) add_last(drawers_[draw]);
    return out;
  }

  /// Why an operation cannot be part of an item, whatever their loops; empty where it can.
  std::string_view obstacle(std::size_t item, const Operation& op, const std::vector<BufferId>& reads,
                            const Before& before) {
    const Info& info = infos_[item];
    if (!std::holds_alternative<Group>(out_.items[item])) return "the other is a library call or runs alone";
    if (info.is_copy) return "the other is a copy, which costs nothing where both sides can share memory";
    if (info.device != ir::device_of(graph_, op)) return "the two run on different devices";
    if (info.may_fail && writes_to_caller(op))
      return "the other may fail half way, and this one writes to memory of the caller";
    if (info.block != blocks_[op.id]) return "one runs in a branch or a loop that the other is not in";
    if (info.adds_up && adds_up_over_ranks(op, reads))
      return "each adds up over the ranks, which a kernel does with one operand";
    if (item < before.earliest) return "an operation between them needs the one and feeds the other";
    if (before.conflicts.contains(item)) return "one writes a buffer that the other touches";
    return {};
  }

  void place(const Operation& op) {
    const std::vector<BufferId> reads = ir::reads(op);
    choices_ = &choices_of_(ir::device_of(graph_, op));
    if (!std::holds_alternative<ir::Pointwise>(op.node) && !std::holds_alternative<ir::Reduction>(op.node)) {
      start_item(op, reads);
      return;
    }
    const Before items = items_before(op, reads);
    const bool copy = is_copy(op);
    std::optional<std::size_t> best;
    Joined best_joined;
    for (std::size_t c : candidates(op, reads, items.producers, copy)) {
      std::string reason{obstacle(c, op, reads, items)};
      std::optional<Joined> joined;
      if (reason.empty())
        joined = join(std::get<Group>(out_.items[c]), infos_[c], op, reads, items.overwrites.contains(c), reason);
      if (!joined) {
        if (items.producers.contains(c) && std::holds_alternative<Group>(out_.items[c]))
          out_.refusals.push_back({std::get<Group>(out_.items[c]).members.back().op, op.id, reason});
        continue;
      }
      if (!best || joined->gain > best_joined.gain) best = c, best_joined = std::move(*joined);
    }
    if (best && (best_joined.gain > 0 || items.producers.contains(*best))) {
      out_.items[*best] = std::move(best_joined.group);
      record(*best, op, reads);
    } else {
      start_item(op, reads);
      infos_.back().is_copy = copy;
    }
  }

  /// Whether an operation copies a whole value to memory of the caller, or into a buffer of which parts are written
  /// later. Such a copy is a kernel of its own, which passes/wrapper/coalesce_copies.h may find needless.
  bool is_copy(const Operation& op) {
    const ir::Buffer& to = graph_.buffer(op.outs[0]);
    return (to.kind != ir::BufferKind::Computed || to.writers.size() > 1) && ir::copied_buffer(graph_, op);
  }

  bool adds_up_over_ranks(const Operation& op, const std::vector<BufferId>& reads) const {
    return op.is_loop() && std::ranges::any_of(reads, [&](BufferId b) { return ir::is_peer_sum(graph_, b); });
  }

  bool writes_to_caller(const Operation& op) {
    return std::ranges::any_of(op.outs, [&](BufferId b) { return graph_.buffer(b).kind != ir::BufferKind::Computed; });
  }

  /// Whether the operation and the item write different parts of a buffer and neither reads it, so that their order
  /// does not matter.
  bool writes_beside(const Operation& op, const std::vector<BufferId>& reads, std::size_t item, BufferId buffer) {
    const auto* group = std::get_if<Group>(&out_.items[item]);
    if (!group || !std::holds_alternative<ir::Pointwise>(op.node) || infos_[item].reads.contains(buffer) ||
        std::ranges::find(reads, buffer) != reads.end())
      return false;
    return std::ranges::all_of(group->members, [&](const Member& m) {
      const Operation& other = graph_.operations()[m.op];
      return other.outs[0] != buffer ||
             (std::holds_alternative<ir::Pointwise>(other.node) && ir::stores_apart(graph_, op, other));
    });
  }

  /// Whether the copy of a value is its only use outside of the kernel that makes it. Then the kernel stores it where
  /// it is copied to, and the value needs no memory.
  bool needs_no_memory(BufferId b) {
    const Use& use = uses_[b];
    return use.writers.size() == 1 && use.to_come == 1 &&
           std::all_of(use.readers.begin(), use.readers.end(), [&](std::size_t r) { return r == use.writers[0]; });
  }

  void start_item(const Operation& op, const std::vector<BufferId>& reads) {
    Group g;
    if (auto* p = std::get_if<ir::Pointwise>(&op.node)) {
      g.outer = p->sizes;
      g.members.push_back({op.id, Role::Outer, 0, graph_.ivars(p->sizes.size()), {}});
    } else if (auto* r = std::get_if<ir::Reduction>(&op.node)) {
      g.outer = r->sizes;
      g.inner = r->reduced;
      g.members.push_back({op.id, Role::Reduce, 0, graph_.ivars(r->sizes.size()), graph_.rvars(r->reduced.size())});
    } else if (auto* s = std::get_if<ir::Scan>(&op.node)) {
      Member m{op.id, Role::Scan, 0, {}, {}};
      for (std::size_t d = 0; d < s->sizes.size(); ++d) {
        m.ivars.push_back(d == s->dim ? graph_.rvar(0) : graph_.ivar(g.outer.size()));
        if (d != s->dim) g.outer.push_back(s->sizes[d]);
      }
      g.inner = {s->sizes[s->dim]};
      g.members.push_back(std::move(m));
    } else {
      out_.items.push_back(Single{op.id});
      infos_.emplace_back();
      record(out_.items.size() - 1, op, reads);
      return;
    }
    out_.items.push_back(std::move(g));
    infos_.emplace_back();
    record(out_.items.size() - 1, op, reads);
  }

  void record(std::size_t item, const Operation& op, const std::vector<BufferId>& reads) {
    auto add = [item](std::vector<std::size_t>& list) {
      if (list.empty() || list.back() != item) list.insert(std::upper_bound(list.begin(), list.end(), item), item);
    };
    for (BufferId b : reads) add(uses_[b].readers), infos_[item].reads.insert(b), --uses_[b].to_come;
    for (std::int64_t draw : draws_of(op)) add(drawers_[draw]), infos_[item].draws.insert(draw);
    for (BufferId b : op.outs) add(uses_[b].writers), infos_[item].writes.insert(b);
    infos_[item].scalar_ops += body_ops(op);
    infos_[item].block = blocks_[op.id];
    infos_[item].device = ir::device_of(graph_, op);
    infos_[item].adds_up |= adds_up_over_ranks(op, reads);
    if (const auto* loop = std::get_if<ir::Pointwise>(&op.node)) infos_[item].may_fail |= ir::may_fail(loop->body);
    if (const auto* loop = std::get_if<ir::Reduction>(&op.node)) infos_[item].may_fail |= ir::may_fail(loop->body);
    if (auto symbol = op.defined_symbol()) definitions_[*symbol] = item;
    // What is computed with a symbol may rely on what was asserted of it.
    if (std::holds_alternative<ir::Assertion>(op.node))
      for (Expr s : ir::runtime_symbols(graph_, op)) definitions_[s] = item;
  }

  static std::vector<ir::Scalar> random_bits_of(const Operation& op) {
    std::vector<ir::Scalar> out;
    if (const ir::Scalar body = op.body())
      for (ir::Scalar s : ir::topological({&body, 1}))
        if (s->op == ir::ScalarOp::Random) out.push_back(s);
    return out;
  }

  static std::set<std::int64_t> draws_of(const Operation& op) {
    std::set<std::int64_t> out;
    for (ir::Scalar s : random_bits_of(op)) out.insert(s->integer);
    return out;
  }

  static std::size_t body_ops(const Operation& op) {
    const ir::Scalar body = op.body();
    return body ? body->ops : 0;
  }

  std::int64_t bytes(BufferId b) {
    const ir::Layout& l = graph_.buffer(b).layout;
    return graph_.env().hint_or(sym::product(l.sizes), 1 << 16) * static_cast<std::int64_t>(size_of(l.dtype));
  }

  /// Where a load reads, or which element random bits are of, over a group's variables; nothing when data decides it.
  std::optional<Expr> place_of(ir::Scalar s, const Member& m) {
    const bool random = s->op == ir::ScalarOp::Random;
    if (!random && !s->args.empty()) return std::nullopt;
    const auto [from, to] = renaming(graph_, m);
    const Exprs index = s->op == ir::ScalarOp::Load ? s->index : Exprs{s->index[0]};
    Exprs moved;
    for (Expr e : index) moved.push_back(sym::substitute(e, from, to));
    return s->op == ir::ScalarOp::Load ? ir::linear_index(graph_.buffer(s->buffer).layout, moved) : moved[0];
  }

  /// Whether the operation goes through what it takes (loads of one buffer, or one operator's random bits) as a member
  /// of the group does: what the one has at hand is near for the other. Two that go through it in different orders
  /// share nothing.
  bool goes_alike(const Group& group, const Operation& op, const Member& member,
                  const std::function<std::vector<ir::Scalar>(const Operation&)>& taken) {
    const auto loops = loop_vars(graph_, group);
    for (ir::Scalar mine : taken(op)) {
      const std::optional<Expr> at = place_of(mine, member);
      if (!at) return true;
      for (const Member& m : group.members) {
        for (ir::Scalar s : taken(graph_.operations()[m.op])) {
          const std::optional<Expr> there = place_of(s, m);
          if (!there || *there == *at) return true;
          const Expr distance = graph_.env().simplify(*at - *there, loops);
          if (!names_variable(distance, 'i') && !names_variable(distance, 'r')) return true;
        }
      }
    }
    return false;
  }

  bool reads_alike(const Group& group, const Operation& op, const Member& member, BufferId b) {
    return goes_alike(group, op, member, [b](const Operation& of) {
      std::vector<ir::Scalar> loads = loads_of(of);
      std::erase_if(loads, [b](ir::Scalar s) { return s->buffer != b; });
      return loads;
    });
  }

  bool draws_alike(const Group& group, const Operation& op, const Member& member, std::int64_t draw) {
    return goes_alike(group, op, member, [draw](const Operation& of) {
      std::vector<ir::Scalar> bits = random_bits_of(of);
      std::erase_if(bits, [draw](ir::Scalar s) { return s->integer != draw; });
      return bits;
    });
  }

  /// Bytes that need not be read again, or drawn again, when the operation joins as `member`; without one, the most
  /// that it could save in any place.
  std::int64_t saved_bytes(const Group& group, const Info& info, const Operation& op, const Member* member,
                           const std::vector<BufferId>& reads) {
    std::int64_t saved = 0;
    for (BufferId b : reads)
      if (info.writes.contains(b) || (info.reads.contains(b) && (!member || reads_alike(group, op, *member, b))))
        saved += bytes(b);
    if (info.draws.empty()) return saved;
    const std::int64_t drawn =
        graph_.env().hint_or(sym::product(op.sizes()), 1 << 16) * static_cast<std::int64_t>(sizeof(std::uint32_t));
    for (std::int64_t draw : draws_of(op))
      if (info.draws.contains(draw) && (!member || draws_alike(group, op, *member, draw))) saved += drawn;
    return saved;
  }

  /// A group that an operation has joined, and what that gains.
  struct Joined {
    Group group;
    std::int64_t gain = 0;
  };

  /// How many buffers of an item need memory: those that it alone touches do not, as far as is known by now.
  std::size_t buffers_with_memory(const Info& info) {
    const auto is_inside = [&](BufferId b) {
      return info.reads.contains(b) && graph_.buffer(b).kind == ir::BufferKind::Computed && uses_[b].to_come == 0 &&
             uses_[b].readers.size() == 1;
    };
    return info.reads.size() + info.writes.size() -
           2 * static_cast<std::size_t>(std::ranges::count_if(info.writes, is_inside));
  }

  std::optional<Joined> join(const Group& group, const Info& info, const Operation& op,
                             const std::vector<BufferId>& reads, bool overwrites, std::string& reason) {
    if (auto why = choices_->refuses(Pair{group.members.size(), buffers_with_memory(info) + reads.size()})) {
      reason = std::move(*why);
      return std::nullopt;
    }
    for (const Member& m : group.members)
      if (m.role == Role::Scan) {
        reason = "a scan runs alone";
        return std::nullopt;
      }
    reason = "their iteration spaces differ";
    const std::int64_t most = saved_bytes(group, info, op, nullptr, reads);
    std::optional<Joined> best;
    for (Placement& p : placements(graph_, group, op)) {
      Group joined = moved(group, p);
      Member m{op.id, p.role, 0, p.ivars, p.rvars};
      if (!bodies_fit(joined, info, op, m, reason) || !check_reads(joined, op, m, reason)) continue;
      if (overwrites && !overwrites_in_place(joined, op, m)) {
        reason = "one writes a buffer that the other touches";
        continue;
      }
      Joint joint = joint_of(group, joined, op);
      joint.row_bytes = row_bytes(joined, info, reads);
      joint.scattered = scattered(joined, op, m);
      if (auto why = choices_->refuses_loops(joint)) {
        reason = std::move(*why);
        continue;
      }
      joint.saved_bytes = saved_bytes(joined, info, op, &m, reads);
      const std::int64_t gain = choices_->gain(joint);
      if (best && gain <= best->gain) continue;
      joined.members.push_back(std::move(m));
      best = Joined{std::move(joined), gain};
      if (joint.saved_bytes == most) break;
    }
    return best;
  }

  /// Whether the group reads each element that the operation overwrites only at the point that overwrites it, and so
  /// before it is overwritten.
  bool overwrites_in_place(const Group& joined, const Operation& op, const Member& member) {
    if (!choices_->overwrites() || !joined.pointwise() || member.role != Role::Outer) return false;
    const auto loops = loop_vars(graph_, joined);
    const BufferId to = op.outs[0];
    const Expr stored = graph_.env().simplify(
        ir::linear_index(graph_.buffer(to).layout, store_in_group(graph_, joined, member)), loops);
    return std::ranges::all_of(joined.members, [&](const Member& m) {
      return std::ranges::all_of(loads_of(graph_.operations()[m.op]), [&](ir::Scalar load) {
        if (load->buffer != to) return true;
        const std::optional<Expr> at = place_of(load, m);
        return at && graph_.env().simplify(*at, loops) == stored;
      });
    });
  }

  /// Whether the kernel has at most as many scalar operations as the policy allows. Terms that several bodies over the
  /// same variables share count once.
  bool bodies_fit(const Group& group, const Info& info, const Operation& op, const Member& member,
                  std::string& reason) const {
    if (info.scalar_ops + body_ops(op) <= choices_->max_scalar_ops()) return true;
    std::vector<std::pair<const Member*, std::vector<ir::Scalar>>> bodies{{&member, {op.body()}}};
    for (const Member& m : group.members) {
      auto alike = std::find_if(bodies.begin(), bodies.end(),
                                [&](const auto& b) { return b.first->ivars == m.ivars && b.first->rvars == m.rvars; });
      if (alike == bodies.end()) alike = bodies.insert(alike, {&m, {}});
      alike->second.push_back(graph_.operations()[m.op].body());
    }
    std::size_t ops = 0;
    for (const auto& [over, roots] : bodies) ops += distinct_ops(roots);
    return ops <= choices_->max_scalar_ops() || no(reason, "the kernel's bodies are as large as the policy allows");
  }

  /// The group with its members rewritten for a new space.
  Group moved(const Group& group, const Placement& p) {
    Group out;
    out.outer = p.outer;
    out.inner = p.inner;
    out.members = group.members;
    Exprs from = graph_.ivars(group.outer.size()), to = p.old_outer;
    for (std::size_t d = 0; d < group.inner.size(); ++d) from.push_back(graph_.rvar(d)), to.push_back(p.old_inner[d]);
    const bool becomes_inner = group.pointwise() && p.role == Role::Reduce;
    if (from == to && !becomes_inner) return out;
    for (Member& m : out.members) {
      for (Expr& e : m.ivars) e = sym::substitute(e, from, to);
      for (Expr& e : m.rvars) e = sym::substitute(e, from, to);
      if (becomes_inner) m.role = Role::Inner;
    }
    return out;
  }

  /// Every value that the operation reads from the group must be made at the same outer point; sets the member's level.
  bool check_reads(const Group& group, const Operation& op, Member& member, std::string& reason) {
    const auto loops = loop_vars(graph_, group);
    const auto [from, to] = renaming(graph_, member);
    const bool inner_role = member.role != Role::Outer;
    for (ir::Scalar l : loads_of(op)) {
      auto made = std::find_if(group.members.begin(), group.members.end(),
                               [&](const Member& m) { return graph_.operations()[m.op].outs[0] == l->buffer; });
      if (made == group.members.end()) continue;
      if (graph_.buffer(l->buffer).writers.size() > 1)
        return no(reason, "the value read is put together by several operations");
      if (std::any_of(group.members.begin(), made, [&](const Member& m) { return loads_buffer(m, l->buffer); }))
        return no(reason, "the kernel reads what the value is written over");
      if (l->op != ir::ScalarOp::Load || !l->args.empty())
        return no(reason, "the value is read at places that data or strides decide");
      const Exprs stored = store_in_group(graph_, group, *made);
      bool same_point = true, same_outer = true;
      for (std::size_t d = 0; d < stored.size(); ++d) {
        Expr at = graph_.env().simplify(sym::substitute(l->index[d], from, to), loops);
        if (at == stored[d]) continue;
        same_point = false;
        if (made->role != Role::Inner || names_variable(stored[d], 'i') || !names_variable(stored[d], 'r'))
          same_outer = false;
      }
      if (!same_outer) return no(reason, "the value is read at other points than where it is made");
      if (!same_point && !graph_.operations()[made->op].store_index.empty())
        return no(reason, "the value is part of a larger buffer");
      if (made->role == Role::Inner && !inner_role) return no(reason, "one element of a row is read once a row");
      const bool later = inner_role && (!same_point || made->role != Role::Inner);
      member.level = std::max(member.level, made->level + (later ? 1 : 0));
    }
    return true;
  }

  bool loads_buffer(const Member& m, BufferId b) {
    return std::ranges::any_of(loads_of(graph_.operations()[m.op]), [b](ir::Scalar l) { return l->buffer == b; });
  }

  static bool no(std::string& reason, const char* why) {
    reason = why;
    return false;
  }

  /// Joint::scattered: elements that operations of a group with rows load or store with a distance between neighbours.
  std::int64_t scattered(const Group& joined, const Operation& op, const Member& member) {
    if (joined.inner.empty()) return 0;
    if (member.role == Role::Outer) return stores_across(joined, op, member) ? elements(op) : 0;
    std::int64_t most = member.role == Role::Inner && lies_apart(joined, op, member) ? elements(op) : 0;
    for (const Member& m : joined.members) {
      const Operation& other = graph_.operations()[m.op];
      if (m.role == Role::Inner && lies_apart(joined, other, m)) most = std::max(most, elements(other));
    }
    return most;
  }

  /// Whether results of short rows, which threads side by side make for neighbours in memory, would be stored with a
  /// distance between those neighbours.
  bool stores_across(const Group& joined, const Operation& op, const Member& member) {
    constexpr std::int64_t kShortRow = 16;
    if (graph_.env().hint_or(sym::product(joined.inner), kShortRow + 1) > kShortRow) return false;
    const Expr here = ir::linear_index(graph_.buffer(op.outs[0]).layout, store_in_group(graph_, joined, member));
    return std::ranges::any_of(joined.members, [&](const Member& m) {
      const Operation& other = graph_.operations()[m.op];
      if (m.role != Role::Reduce) return false;
      const Expr there = ir::linear_index(graph_.buffer(other.outs[0]).layout, store_in_group(graph_, joined, m));
      for (std::size_t d = 0; d < joined.outer.size(); ++d) {
        const auto mine = sym::linear_in(here, graph_.ivar(d)), theirs = sym::linear_in(there, graph_.ivar(d));
        const bool neighbours = theirs && theirs->coefficient.is_constant(1) && !joined.outer[d].is_constant(1);
        if (neighbours && !(mine && (mine->coefficient.is_constant(0) || mine->coefficient.is_constant(1))))
          return true;
      }
      return false;
    });
  }

  std::int64_t elements(const Operation& op) { return graph_.env().hint_or(sym::product(op.sizes()), 0); }

  /// Whether neighbours of a row lie apart in memory where the operation stores them, or in an operand of at least as
  /// many elements.
  bool lies_apart(const Group& joined, const Operation& op, const Member& member) {
    const auto apart = [&](Expr at) {
      const Exprs from{graph_.rvar(joined.inner.size() - 1)}, to{from[0] + 1};
      const Expr step = graph_.env().simplify(sym::substitute(at, from, to) - at, loop_vars(graph_, joined));
      return !step.is_constant(0) && !step.is_constant(1);
    };
    if (apart(ir::linear_index(graph_.buffer(op.outs[0]).layout, store_in_group(graph_, joined, member)))) return true;
    if (!std::holds_alternative<ir::Pointwise>(op.node)) return false;
    const auto [from, to] = renaming(graph_, member);
    return std::ranges::any_of(loads_of(op), [&](ir::Scalar l) {
      const ir::Layout& layout = graph_.buffer(l->buffer).layout;
      return l->op == ir::ScalarOp::Load && l->args.empty() &&
             graph_.env().hint_or(sym::product(layout.sizes), 0) >= elements(op) &&
             apart(sym::substitute(ir::linear_index(layout, l->index), from, to));
    });
  }

  /// Joint::row_bytes: bytes of a row in the widest type that the kernel reads from memory.
  std::int64_t row_bytes(const Group& joined, const Info& info, const std::vector<BufferId>& reads) {
    const auto row = graph_.env().simplify(sym::product(joined.inner)).constant();
    if (!row) return 0;
    std::size_t widest = 0;
    const auto see = [&](BufferId b) {
      if (!info.writes.contains(b)) widest = std::max(widest, size_of(graph_.buffer(b).layout.dtype));
    };
    std::ranges::for_each(info.reads, see);
    std::ranges::for_each(reads, see);
    return *row * static_cast<std::int64_t>(widest);
  }

  Joint joint_of(const Group& before, const Group& joined, const Operation& op) {
    const bool pointwise = std::holds_alternative<ir::Pointwise>(op.node);
    const std::int64_t many = choices_->min_parallel_outer();
    return {.rows = graph_.batch_invariant ? many : graph_.env().hint_or(sym::product(joined.outer), many),
            .row = graph_.env().hint_or(sym::product(joined.inner), 1),
            .mixes = !joined.pointwise() && (before.pointwise() || pointwise)};
  }

  ir::Graph& graph_;
  const ChoicesOf choices_of_;
  const Choices* choices_ = nullptr;  ///< of the device of the operation that is placed
  std::vector<bool> live_;
  std::vector<std::size_t> blocks_;
  std::unordered_map<Expr, std::size_t> definitions_;  ///< the items that define symbols
  std::unordered_map<BufferId, Use> uses_;
  std::unordered_map<std::int64_t, std::vector<std::size_t>>
      drawers_;  ///< items that draw the random bits of a number, ascending
  std::vector<Info> infos_;
  Schedule out_;
};

}  // namespace

std::optional<std::string> Choices::refuses(const Pair& pair) const {
  if (pair.members >= max_members()) return "the kernel has as many operations as the policy allows";
  if (pair.buffers > max_buffers()) return "the kernel touches as many buffers as the policy allows";
  return std::nullopt;
}

/// A large pointwise operation must not lose its parallelism to a reduction with few rows.
std::optional<std::string> Choices::refuses_loops(const Joint& joint) const {
  if (!joint.mixes || joint.rows >= min_parallel_outer() || joint.rows * joint.row < small_work() ||
      joint.row <= short_row())
    return std::nullopt;
  return "the rows are too few for the threads";
}

std::size_t distinct_ops(std::span<const ir::Scalar> roots) {
  std::size_t total = 0;
  for (ir::Scalar s : ir::topological(roots)) {
    std::size_t below = s->mask ? s->mask->ops : 0;
    for (ir::Scalar a : s->args) below += a->ops;
    total += below < s->ops ? s->ops - below : 1;
  }
  return total;
}

Schedule schedule(ir::Graph& graph, const Choices& choices) {
  return Fuser(graph, [&choices](Device) -> const Choices& { return choices; }).run();
}
Schedule schedule(ir::Graph& graph, const ChoicesOf& choices) { return Fuser(graph, choices).run(); }

}  // namespace coil::scheduler
