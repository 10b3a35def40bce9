#include "scheduler/memory_search.h"

#include <algorithm>
#include <unordered_map>

#include "support/error.h"

namespace coil::scheduler {
namespace {

using Steps = std::uint64_t;  ///< a set of the window's steps

/// Memory that counts, as the window sees it.
struct Local {
  std::uint64_t bytes = 0;
  Steps touched_by = 0;
  bool before = false, after = false;  ///< whether steps outside of the window touch it
};

struct LocalStep {
  std::vector<std::uint32_t> touches;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> in_place;
  Steps after = 0;
};

/// What running a step does to what is live.
struct Growth {
  std::uint64_t during = 0;  ///< bytes that are live while it runs
  std::uint64_t then = 0;    ///< and after it
};

struct State {
  Steps done = 0;
  std::uint64_t live = 0, peak = 0;
  std::uint32_t parent = 0;  ///< place among the states of the step before
  std::uint32_t step = 0;    ///< what was run last
};

class Window {
 public:
  Window(const MemoryProgram& program, std::span<const StepId> order, std::size_t first, std::size_t count)
      : window_(order.subspan(first, count)) {
    std::unordered_map<StepId, std::uint32_t> place;
    for (std::uint32_t k = 0; k < window_.size(); ++k) place[window_[k]] = k;
    find_storages(program, order, first);
    for (std::uint32_t k = 0; k < window_.size(); ++k) {
      for (StepId before : program.steps[window_[k]].after)
        if (auto found = place.find(before); found != place.end()) steps_[k].after |= Steps{1} << found->second;
    }
  }

  Search run(std::size_t states) {
    Search found;
    const std::uint64_t bound = written_peak();
    std::vector<std::vector<State>> levels{{{0, base_, base_, 0, 0}}};
    for (std::size_t k = 0; k < window_.size(); ++k) {
      found.expanded += levels.back().size();
      std::vector<State> next = followers(levels.back(), bound);
      if (next.empty()) return found;
      if (next.size() > states) {
        std::ranges::sort(next, [](const State& a, const State& b) {
          return std::tie(a.peak, a.live, a.done) < std::tie(b.peak, b.live, b.done);
        });
        next.resize(states);
      }
      levels.push_back(std::move(next));
    }
    found.steps = path(levels);
    return found;
  }

 private:
  /// What counts and the window touches gets a number of its own; the rest that lives through it does not matter.
  void find_storages(const MemoryProgram& program, std::span<const StepId> order, std::size_t first) {
    std::unordered_map<StorageId, std::uint32_t> number;
    steps_.resize(window_.size());
    for (std::uint32_t k = 0; k < window_.size(); ++k) {
      const MemoryStep& step = program.steps[window_[k]];
      for (StorageId s : step.touches) {
        if (!program.counts(s)) continue;
        auto [it, added] = number.emplace(s, static_cast<std::uint32_t>(storages_.size()));
        if (added) storages_.push_back({program.storages[s].bytes});
        storages_[it->second].touched_by |= Steps{1} << k;
        steps_[k].touches.push_back(it->second);
      }
      for (auto [from, to] : step.in_place) steps_[k].in_place.emplace_back(number.at(from), number.at(to));
    }
    const std::vector<Life> life = lives_in(program, order);
    for (auto [s, k] : number) {
      storages_[k].before = life[s].first < first || !program.is_made(s);
      storages_[k].after = life[s].last >= first + window_.size() || !program.is_freed(s);
    }
    for (const Local& l : storages_)
      if (l.before) base_ += l.bytes;
  }

  Growth grow(const State& state, std::uint32_t k) const {
    const Steps bit = Steps{1} << k;
    std::uint64_t born = 0, freed = 0;
    for (std::uint32_t s : steps_[k].touches) {
      const Local& l = storages_[s];
      if (is_born(l, state.done)) born += l.bytes;
      if (dies(l, state.done | bit)) freed += l.bytes;
    }
    return {state.live + born - handed_on(state.done, k), state.live + born - freed};
  }

  static bool is_born(const Local& l, Steps done) { return !l.before && (l.touched_by & done) == 0; }
  static bool dies(const Local& l, Steps done) { return !l.after && (l.touched_by & ~done) == 0; }

  std::uint64_t handed_on(Steps done, std::uint32_t k) const {
    const LocalStep& step = steps_[k];
    if (step.in_place.empty()) return 0;
    const Steps then = done | (Steps{1} << k);
    std::uint64_t bytes = 0;
    std::vector<std::uint32_t> taken;
    for (std::uint32_t to : step.touches) {
      if (!is_born(storages_[to], done)) continue;
      for (auto [from, result] : step.in_place) {
        if (result != to || !dies(storages_[from], then) || std::ranges::find(taken, from) != taken.end()) continue;
        taken.push_back(from);
        bytes += storages_[to].bytes;
        break;
      }
    }
    return bytes;
  }

  std::uint64_t written_peak() const {
    State state{0, base_, base_, 0, 0};
    for (std::uint32_t k = 0; k < window_.size(); ++k) {
      const Growth g = grow(state, k);
      state = {state.done | (Steps{1} << k), g.then, std::max(state.peak, g.during), 0, k};
    }
    return state.peak;
  }

  /// All states one step further, those alike put together, and none that reaches `bound`.
  std::vector<State> followers(const std::vector<State>& states, std::uint64_t bound) const {
    std::vector<State> next;
    std::unordered_map<Steps, std::size_t> seen;
    auto add = [&](State s) {
      if (s.peak >= bound) return;
      auto [it, added] = seen.emplace(s.done, next.size());
      if (added)
        next.push_back(s);
      else if (s.peak < next[it->second].peak)
        next[it->second] = s;
    };
    for (std::uint32_t from = 0; from < states.size(); ++from) {
      const State& state = states[from];
      std::vector<State> mine;
      bool free_one = false;
      for (std::uint32_t k = 0; k < window_.size() && !free_one; ++k) {
        if ((state.done >> k & 1) != 0 || (steps_[k].after & ~state.done) != 0) continue;
        const Growth g = grow(state, k);
        const State after{state.done | (Steps{1} << k), g.then, std::max(state.peak, g.during), from, k};
        // What neither raises the peak nor leaves more than there was may as well run at once.
        free_one = g.during <= state.peak && g.then <= state.live;
        if (free_one) mine.clear();
        mine.push_back(after);
      }
      for (const State& s : mine) add(s);
    }
    return next;
  }

  std::vector<StepId> path(const std::vector<std::vector<State>>& levels) const {
    std::vector<StepId> steps(window_.size());
    auto best = std::ranges::min_element(levels.back(), {}, &State::peak);
    auto at = static_cast<std::size_t>(best - levels.back().begin());
    for (std::size_t k = levels.size() - 1; k > 0; --k) {
      steps[k - 1] = window_[levels[k][at].step];
      at = levels[k][at].parent;
    }
    return steps;
  }

  std::span<const StepId> window_;
  std::vector<Local> storages_;
  std::vector<LocalStep> steps_;
  std::uint64_t base_ = 0;  ///< live before the window, of what it touches
};

}  // namespace

Search improve(const MemoryProgram& program, std::span<const StepId> order, std::size_t first, std::size_t count,
               std::size_t states) {
  COIL_CHECK(count <= kWindow && first + count <= order.size());
  return Window(program, order, first, count).run(states);
}

}  // namespace coil::scheduler
