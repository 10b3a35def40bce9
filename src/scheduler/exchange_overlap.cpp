#include "scheduler/exchange_overlap.h"

#include <algorithm>
#include <map>
#include <set>

#include "scheduler/memory_order.h"
#include "support/error.h"

namespace coil::scheduler {
namespace {

constexpr double kLeastGain = 1e-3;  // of the whole time, for which an order is given up
constexpr std::size_t kTried = 32;   // steps that are asked whether they fit into memory, at a place

/// The state of a run, by the model.
class Clock {
 public:
  explicit Clock(const TimedProgram& program)
      : program_(program), exchanges_(program.steps.size()), free_(groups(program), 0.0) {}

  Span run(StepId s) {
    const TimedStep& step = program_.steps[s];
    Span span{now_, now_ + step.seconds};
    if (step.waits_for) span.end = std::max(span.end, exchanges_[*step.waits_for].end);
    if (step.group) {
      double& free = free_[*step.group];
      exchanges_[s].begin = std::max(span.end, free);
      free = exchanges_[s].end = exchanges_[s].begin + step.exchange_seconds;
      if (step.is_done_at_once) span.end = free;
    }
    now_ = span.end;
    return span;
  }
  double now() const { return now_; }
  const std::vector<Span>& exchanges() const { return exchanges_; }
  double end() const { return std::max(now_, free_.empty() ? 0.0 : *std::ranges::max_element(free_)); }

 private:
  static std::size_t groups(const TimedProgram& program) {
    std::size_t count = 0;
    for (const TimedStep& s : program.steps)
      if (s.group) count = std::max(count, *s.group + 1);
    return count;
  }

  const TimedProgram& program_;
  std::vector<Span> exchanges_;
  std::vector<double> free_;
  double now_ = 0;
};

/// What steps are taken by, where several may run.
enum class Urgency : std::uint8_t {
  Written,    ///< as they were
  Feeding,    ///< those that an exchange needs before the others
  LongestWay  ///< those that most is left to do behind
};

/// Takes one step after the other: a start as soon as it may run, waits where nothing else may or what they wait for is
/// over, and only what fits into memory as long as anything does.
class TimedLister {
 public:
  TimedLister(const TimedProgram& program, Urgency urgency, std::uint64_t peak_bytes)
      : program_(program),
        memory_(program.memory),
        urgency_(urgency),
        peak_bytes_(peak_bytes),
        live_(memory_.given_bytes()),
        followers_(followers_of(memory_)),
        left_(memory_.steps.size()),
        touches_(memory_.storages.size(), 0),
        there_(memory_.storages.size(), false),
        clock_(program) {
    for (StepId s = 0; s < memory_.steps.size(); ++s) {
      left_[s] = memory_.steps[s].after.size();
      for (StorageId t : memory_.steps[s].touches) ++touches_[t];
    }
    weigh();
  }

  std::vector<StepId> run() {
    for (StepId s = 0; s < left_.size(); ++s)
      if (left_[s] == 0) make_ready(s);
    while (!ready_.empty() || !waits_.empty()) take(next());
    COIL_CHECK(order_.size() == left_.size(), "steps wait for one another");
    return std::move(order_);
  }

 private:
  using Key = std::pair<double, StepId>;

  void weigh() {
    weight_.assign(left_.size(), 0);
    std::vector<double> rest(left_.size(), 0);  // time from a step's begin to the end, if all else were free
    std::vector<bool> feeds(left_.size(), false);
    for (std::size_t s = left_.size(); s-- > 0;) {
      for (StepId f : followers_[s]) {
        const bool is_wait = program_.steps[f].waits_for == static_cast<StepId>(s);
        rest[s] = std::max(rest[s], rest[f] + (is_wait ? program_.steps[s].exchange_seconds : 0));
        feeds[s] = feeds[s] || feeds[f] || program_.steps[f].group;
      }
      rest[s] += program_.steps[s].seconds;
      weight_[s] = urgency_ == Urgency::LongestWay ? -rest[s] : urgency_ == Urgency::Feeding ? !feeds[s] : 0;
    }
  }

  Key key(StepId s) const { return {program_.steps[s].group ? -1e300 : weight_[s], s}; }

  void make_ready(StepId s) { (program_.steps[s].waits_for ? waits_ : ready_).insert(key(s)); }

  bool fits(StepId s) const {
    std::uint64_t live = live_;
    for (StorageId t : memory_.steps[s].touches)
      if (memory_.is_made(t) && !there_[t]) live += memory_.storages[t].bytes;
    return live <= peak_bytes_;
  }

  bool is_over(StepId wait) const { return clock_.exchanges()[*program_.steps[wait].waits_for].end <= clock_.now(); }

  /// The wait that is over first.
  StepId first_wait() const {
    return std::ranges::min_element(waits_, {},
                                    [&](const Key& k) {
                                      return std::pair(clock_.exchanges()[*program_.steps[k.second].waits_for].end,
                                                       k.second);
                                    })
        ->second;
  }

  /// Where nothing fits: a start only where there is nothing else.
  StepId least_bad() const {
    for (const Key& k : ready_)
      if (!program_.steps[k.second].group) return k.second;
    return ready_.begin()->second;
  }

  StepId next() const {
    std::optional<StepId> found;
    std::size_t tried = 0;
    for (auto at = ready_.begin(); at != ready_.end() && !found && tried < kTried; ++at, ++tried)
      if (fits(at->second)) found = at->second;
    if (waits_.empty() && !found) return least_bad();
    if (waits_.empty()) return *found;
    const StepId wait = first_wait();
    if (!found) return wait;  // it may free memory
    if (program_.steps[*found].group || !is_over(wait)) return *found;
    return key(wait) < key(*found) ? wait : *found;
  }

  void take(StepId s) {
    (program_.steps[s].waits_for ? waits_ : ready_).erase(key(s));
    order_.push_back(s);
    clock_.run(s);
    for (StorageId t : memory_.steps[s].touches) {
      const std::uint64_t bytes = memory_.storages[t].bytes;
      if (memory_.is_made(t) && !there_[t]) live_ += bytes;
      there_[t] = true;
      if (--touches_[t] == 0 && memory_.is_freed(t)) live_ -= bytes;
    }
    for (StepId f : followers_[s])
      if (--left_[f] == 0) make_ready(f);
  }

  const TimedProgram& program_;
  const MemoryProgram& memory_;
  Urgency urgency_;
  std::uint64_t peak_bytes_, live_;
  std::vector<std::vector<StepId>> followers_;
  std::vector<std::size_t> left_;     ///< steps that have to run before
  std::vector<std::size_t> touches_;  ///< of a storage, that are to come
  std::vector<bool> there_;
  std::vector<double> weight_;  ///< the least first
  std::set<Key> ready_, waits_;
  Clock clock_;
  std::vector<StepId> order_;
};

/// Neighbours among the starts that may start together: of one kind, small enough in all, and none behind another
/// through anything but the order of starts.
std::vector<std::vector<StepId>> buckets_of(const TimedProgram& program, std::uint64_t bytes) {
  const auto followers = followers_of(program.memory);
  std::vector<std::vector<StepId>> all;
  std::vector<bool> behind(program.steps.size(), false);  // the bucket that is being filled
  std::uint64_t filled = 0;
  const auto mark = [&](StepId start) {
    std::vector<StepId> open{start};
    while (!open.empty()) {
      const StepId s = open.back();
      open.pop_back();
      for (StepId f : followers[s])
        if (!behind[f] && !(s == start && program.steps[f].group)) behind[f] = true, open.push_back(f);
    }
  };
  for (StepId s = 0; s < program.steps.size(); ++s) {
    const TimedStep& step = program.steps[s];
    if (!step.group) continue;
    const bool joins = !all.empty() && step.kind != 0 && program.steps[all.back().back()].kind == step.kind &&
                       filled + step.bytes <= bytes && !behind[s];
    if (!joins) {
      all.emplace_back();
      filled = 0;
      behind.assign(program.steps.size(), false);
    }
    all.back().push_back(s);
    filled += step.bytes;
    if (step.kind != 0) mark(s);
  }
  std::erase_if(all, [](const auto& bucket) { return bucket.size() < 2; });
  return all;
}

/// A program in which each bucket is one step, and what its steps are made of.
struct Merged {
  TimedProgram program;
  std::vector<std::vector<StepId>> members;
};

class Merger {
 public:
  Merger(const TimedProgram& program, const std::vector<std::vector<StepId>>& buckets)
      : program_(program), group_of_(program.steps.size()) {
    std::vector<bool> in_bucket(program.steps.size(), false);
    for (const auto& bucket : buckets)
      for (StepId s : bucket) in_bucket[s] = true;
    for (const auto& bucket : buckets) add(bucket);
    for (StepId s = 0; s < program.steps.size(); ++s)
      if (!in_bucket[s]) add({s});
  }

  Merged run() {
    const std::vector<StepId> order = sorted();
    std::vector<StepId> place(order.size());
    for (StepId k = 0; k < order.size(); ++k) place[order[k]] = k;
    Merged out;
    out.program.memory.storages = program_.memory.storages;
    for (StepId g : order) {
      out.members.push_back(groups_[g]);
      out.program.memory.steps.push_back(memory_step(g, place));
      out.program.steps.push_back(timed_step(g, place));
    }
    return out;
  }

 private:
  void add(const std::vector<StepId>& members) {
    for (StepId s : members) group_of_[s] = static_cast<StepId>(groups_.size());
    groups_.push_back(members);
  }

  /// Groups before each, each once.
  std::vector<StepId> before(StepId g) const {
    std::vector<StepId> all;
    for (StepId s : groups_[g])
      for (StepId b : program_.memory.steps[s].after)
        if (group_of_[b] != g) all.push_back(group_of_[b]);
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  /// Each group behind those that it must follow, else by its first member.
  std::vector<StepId> sorted() const {
    std::vector<std::vector<StepId>> followers(groups_.size());
    std::vector<std::size_t> left(groups_.size());
    std::set<std::pair<StepId, StepId>> ready;  // the first member, the group
    for (StepId g = 0; g < groups_.size(); ++g) {
      const auto all = before(g);
      left[g] = all.size();
      for (StepId b : all) followers[b].push_back(g);
      if (all.empty()) ready.emplace(groups_[g][0], g);
    }
    std::vector<StepId> order;
    while (!ready.empty()) {
      const StepId g = ready.begin()->second;
      ready.erase(ready.begin());
      order.push_back(g);
      for (StepId f : followers[g])
        if (--left[f] == 0) ready.emplace(groups_[f][0], f);
    }
    COIL_CHECK(order.size() == groups_.size(), "exchanges that start together wait for one another");
    return order;
  }

  MemoryStep memory_step(StepId g, const std::vector<StepId>& place) const {
    MemoryStep out;
    for (StepId s : groups_[g]) {
      const MemoryStep& step = program_.memory.steps[s];
      out.touches.insert(out.touches.end(), step.touches.begin(), step.touches.end());
      out.in_place.insert(out.in_place.end(), step.in_place.begin(), step.in_place.end());
    }
    std::ranges::sort(out.touches);
    out.touches.erase(std::unique(out.touches.begin(), out.touches.end()), out.touches.end());
    for (StepId b : before(g)) out.after.push_back(place[b]);
    std::ranges::sort(out.after);
    return out;
  }

  TimedStep timed_step(StepId g, const std::vector<StepId>& place) const {
    TimedStep out = program_.steps[groups_[g][0]];
    for (std::size_t k = 1; k < groups_[g].size(); ++k) {
      const TimedStep& step = program_.steps[groups_[g][k]];
      out.bytes += step.bytes;
      out.exchange_seconds += step.exchange_seconds - step.saved_seconds;
    }
    if (out.waits_for) out.waits_for = place[group_of_[*out.waits_for]];
    return out;
  }

  const TimedProgram& program_;
  std::vector<std::vector<StepId>> groups_;
  std::vector<StepId> group_of_;
};

/// Orders are offered, and the one that takes the least time is kept.
class Best {
 public:
  Best(const TimedProgram& program, const OverlapLimits& limits) {
    const std::vector<StepId> order = written_order(program.memory);
    found_.written_seconds = found_.seconds = timeline(program, order).seconds;
    found_.written = found_.found = peak_of(program.memory, order);
    for (StepId s : order) found_.steps.push_back({s});
    most_ = std::max(limits.peak_bytes, found_.written.temporaries);
  }

  std::uint64_t most() const { return most_; }

  void offer(const Merged& merged, const std::vector<StepId>& order) {
    const double seconds = timeline(merged.program, order).seconds;
    const Peak peak = peak_of(merged.program.memory, order);
    if (peak.temporaries > most_ || seconds >= found_.seconds * (1 - kLeastGain)) return;
    found_.seconds = seconds;
    found_.found = peak;
    found_.steps.clear();
    for (StepId s : order) found_.steps.push_back(merged.members[s]);
  }

  OverlapOrder take() { return std::move(found_); }

 private:
  OverlapOrder found_;
  std::uint64_t most_ = 0;
};

}  // namespace

Timeline timeline(const TimedProgram& program, std::span<const StepId> order) {
  Timeline out;
  out.steps.resize(program.steps.size());
  Clock clock(program);
  for (StepId s : order) out.steps[s] = clock.run(s);
  out.exchanges = clock.exchanges();
  out.seconds = clock.end();
  return out;
}

OverlapOrder overlap_exchanges(const TimedProgram& program, const OverlapLimits& limits) {
  Best best(program, limits);
  std::set<std::vector<std::vector<StepId>>> tried;
  for (const std::uint64_t share : {0, 1, 4, 16, 64}) {
    auto buckets = share == 0 ? std::vector<std::vector<StepId>>() : buckets_of(program, limits.bucket_bytes / share);
    if (!tried.insert(buckets).second) continue;
    const Merged merged = Merger(program, buckets).run();
    best.offer(merged, written_order(merged.program.memory));
    for (Urgency urgency : {Urgency::Written, Urgency::Feeding, Urgency::LongestWay})
      best.offer(merged, TimedLister(merged.program, urgency, best.most()).run());
  }
  return best.take();
}

}  // namespace coil::scheduler
