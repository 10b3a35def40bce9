#include "passes/wrapper/memory_order.h"

#include <algorithm>

#include "library_ops/table.h"
#include "runtime/plan/arena_planner.h"
#include "wrapper/failures.h"

namespace coil::wrapper {
namespace {

using scheduler::MemoryStep;
using scheduler::StepId;
using scheduler::StorageClass;
using scheduler::StorageId;

constexpr std::int64_t kUnknownBytes = 1 << 16;  // of a buffer whose size nothing hints at

bool plans_memory(const Line& l) {
  return std::holds_alternative<Allocate>(l) || std::holds_alternative<Reuse>(l) || std::holds_alternative<Free>(l);
}

bool has(const Line& l, library_ops::Trait trait) {
  const auto* call = std::get_if<CallExtern>(&l);
  return call && library_ops::has(call->op, trait);
}

/// An exchange with other processes begins, or is waited for.
bool exchanges_or_waits(const Line& l) {
  using library_ops::Trait;
  return has(l, Trait::Collective) || has(l, Trait::Wait) || has(l, Trait::Exchange);
}

/// What tells a symbol, or is asserted of some.
bool is_about_symbols(const Line& l) {
  return std::holds_alternative<DefineSymbol>(l) || std::holds_alternative<Assert>(l) ||
         std::holds_alternative<ReadSymbol>(l) || std::holds_alternative<SetSymbol>(l);
}

/// Nothing moves over it: what is asserted or computed for what follows.
bool is_fence(const Line& l, SymbolOrder order) {
  return (order == SymbolOrder::AsWritten && is_about_symbols(l)) || std::holds_alternative<DefineSymbol>(l) ||
         std::holds_alternative<Control>(l);
}

bool is_carried_out_by_host(const Line& l) {
  return std::holds_alternative<CallFallback>(l) || std::holds_alternative<CallUserKernel>(l);
}

/// Whether data can make the call fail: of library calls all but the plain arithmetic of products and convolutions.
bool may_fail(const Line& l) {
  using library_ops::Trait;
  if (!failure_of(l).empty()) return true;
  if (const auto* call = std::get_if<CallExtern>(&l))
    return std::ranges::none_of(
        std::initializer_list<Trait>{Trait::Product, Trait::Convolution, Trait::ConvolutionGradient, Trait::Kernel},
        [&](Trait t) { return library_ops::has(call->op, t); });
  return is_carried_out_by_host(l);
}

/// Keeps what may fail and what writes to memory of the caller in order: where a run fails, the caller finds written
/// what was written before.
class FailureOrder {
 public:
  explicit FailureOrder(LineSteps& steps) : steps_(steps) {}

  void add(StepId step, bool fails, bool writes) {
    if (writes) follow(step, failing_, behind_failing_);
    if (fails) follow(step, writing_, behind_writing_);
    if (fails) failing_.push_back(step);
    if (writes) writing_.push_back(step);
  }

 private:
  /// The step comes behind all of `others`, or behind a step that does.
  void follow(StepId step, std::vector<StepId>& others, std::optional<StepId>& behind) {
    if (!others.empty()) {
      if (behind) others.push_back(*behind);
      MemoryStep& own = steps_.program.steps[step];
      own.after.insert(own.after.end(), others.begin(), others.end());
      behind = step;
      others.clear();
    } else if (behind) {
      steps_.program.steps[step].after.push_back(*behind);
    }
  }

  LineSteps& steps_;
  std::vector<StepId> failing_, writing_;  ///< those that no step comes behind yet
  std::optional<StepId> behind_failing_, behind_writing_;
};

/// Blocks that the lines are in, and what is touched at their borders.
class Borders {
 public:
  explicit Borders(const Program& p) : touches_(p.lines.size()) {
    find_blocks(p);
    std::vector<std::vector<std::size_t>> lines(p.buffers.size());
    for (std::size_t k = 0; k < p.lines.size(); ++k) {
      const Uses u = uses(p.lines[k]);
      for (const auto* side : {&u.reads, &u.writes})
        for (BufferId b : *side) lines[b].push_back(k);
    }
    std::vector<bool> leaves(p.buffers.size(), false);
    for (const Output& o : p.outputs)
      if (auto* v = std::get_if<View>(&o.value)) leaves[v->buffer] = true;
    if (all_.size() == 1) return;
    for (BufferId b = 0; b < lines.size(); ++b)
      if (!lines[b].empty()) widen(b, lines[b], leaves[b] || p.buffers[b].kind == BufferKind::Input);
  }

  const std::vector<BufferId>& at(std::size_t line) const { return touches_[line]; }

 private:
  struct Block {
    std::size_t parent = 0, open = 0, close = 0, depth = 0;
  };

  /// Both sides of a branch are one block from `If` to `EndIf` to what lives in either and outside.
  void find_blocks(const Program& p) {
    all_.push_back({});
    std::vector<std::size_t> open_ifs;
    std::size_t current = 0, first_side = 0;
    for (std::size_t k = 0; k < p.lines.size(); ++k) {
      const auto* c = std::get_if<Control>(&p.lines[k]);
      if (c && c->closes()) {
        all_[current].close = k;
        first_side = current;
        if (c->kind == Control::Kind::EndIf) all_[other_side_[current]].close = k;
        current = all_[current].parent;
      }
      of_.push_back(current);
      if (!c || !c->opens()) continue;
      const bool is_else = c->kind == Control::Kind::Else;
      all_.push_back({current, is_else ? all_[first_side].open : k, k, all_[current].depth + 1});
      other_side_.push_back(is_else ? first_side : all_.size() - 1);
      current = all_.size() - 1;
    }
  }

  void widen(BufferId b, const std::vector<std::size_t>& lines, bool leaves) {
    std::size_t common = leaves ? 0 : of_[lines[0]];
    for (std::size_t k : lines) common = meet(common, of_[k]);
    for (std::size_t k : lines)
      for (std::size_t block = of_[k]; block != common; block = all_[block].parent)
        for (std::size_t border : {all_[block].open, all_[block].close})
          if (touches_[border].empty() || touches_[border].back() != b) touches_[border].push_back(b);
  }

  std::size_t meet(std::size_t a, std::size_t b) const {
    while (a != b) (all_[a].depth >= all_[b].depth ? a : b) = all_[all_[a].depth >= all_[b].depth ? a : b].parent;
    return a;
  }

  std::vector<Block> all_;
  std::vector<std::size_t> other_side_{0};  ///< of each block; a block without has itself
  std::vector<std::size_t> of_;
  std::vector<std::vector<BufferId>> touches_;
};

scheduler::Storage storage_of(const Program& p, const Buffer& b) {
  const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, p.env->hint_or(b.bytes, kUnknownBytes)));
  const StorageClass of = b.kind == BufferKind::Temporary ? StorageClass::Temporary
                          : b.kind == BufferKind::Output  ? StorageClass::Output
                                                          : StorageClass::Caller;
  return {bytes, of};
}

class StepsBuilder {
 public:
  StepsBuilder(const Program& p, Exchanges exchanges, SymbolOrder symbols)
      : p_(p), exchanges_(exchanges), symbols_(symbols), borders_(p), failures_(out_) {
    for (const Buffer& b : p.buffers) out_.program.storages.push_back(storage_of(p, b));
    add_given();
    count_results();
    takes_over_ = inputs_to_take(p);
    if (symbols == SymbolOrder::AsWritten) return;
    for (Expr s : runtime_symbols(p)) {
      places_.emplace(s, static_cast<StorageId>(out_.program.storages.size()));
      out_.program.storages.push_back({0, StorageClass::Caller});
    }
  }

  LineSteps run() {
    scheduler::StepOrder order(out_.program);
    for (std::size_t k = 0; k < p_.lines.size(); ++k) {
      const Line& line = p_.lines[k];
      if (plans_memory(line) || std::holds_alternative<DefineKernel>(line)) continue;
      Uses u = uses(line);
      const bool writes_to_caller = std::ranges::any_of(u.writes, [&](BufferId b) { return of_caller(b); });
      const std::vector<StorageId> mentioned = add_symbols(line, u);
      u.reads.insert(u.reads.end(), borders_.at(k).begin(), borders_.at(k).end());
      touch_given(u);
      const StepId step = order.add(u.reads, u.writes);
      out_.line_of.push_back(k);
      keep_order(step, line);
      if (exchanges_ == Exchanges::Move) keep_shared_memory(step, line);
      follow_assertions(step, line, mentioned);
      failures_.add(step, may_fail(line) || (!places_.empty() && std::holds_alternative<Assert>(line)),
                    writes_to_caller);
      if (const auto* call = std::get_if<CallKernel>(&line)) add_in_place(step, *call);
    }
    for (MemoryStep& step : out_.program.steps) {
      std::ranges::sort(step.after);
      step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
    }
    return std::move(out_);
  }

 private:
  bool of_caller(BufferId b) const {
    return out_.program.storages[b].of == StorageClass::Caller || out_.program.storages[b].of == StorageClass::Given;
  }

  /// Results come when they are made, and decide about the peak as well.
  void count_results() {
    const auto is_result = [](const Buffer& b) { return b.kind == BufferKind::Output; };
    if (std::ranges::any_of(p_.buffers, is_result)) out_.program.counts_callers = true;
  }

  /// Adds the memory of inputs that goes. All of it is the first input's of its number, and the others' is nothing.
  void add_given() {
    std::map<std::uint32_t, BufferId> first;
    for (const Input& in : p_.inputs) {
      if (!in.goes || in.mutated) continue;
      scheduler::Storage& storage = out_.program.storages[in.buffer];
      const auto [owner, added] = first.emplace(in.goes->number, in.buffer);
      storage = {added ? std::max(storage.bytes, in.goes->bytes) : 0, StorageClass::Given};
      if (!added) shared_given_[in.buffer] = owner->second;
      out_.program.counts_callers = true;
    }
  }

  /// Who reads a view of given memory touches the memory.
  void touch_given(Uses& u) const {
    if (shared_given_.empty()) return;
    const std::vector<BufferId> reads = u.reads;
    for (BufferId b : reads)
      if (const auto whole = shared_given_.find(b); whole != shared_given_.end()) u.reads.push_back(whole->second);
  }

  /// Symbols as values: what tells one writes it, what mentions it reads it. Gives those that the line mentions.
  std::vector<StorageId> add_symbols(const Line& line, Uses& u) const {
    std::vector<StorageId> mentioned;
    if (places_.empty()) return mentioned;
    const Uses touched = u;
    const auto mention = [&](Expr e) {
      for (Expr s : sym::free_symbols(e))
        if (const auto place = places_.find(s); place != places_.end()) mentioned.push_back(place->second);
    };
    for_each_expr(p_, line, mention);
    for (const auto* side : {&touched.reads, &touched.writes})
      for (BufferId b : *side) for_each_expr(p_, Allocate{b}, mention);
    const auto* read = std::get_if<ReadSymbol>(&line);
    const auto* set = std::get_if<SetSymbol>(&line);
    if (read || set) u.writes.push_back(places_.at(read ? read->symbol : set->symbol));
    u.reads.insert(u.reads.end(), mentioned.begin(), mentioned.end());
    return mentioned;
  }

  /// What comes behind an assertion about a symbol that it mentions may rely on it, and stays behind.
  void follow_assertions(StepId step, const Line& line, const std::vector<StorageId>& mentioned) {
    std::vector<StepId>& after = out_.program.steps[step].after;
    for (StorageId s : mentioned)
      if (std::holds_alternative<Assert>(line))
        asserted_[s].push_back(step);
      else if (const auto found = asserted_.find(s); found != asserted_.end())
        after.insert(after.end(), found->second.begin(), found->second.end());
  }

  void keep_order(StepId step, const Line& line) {
    std::vector<StepId>& after = out_.program.steps[step].after;
    using library_ops::Trait;
    const bool stays = exchanges_ == Exchanges::Stay && (has(line, Trait::Collective) || has(line, Trait::Wait));
    if (stays || is_fence(line, symbols_)) {
      after.insert(after.end(), since_fence_.begin(), since_fence_.end());
      if (fence_) after.push_back(*fence_);
      fence_ = step;
      since_fence_.clear();
      return;
    }
    if (fence_) after.push_back(*fence_);
    since_fence_.push_back(step);
    // What begins an exchange does so in the program's order. A rank may not come to a wait before it has begun what it
    // began before: others may need that to come to theirs.
    if (exchanges_or_waits(line) && exchange_) after.push_back(*exchange_);
    if (exchanges_or_waits(line) && !has(line, library_ops::Trait::Wait)) exchange_ = step;
    if (!is_carried_out_by_host(line)) return;
    if (host_) after.push_back(*host_);
    host_ = step;
  }

  /// What lies in memory that ranks share does so at the same places on all of them: whatever each of them has beside
  /// it, it comes and goes in the program's order.
  void keep_shared_memory(StepId step, const Line& line) {
    const Uses u = uses(line);
    const auto is_shared = [&](BufferId b) { return p_.buffers[b].comm.has_value(); };
    if (std::ranges::none_of(u.reads, is_shared) && std::ranges::none_of(u.writes, is_shared)) return;
    if (shared_memory_) out_.program.steps[step].after.push_back(*shared_memory_);
    shared_memory_ = step;
  }

  void add_in_place(StepId step, const CallKernel& call) {
    for (auto [from, to] : call.in_place)
      if ((p_.buffers[from].kind == BufferKind::Temporary || takes_over_.contains(from)) &&
          p_.buffers[to].kind == BufferKind::Temporary &&
          p_.env->statically_known_equal(p_.buffers[from].bytes, p_.buffers[to].bytes))
        out_.program.steps[step].in_place.emplace_back(from, to);
  }

  const Program& p_;
  const Exchanges exchanges_;
  const SymbolOrder symbols_;
  std::unordered_map<Expr, StorageId> places_;         ///< what stands for each symbol that the run tells
  std::set<BufferId> takes_over_;                      ///< inputs whose memory may become a temporary's
  std::map<BufferId, BufferId> shared_given_;          ///< views of given memory, with the input that has its bytes
  std::map<StorageId, std::vector<StepId>> asserted_;  ///< assertions about each so far
  LineSteps out_;
  Borders borders_;
  FailureOrder failures_;
  std::optional<StepId> fence_, host_, exchange_, shared_memory_;
  std::vector<StepId> since_fence_;
};

}  // namespace

std::uint64_t packed_bytes(const scheduler::MemoryProgram& program, std::span<const StepId> order) {
  // A chain of storages that hand their memory on is placed as one.
  const std::vector<scheduler::Life> life = scheduler::lives_in(program, order);
  std::vector<StorageId> owner(program.storages.size());
  for (StorageId s = 0; s < owner.size(); ++s) owner[s] = s;
  std::vector<runtime::Interval> intervals(program.storages.size());
  for (auto [from, to] : scheduler::hand_overs(program, order)) owner[to] = owner[from];
  for (StorageId s = 0; s < owner.size(); ++s) {
    if (program.storages[s].of != StorageClass::Temporary || life[s].first > life[s].last) continue;
    runtime::Interval& i = intervals[owner[s]];
    const auto first = static_cast<std::uint32_t>(life[s].first), last = static_cast<std::uint32_t>(life[s].last);
    i.first = i.bytes == 0 ? first : std::min(i.first, first);
    i.last = i.bytes == 0 ? last : std::max(i.last, last);
    i.bytes = program.storages[s].bytes;
  }
  return runtime::plan_arena(intervals, runtime::ArenaEffort::Call).peak;
}

void reorder(Program& p, const LineSteps& steps, std::span<const StepId> order) {
  std::vector<Line> lines;
  std::vector<bool> defined(p.kernels.size(), false);
  for (StepId s : order) {
    Line& line = p.lines[steps.line_of[s]];
    if (const auto* call = std::get_if<CallKernel>(&line))
      for_each_kernel(*call, [&](std::size_t kernel) {
        if (defined[kernel]) return;
        defined[kernel] = true;
        lines.emplace_back(DefineKernel{kernel});
      });
    lines.push_back(std::move(line));
  }
  p.lines = std::move(lines);
}

LineSteps steps_of(const Program& p, Exchanges exchanges, SymbolOrder symbols) {
  return StepsBuilder(p, exchanges, symbols).run();
}

void order_for_memory(Program& p) {
  const LineSteps steps = steps_of(p);
  const scheduler::MemoryOrder order = scheduler::order_for_memory(steps.program);
  const std::vector<StepId> written = scheduler::written_order(steps.program);
  p.memory_order = {order.written.temporaries, order.written.temporaries, "as written"};
  const std::uint64_t saved = order.written.temporaries - order.found.temporaries;
  // Where the caller's memory counts, temporaries lie in pieces, which come close to the estimate.
  const bool is_better =
      saved * 64 > order.written.temporaries &&
      (steps.program.counts_callers || packed_bytes(steps.program, order.steps) < packed_bytes(steps.program, written));
  if (is_better) p.memory_order = {order.written.temporaries, order.found.temporaries, std::string(order.name)};
  const std::vector<StepId> late = scheduler::begun_late(steps.program, is_better ? order.steps : written);
  if (late != written) reorder(p, steps, late);
}

}  // namespace coil::wrapper
