#include "scheduler/memory_order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "scheduler/memory_search.h"
#include "support/error.h"

namespace coil::scheduler {
namespace {

/// Takes one step after the other of those that may run, the best by what it does to what is live. The weight of a step
/// changes when it becomes the first or the last to touch a storage, which each storage does once.
class Lister {
 public:
  Lister(const MemoryProgram& program, Growth growth)
      : program_(program),
        growth_(growth),
        followers_(followers_of(program)),
        waits_(program.steps.size()),
        ready_now_(program.steps.size(), false),
        done_(program.steps.size(), false),
        left_(program.storages.size(), 0),
        there_(program.storages.size(), false),
        touched_by_(program.storages.size()) {
    for (StepId s = 0; s < program.steps.size(); ++s) {
      waits_[s] = program.steps[s].after.size();
      for (StorageId t : program.steps[s].touches) ++left_[t], touched_by_[t].push_back(s);
    }
  }

  std::vector<StepId> run() {
    for (StepId s = 0; s < program_.steps.size(); ++s)
      if (waits_[s] == 0) enter(s);
    std::vector<StepId> order;
    while (!ready_.empty()) {
      const StepId s = std::get<2>(*ready_.begin());
      take(s);
      order.push_back(s);
    }
    COIL_CHECK(order.size() == program_.steps.size(), "steps wait for each other");
    return order;
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, StepId>;

  Key key(StepId s) const {
    std::int64_t born = 0, freed = 0;
    for (StorageId t : program_.steps[s].touches) {
      const auto bytes = static_cast<std::int64_t>(program_.storages[t].bytes);
      if (!there_[t] && program_.is_made(t)) born += bytes;
      if (left_[t] == 1 && program_.is_freed(t)) freed += bytes;
    }
    std::int64_t handed = 0;
    for (auto [from, to] : program_.steps[s].in_place)
      if (!there_[to] && left_[from] == 1)
        handed = std::max(handed, static_cast<std::int64_t>(program_.storages[to].bytes));
    const std::int64_t during = born - handed, then = born - freed;
    return growth_ == Growth::Net ? Key{then, during, s} : Key{during, then, s};
  }

  void enter(StepId s) {
    ready_now_[s] = true;
    keys_.resize(std::max<std::size_t>(keys_.size(), s + 1));
    ready_.insert(keys_[s] = key(s));
  }

  void refresh(StepId s) {
    if (!ready_now_[s] || done_[s]) return;
    const Key now = key(s);
    if (now == keys_[s]) return;
    ready_.erase(keys_[s]);
    ready_.insert(keys_[s] = now);
  }

  void take(StepId s) {
    ready_.erase(keys_[s]);
    done_[s] = true;
    for (StorageId t : program_.steps[s].touches) {
      const bool born = !there_[t];
      there_[t] = true;
      --left_[t];
      if (born || left_[t] == 1)
        for (StepId other : touched_by_[t]) refresh(other);
    }
    for (StepId next : followers_[s])
      if (--waits_[next] == 0) enter(next);
  }

  const MemoryProgram& program_;
  Growth growth_;
  std::vector<std::vector<StepId>> followers_;
  std::vector<std::size_t> waits_;
  std::vector<bool> ready_now_, done_;
  std::vector<std::size_t> left_;  ///< steps that have yet to touch a storage
  std::vector<bool> there_;
  std::vector<std::vector<StepId>> touched_by_;
  std::vector<Key> keys_;
  std::set<Key> ready_;
};

/// What making a step's results takes, its operands' making included, as if each step had one reader.
struct Demand {
  std::uint64_t peak = 0;    ///< at the fullest
  std::uint64_t leaves = 0;  ///< when it is done
};

class Demander {
 public:
  explicit Demander(const MemoryProgram& program) : program_(program), done_(program.steps.size(), false) {
    std::vector<bool> there(program.storages.size(), false);
    for (StepId s = 0; s < program.steps.size(); ++s) measure(s, there);
  }

  std::vector<StepId> run() {
    const auto followers = followers_of(program_);
    for (StepId s = 0; s < program_.steps.size(); ++s)
      if (followers[s].empty()) visit(s);
    return std::move(order_);
  }

 private:
  void measure(StepId s, std::vector<bool>& there) {
    Demand d;
    std::uint64_t touched = 0;
    for (StorageId t : program_.steps[s].touches) {
      if (program_.storages[t].of != StorageClass::Temporary) continue;
      touched += program_.storages[t].bytes;
      if (!there[t]) d.leaves += program_.storages[t].bytes;
      there[t] = true;
    }
    std::vector<StepId> operands = program_.steps[s].after;
    std::ranges::stable_sort(operands, [&](StepId a, StepId b) { return comes_first(demands_[a], demands_[b]); });
    std::uint64_t held = 0;
    for (StepId operand : operands) {
      d.peak = std::max(d.peak, held + demands_[operand].peak);
      held += demands_[operand].leaves;
    }
    d.peak = std::max({d.peak, touched, d.leaves});
    demands_.push_back(d);
    operands_.push_back(std::move(operands));
  }

  static bool comes_first(const Demand& a, const Demand& b) { return a.peak - a.leaves > b.peak - b.leaves; }

  void visit(StepId root) {
    struct Open {
      StepId step;
      std::size_t next = 0;
    };
    std::vector<Open> open{{root}};
    while (!open.empty()) {
      auto& [step, next] = open.back();
      if (done_[step] || next == operands_[step].size()) {
        if (!done_[step]) order_.push_back(step);
        done_[step] = true;
        open.pop_back();
        continue;
      }
      const StepId operand = operands_[step][next++];
      if (!done_[operand]) open.push_back({operand});
    }
  }

  const MemoryProgram& program_;
  std::vector<Demand> demands_;
  std::vector<std::vector<StepId>> operands_;  ///< those that a step follows, the one to be made first before
  std::vector<bool> done_;
  std::vector<StepId> order_;
};

std::vector<StepId> backwards(std::vector<StepId> order) {
  const auto last = static_cast<StepId>(order.size()) - 1;
  std::ranges::reverse(order);
  for (StepId& s : order) s = last - s;
  return order;
}

void offer(const MemoryProgram& program, std::vector<StepId> order, std::string_view name, MemoryOrder& best) {
  const Peak peak = peak_of(program, order);
  if (peak.temporaries < best.found.temporaries) best = {std::move(order), name, best.written, peak};
}

/// Improves the order where its peak is, again and again, until a window there is as good as the search can make it or
/// the budget is spent.
void improve_peaks(const MemoryProgram& program, std::vector<StepId>& order, std::uint64_t least) {
  const std::size_t n = order.size(), window = std::min(n, kWindow);
  const std::size_t states = std::clamp<std::size_t>((std::size_t{1} << 18) / std::max<std::size_t>(n, 1), 16, 256);
  std::size_t budget = 4096 + 8 * n;
  while (true) {
    const Peak peak = peak_of(program, order);
    if (peak.temporaries <= least) return;
    bool better = false;
    for (std::size_t share : {2, 4, 1}) {  // what part of the window lies before the peak
      const std::size_t before = window / share;
      const std::size_t first = std::min(peak.at - std::min(peak.at, before), n - window);
      const Search found = improve(program, order, first, window, states);
      budget -= std::min(budget, found.expanded);
      better = found.steps.has_value();
      if (better) std::ranges::copy(*found.steps, order.begin() + static_cast<std::ptrdiff_t>(first));
      if (better || window == n || budget == 0) break;
    }
    if (!better || budget == 0) return;
  }
}

}  // namespace

std::vector<StepId> written_order(const MemoryProgram& program) {
  std::vector<StepId> order(program.steps.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<StepId> level_order(const MemoryProgram& program) {
  std::vector<std::size_t> level(program.steps.size(), 0);
  for (StepId s = 0; s < program.steps.size(); ++s)
    for (StepId before : program.steps[s].after) level[s] = std::max(level[s], level[before] + 1);
  std::vector<StepId> order = written_order(program);
  std::ranges::stable_sort(order, {}, [&](StepId s) { return level[s]; });
  return order;
}

std::vector<StepId> list_order(const MemoryProgram& program, Growth growth) { return Lister(program, growth).run(); }

std::vector<StepId> demand_order(const MemoryProgram& program) { return Demander(program).run(); }

MemoryProgram reversed(const MemoryProgram& program) {
  MemoryProgram out{program.storages, {}, program.counts_callers};
  if (program.counts_callers)
    for (Storage& s : out.storages)
      if (s.of == StorageClass::Output || s.of == StorageClass::Given)
        s.of = s.of == StorageClass::Output ? StorageClass::Given : StorageClass::Output;
  const std::size_t n = program.steps.size();
  out.steps.resize(n);
  for (StepId s = 0; s < n; ++s) {
    const MemoryStep& step = program.steps[s];
    MemoryStep& mirror = out.steps[n - 1 - s];
    mirror.touches = step.touches;
    for (auto [from, to] : step.in_place) mirror.in_place.emplace_back(to, from);
    for (StepId before : step.after) out.steps[n - 1 - before].after.push_back(static_cast<StepId>(n - 1 - s));
  }
  for (MemoryStep& step : out.steps) std::ranges::sort(step.after);
  return out;
}

MemoryOrder listed_for_memory(const MemoryProgram& program) {
  MemoryOrder best{written_order(program), "as written", {}, {}};
  best.written = best.found = peak_of(program, best.steps);
  if (best.written.temporaries <= least_peak(program)) return best;
  const MemoryProgram mirror = reversed(program);
  offer(program, list_order(program, Growth::Net), "least growth", best);
  offer(program, list_order(program, Growth::Transient), "least at a time", best);
  offer(program, demand_order(program), "depth first", best);
  offer(program, level_order(program), "breadth first", best);
  offer(program, backwards(list_order(mirror, Growth::Net)), "least growth from the end", best);
  offer(program, backwards(list_order(mirror, Growth::Transient)), "least at a time from the end", best);
  offer(program, backwards(demand_order(mirror)), "depth first from the end", best);
  offer(program, backwards(level_order(mirror)), "breadth first from the end", best);
  return best;
}

/// The program where nothing but temporaries counts.
MemoryProgram temporaries_of(const MemoryProgram& program) {
  MemoryProgram out = program;
  out.counts_callers = false;
  for (MemoryStep& step : out.steps)
    std::erase_if(step.in_place, [&](const auto& pair) { return !out.counts(pair.first); });
  return out;
}

MemoryOrder order_for_memory(const MemoryProgram& program) {
  MemoryOrder best = listed_for_memory(program);
  if (program.counts_callers) {  // what is best for temporaries alone is one more to begin with
    MemoryOrder found = order_for_memory(temporaries_of(program));
    offer(program, std::move(found.steps), found.name, best);
  }
  const std::uint64_t least = least_peak(program);
  if (best.found.temporaries <= least) return best;
  std::vector<StepId> improved = best.steps;
  improve_peaks(program, improved, least);
  offer(program, std::move(improved), "searched", best);
  return best;
}

std::vector<StepId> begun_late(const MemoryProgram& program, const std::vector<StepId>& order) {
  const std::vector<Life> lives = lives_in(program, order);
  const std::vector<std::vector<StepId>> followers = followers_of(program);
  std::vector<std::size_t> place(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = k;
  std::vector<std::vector<StepId>> before(order.size() + 1);
  std::vector<bool> moved(order.size(), false);
  const auto makes_all = [&](std::size_t at) {
    const MemoryStep& step = program.steps[order[at]];
    return !step.touches.empty() && std::ranges::all_of(step.touches, [&](StorageId s) {
      const StorageClass of = program.storages[s].of;
      const bool is_made = of == StorageClass::Temporary || of == StorageClass::Output;
      return is_made && lives[s].first == at && lives[s].last > at;
    });
  };
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (!makes_all(at)) continue;
    std::size_t needed = order.size();
    for (StepId follower : followers[order[at]]) needed = std::min(needed, place[follower]);
    if (needed == order.size() || needed == at + 1) continue;
    before[needed].push_back(order[at]);
    moved[at] = true;
  }
  std::vector<StepId> out;
  for (std::size_t at = 0; at < order.size(); ++at) {
    out.insert(out.end(), before[at].begin(), before[at].end());
    if (!moved[at]) out.push_back(order[at]);
  }
  return out;
}

}  // namespace coil::scheduler
