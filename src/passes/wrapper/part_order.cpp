// The order of calls that leaves few runs of recordable ones between cuts.
#include <algorithm>

#include "passes/wrapper/memory_order.h"
#include "passes/wrapper/partition.h"
#include "support/error.h"

namespace coil::wrapper {
namespace {

using scheduler::MemoryProgram;
using scheduler::StepId;
using Order = std::vector<StepId>;

constexpr std::size_t kMostTries = 64;  // of neighbouring cuts that are brought together one by one

/// Which steps no graph holds.
std::vector<bool> apart_steps(const Program& p, const LineSteps& steps, const target::Target& target) {
  const std::vector<Recorded> lines = recorded_lines(p, target);
  std::vector<bool> apart;
  for (std::size_t line : steps.line_of) apart.push_back(lines[line].as == Recorded::As::Apart);
  return apart;
}

std::size_t runs_in(const std::vector<bool>& apart, const Order& order) {
  std::size_t runs = 0;
  bool inside = false;
  for (StepId s : order) {
    runs += !apart[s] && !inside;
    inside = !apart[s];
  }
  return runs;
}

/// Takes all steps of one kind that may run, then all of the other, and so on. Beginning with the better kind this
/// changes kinds as seldom as any order does: what is taken late can only hold others up.
Order taken_by_kind(const MemoryProgram& program, const std::vector<bool>& apart, bool apart_first) {
  const std::size_t n = program.steps.size();
  std::vector<std::size_t> waits(n, 0);
  std::vector<std::vector<StepId>> behind(n);
  for (StepId s = 0; s < n; ++s)
    for (StepId before : program.steps[s].after) behind[before].push_back(s), ++waits[s];
  std::set<StepId> ready[2];
  for (StepId s = 0; s < n; ++s)
    if (waits[s] == 0) ready[apart[s]].insert(s);
  Order order;
  for (bool kind = apart_first; !ready[0].empty() || !ready[1].empty(); kind = !kind)
    while (!ready[kind].empty()) {
      const StepId s = *ready[kind].begin();
      ready[kind].erase(ready[kind].begin());
      order.push_back(s);
      for (StepId next : behind[s])
        if (--waits[next] == 0) ready[apart[next]].insert(next);
    }
  return order;
}

/// Two cuts and the run between them, as places in an order.
struct Between {
  std::size_t cut, run, next, end;
};

std::vector<Between> runs_between_cuts(const std::vector<bool>& apart, const Order& order) {
  std::vector<std::size_t> begins;  // of stretches of one kind
  for (std::size_t i = 0; i < order.size(); ++i)
    if (i == 0 || apart[order[i]] != apart[order[i - 1]]) begins.push_back(i);
  begins.push_back(order.size());
  std::vector<Between> found;
  for (std::size_t b = 0; b + 3 < begins.size(); ++b)
    if (apart[order[begins[b]]]) found.push_back({begins[b], begins[b + 1], begins[b + 2], begins[b + 3]});
  return found;
}

/// The order in which the run between two cuts is parted: what the first cut gives nothing to runs before both
/// (`early`: all of it, else what the second needs), the rest behind. Nothing where a step needs the first cut and is
/// needed by the second.
std::optional<Order> without_run(const MemoryProgram& program, const Order& order, const Between& at, bool early) {
  std::vector<bool> follows(program.steps.size(), false), needed(program.steps.size(), false);
  for (std::size_t i = at.cut; i < at.run; ++i) follows[order[i]] = true;
  for (std::size_t i = at.run; i < at.next; ++i)
    for (StepId s : program.steps[order[i]].after)
      if (follows[s]) follows[order[i]] = true;
  for (std::size_t i = at.end; i-- > at.run;)
    if (i >= at.next || needed[order[i]])
      for (StepId s : program.steps[order[i]].after) needed[s] = true;
  Order before, behind;
  for (std::size_t i = at.run; i < at.next; ++i) {
    const StepId s = order[i];
    if (follows[s] && needed[s]) return std::nullopt;
    (needed[s] || (early && !follows[s]) ? before : behind).push_back(s);
  }
  Order out(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(at.cut));
  const auto add = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) out.push_back(order[i]);
  };
  out.insert(out.end(), before.begin(), before.end());
  add(at.cut, at.run), add(at.next, at.end);
  out.insert(out.end(), behind.begin(), behind.end());
  add(at.end, order.size());
  return out;
}

/// Orders that need no more memory than the written one.
class Search {
 public:
  /// `guessed`: some sizes are, so that the last 256th of an arena says nothing.
  Search(const MemoryProgram& program, const std::vector<bool>& apart, bool guessed)
      : program_(program),
        apart_(apart),
        best_(scheduler::written_order(program)),
        peak_(scheduler::peak_of(program, best_).temporaries),
        packed_(packed_bytes(program, best_)),
        slack_(guessed ? packed_ / 256 : 0) {}

  Order run() {
    for (bool apart_first : {false, true}) take(taken_by_kind(program_, apart_, apart_first));
    for (std::size_t tries = 0; tries < kMostTries;) {
      bool better = false;
      for (const Between& at : runs_between_cuts(apart_, best_)) {
        for (bool early : {true, false}) {
          if (better || tries >= kMostTries) break;
          const auto order = without_run(program_, best_, at, early);
          if (!order) break;
          ++tries;
          better = take(*order);
        }
        if (better) break;
      }
      if (!better) break;
    }
    return std::move(best_);
  }

 private:
  bool take(Order order) {
    if (runs_in(apart_, order) >= runs_in(apart_, best_) || !fits(order)) return false;
    best_ = std::move(order);
    return true;
  }
  bool fits(const Order& order) const {
    return scheduler::peak_of(program_, order).temporaries <= peak_ &&
           packed_bytes(program_, order) <= packed_ + slack_;
  }

  const MemoryProgram& program_;
  const std::vector<bool>& apart_;
  Order best_;
  const std::uint64_t peak_, packed_, slack_;
};

}  // namespace

void order_for_parts(Program& p, const target::Target& target) {
  const LineSteps steps = steps_of(p, Exchanges::Stay, SymbolOrder::ByUse);
  const std::vector<bool> apart = apart_steps(p, steps, target);
  const Order written = scheduler::written_order(steps.program);
  p.part_counts = {runs_in(apart, written), runs_in(apart, written)};
  if (p.part_counts->written < 2) return;
  const bool guessed = std::ranges::any_of(p.buffers, [&](const Buffer& b) { return p.env->hint_or(b.bytes, -1) < 0; });
  const Order order = Search(steps.program, apart, guessed).run();
  COIL_CHECK(scheduler::respects(steps.program, order), "calls were moved over what they need");
  p.part_counts->now = runs_in(apart, order);
  if (p.part_counts->now < p.part_counts->written) reorder(p, steps, order);
}

}  // namespace coil::wrapper
