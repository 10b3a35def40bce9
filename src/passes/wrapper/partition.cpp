#include "passes/wrapper/partition.h"

#include <algorithm>

#include "library_ops/table.h"
#include "support/error.h"
#include "support/overloaded.h"
#include "sym/print.h"
#include "wrapper/failures.h"

namespace coil::wrapper {
namespace {

using As = Recorded::As;

/// Why a library call has work for the host in it.
std::string host_part(const CallExtern& call) {
  using library_ops::Trait;
  if (library_ops::has(call.op, Trait::Barrier)) return fmt::format("the host meets other processes in {}", call.op);
  const library_ops::Descriptor* known = library_ops::find(call.op);
  if (!known) return "";
  for (std::size_t k = 0; k < std::min(call.inputs.size(), known->operands.size()); ++k)
    if (known->operands[k].read_by_host)
      return fmt::format("the host reads the {} of {}", known->operands[k].name, call.op);
  return "";
}

bool is_recordable(const Line& l) {
  return std::holds_alternative<CallKernel>(l) || std::holds_alternative<CallExtern>(l) ||
         std::holds_alternative<CallUserKernel>(l);
}

class Classifier {
 public:
  Classifier(const Program& p, const target::Target& target)
      : p_(p), records_(target.has(target::Feature::RecordedGraphs)), guarded_(failure_sites(p).guarded) {
    for (const Line& l : p.lines) {
      if (const auto* r = std::get_if<ReadSymbol>(&l)) told_.insert(r->symbol);
      if (const auto* s = std::get_if<SetSymbol>(&l)) told_.insert(s->symbol);
    }
  }

  std::vector<Recorded> run() {
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      const Line& line = p_.lines[k];
      if (is_elsewhere(line))
        out_.push_back(
            apart(is_recordable(line) ? fmt::format("work that is not only {}'s", to_string(p_.device)) : ""));
      else
        out_.push_back(std::visit([&](const auto& l) { return of(l, k); }, line));
    }
    leave_blocks();
    while (leave_collectives()) leave_blocks();
    return std::move(out_);
  }

 private:
  static Recorded apart(std::string why) { return {As::Apart, std::move(why)}; }
  Recorded work() const { return records_ ? Recorded{As::Work} : apart("the device records no graphs"); }

  /// Whether the line touches memory of another device than the program's own.
  bool is_elsewhere(const Line& line) const {
    if (p_.others.empty()) return false;
    Uses u = uses(line);
    u.reads.insert(u.reads.end(), u.writes.begin(), u.writes.end());
    if (const auto* a = std::get_if<Allocate>(&line)) u.reads.push_back(a->buffer);
    if (const auto* f = std::get_if<Free>(&line)) u.reads.push_back(f->buffer);
    return std::ranges::any_of(u.reads, [&](BufferId b) { return p_.place_of(b) != 0; });
  }

  Recorded of(const DefineSymbol&, std::size_t) const { return apart(""); }
  /// What is asserted of sizes alone is checked before a run.
  Recorded of(const Assert& a, std::size_t) const {
    return apart(is_told(a.condition) ? "the host checks what data tell" : "");
  }
  Recorded of(const CallKernel&, std::size_t) const { return work(); }
  Recorded of(const CallExtern& call, std::size_t at) const {
    if (std::string why = host_part(call); !why.empty()) return apart(std::move(why));
    if (guarded_.contains(at)) return checked_before(call.op);
    return work();
  }
  Recorded of(const CallFallback& call, std::size_t) const {
    return apart(fmt::format("{} is the host program's to carry out", call.op));
  }
  Recorded of(const CallUserKernel& call, std::size_t at) const {
    if (p_.device.is_host()) return apart(fmt::format("{} runs in the host program", call.kernel->symbol));
    return guarded_.contains(at) && !call.kernel->has_status() ? checked_before(call.kernel->symbol) : work();
  }
  static Recorded checked_before(const std::string& name) {
    return apart(fmt::format("the host looks for failures before {} writes to memory of the caller", name));
  }
  Recorded of(const ReadSymbol& r, std::size_t) const {
    return apart(fmt::format("the host reads {} from {}", sym::to_string(r.symbol), p_.buffers[r.source].name));
  }
  Recorded of(const SetSymbol& s, std::size_t) const {
    return apart(fmt::format("the host computes {}", sym::to_string(s.symbol)));
  }
  Recorded of(const Control& c, std::size_t) const {
    if (!records_) return apart("the device records no graphs");
    if (is_told(c.condition) || is_told(c.extent) || (c.kind == Kind::Loop && c.extent.is_constant(sym::Range::kMax)))
      return apart(c.kind == Kind::If ? "data decide a branch" : "data decide the turns of a loop");
    return {As::Work};
  }
  Recorded of(const auto&, std::size_t) const { return {}; }

  bool is_told(Expr e) const {
    return std::ranges::any_of(sym::free_symbols(e), [&](Expr s) { return told_.contains(s); });
  }

  /// Where a line of a block lies apart, so do the block's borders; and where what a turn of a loop needs memory for
  /// is another in each turn.
  void leave_blocks() {
    struct Block {
      std::vector<std::size_t> borders;
      Exprs counters;
      std::string why;
    };
    std::vector<Block> open;
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      const auto* c = std::get_if<Control>(&p_.lines[k]);
      if (c && (c->kind == Kind::If || c->kind == Kind::Loop)) open.push_back({});
      if (c && c->kind == Kind::Loop) open.back().counters.push_back(c->counter);
      if (open.empty()) continue;
      if (c) open.back().borders.push_back(k);
      if (out_[k].as == As::Apart && open.back().why.empty())
        open.back().why = c ? out_[k].why : "a block around what no graph holds";
      for (const Block& block : open)
        if (const auto* a = std::get_if<Allocate>(&p_.lines[k]); a && mentions(p_.buffers[a->buffer], block.counters))
          open.back().why = "memory of another size in each turn of a loop";
      if (!c || (c->kind != Kind::EndIf && c->kind != Kind::EndLoop)) continue;
      const Block block = std::move(open.back());
      open.pop_back();
      if (block.why.empty()) continue;
      for (std::size_t border : block.borders)
        if (out_[border].as != As::Apart) out_[border] = apart(block.why);
      if (!open.empty() && open.back().why.empty()) open.back().why = "a block around what no graph holds";
    }
  }

  static bool mentions(const Buffer& b, const Exprs& symbols) {
    return std::ranges::any_of(sym::free_symbols(b.bytes),
                               [&](Expr s) { return std::ranges::find(symbols, s) != symbols.end(); });
  }

  /// A collective and what waits for it are of one recording, or of none. Whether some were found that are not.
  bool leave_collectives() {
    bool found = false;
    std::map<BufferId, std::pair<std::size_t, std::size_t>> open;  // what gives each result: the line, and its run
    std::size_t run = 0;
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      run += out_[k].as == As::Apart;
      const auto* call = std::get_if<CallExtern>(&p_.lines[k]);
      if (!call || call->outputs.empty()) continue;
      if (library_ops::has(call->op, library_ops::Trait::Collective)) open[call->outputs[0].buffer] = {k, run};
      if (!library_ops::has(call->op, library_ops::Trait::Wait)) continue;
      const auto given = open.find(call->outputs[0].buffer);
      if (given == open.end() || (given->second.second == run && out_[k].as != As::Apart)) continue;
      for (std::size_t line : {given->second.first, k}) {
        if (out_[line].as == As::Apart) continue;
        found = true;
        out_[line] = apart(
            fmt::format("{} and its wait are not of one part", std::get<CallExtern>(p_.lines[given->second.first]).op));
      }
    }
    return found;
  }

  using Kind = Control::Kind;
  const Program& p_;
  const bool records_;
  const std::set<std::size_t> guarded_;
  std::unordered_set<Expr> told_;  ///< symbols that a run tells, but for the counters of loops
  std::vector<Recorded> out_;
};

struct Run {
  std::size_t first, end;
};

/// The runs of lines that become parts. Memory that is let go of before a run's first call, and what is made behind
/// its last, is that of its neighbours.
std::vector<Run> runs_of(const Program& p, const std::vector<Recorded>& lines) {
  const auto starts_behind = [](const Line& l) {
    return std::holds_alternative<Free>(l) || std::holds_alternative<FreeComm>(l) ||
           std::holds_alternative<DefineKernel>(l);
  };
  const auto ends_before = [](const Line& l) {
    return std::holds_alternative<Allocate>(l) || std::holds_alternative<AllocateComm>(l) ||
           std::holds_alternative<Reuse>(l) || std::holds_alternative<DefineKernel>(l);
  };
  std::vector<Run> found;
  for (std::size_t k = 0; k < lines.size();) {
    std::size_t end = k, first = k;
    while (end < lines.size() && lines[end].as != As::Apart) ++end;
    k = end + 1;
    while (first < end && starts_behind(p.lines[first])) ++first;
    while (end > first && ends_before(p.lines[end - 1])) --end;
    std::size_t calls = 0;
    for (std::size_t i = first; i < end; ++i) calls += is_recordable(p.lines[i]);
    if (calls >= kFewestCalls) found.push_back({first, end});
  }
  return found;
}

/// Items in the order in which they first came.
template <class T>
class InOrder {
 public:
  void add(const T& item) {
    if (known_.insert(item).second) items_.push_back(item);
  }
  bool contains(const T& item) const { return known_.contains(item); }
  const std::vector<T>& items() const { return items_; }

 private:
  std::unordered_set<T> known_;
  std::vector<T> items_;
};

/// What crosses the borders of these lines.
Part part_of(const Program& p, Run run) {
  InOrder<BufferId> made, used, written, freed;
  InOrder<Expr> counters, symbols;
  for (std::size_t k = run.first; k < run.end; ++k) {
    const Line& line = p.lines[k];
    if (const auto* a = std::get_if<Allocate>(&line)) made.add(a->buffer);
    if (const auto* a = std::get_if<AllocateComm>(&line)) made.add(a->buffer);
    if (const auto* f = std::get_if<Free>(&line)) used.add(f->buffer), freed.add(f->buffer);
    if (const auto* f = std::get_if<FreeComm>(&line)) used.add(f->buffer), freed.add(f->buffer);
    if (const auto* r = std::get_if<Reuse>(&line)) used.add(r->from), made.add(r->to);
    if (const auto* c = std::get_if<Control>(&line); c && c->kind == Control::Kind::Loop) counters.add(c->counter);
    const Uses u = uses(line);
    for (BufferId b : u.reads) used.add(b);
    for (BufferId b : u.writes) used.add(b), written.add(b);
    for_each_expr(p, line, [&](Expr e) {
      for (Expr s : sym::free_symbols(e)) symbols.add(s);
    });
  }
  Part part;
  for (BufferId b : used.items())
    if (!made.contains(b)) part.inputs.push_back(b), part.written.push_back(written.contains(b));
  for (BufferId b : made.items())
    if (!freed.contains(b)) part.outputs.push_back(b);
  for (Expr s : symbols.items())
    if (!counters.contains(s)) part.symbols.push_back(s);
  return part;
}

}  // namespace

std::vector<Recorded> recorded_lines(const Program& p, const target::Target& target) {
  return Classifier(p, target).run();
}

void partition(Program& p, const target::Target& target) {
  std::erase_if(p.lines, [](const Line& l) {
    return std::holds_alternative<BeginPart>(l) || std::holds_alternative<EndPart>(l);
  });
  p.parts.clear();
  std::vector<Line> lines;
  std::size_t at = 0;
  for (const Run& run : runs_of(p, recorded_lines(p, target))) {
    p.parts.push_back(part_of(p, run));
    for (; at < run.first; ++at) lines.push_back(p.lines[at]);
    lines.emplace_back(BeginPart{p.parts.size() - 1});
    for (; at < run.end; ++at) lines.push_back(p.lines[at]);
    lines.emplace_back(EndPart{p.parts.size() - 1});
  }
  for (; at < p.lines.size(); ++at) lines.push_back(p.lines[at]);
  p.lines = std::move(lines);
}

std::string parts_text(const Program& p, const target::Target& target) {
  const std::vector<Recorded> lines = recorded_lines(p, target);
  std::string text;
  std::size_t calls = 0, inside = 0, alone = 0;
  std::vector<std::pair<std::string, std::size_t>> reasons;  // of the cut being walked over, with how often each
  bool in_part = false;
  const auto tell_cut = [&] {
    if (alone > 0) text += fmt::format("  calls too few for a graph: {}\n", alone);
    for (const auto& [why, times] : reasons)
      text += fmt::format("  cut: {}{}\n", why, times > 1 ? fmt::format(" ({} times)", times) : "");
    reasons.clear(), alone = 0;
  };
  for (std::size_t k = 0; k < p.lines.size(); ++k) {
    if (std::holds_alternative<BeginPart>(p.lines[k])) tell_cut(), in_part = true, inside = 0;
    if (const auto* end = std::get_if<EndPart>(&p.lines[k])) {
      const Part& part = p.parts[end->part];
      text += fmt::format("  part {}: {} calls; {} buffers and {} sizes in, {} buffers out\n", end->part, inside,
                          part.inputs.size(), part.symbols.size(), part.outputs.size());
      in_part = false, calls += inside;
    }
    if (is_recordable(p.lines[k])) ++(in_part ? inside : alone);
    if (lines[k].as != As::Apart) continue;
    alone -= is_recordable(p.lines[k]);
    if (lines[k].why.empty()) continue;
    const auto seen = std::ranges::find(reasons, lines[k].why, &std::pair<std::string, std::size_t>::first);
    if (seen == reasons.end())
      reasons.emplace_back(lines[k].why, 1);
    else
      ++seen->second;
  }
  tell_cut();
  if (text.empty() || !p.part_counts) return "";  // nobody asked for parts
  std::string head = fmt::format("\nParts that are recorded: {}, of {} calls", p.parts.size(), calls);
  if (p.part_counts && p.part_counts->now < p.part_counts->written)
    head += fmt::format("; {} runs of calls between cuts, {} as written", p.part_counts->now, p.part_counts->written);
  return head + "\n" + text;
}

}  // namespace coil::wrapper
