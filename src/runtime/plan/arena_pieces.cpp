#include "runtime/plan/arena_pieces.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace coil::runtime {
namespace {

constexpr std::uint64_t kSlack = 1 << 16;  // bytes that no second arena is made for
constexpr std::size_t kSpans[] = {2, 3, 5, 8, 12};
constexpr std::size_t kMostPieces = 64;
constexpr int kHalvings = 24;  // of the range in which the lowest ceiling is looked for

/// Bytes that are live at each step.
std::vector<std::uint64_t> live_at(std::span<const Interval> intervals, std::size_t steps) {
  std::vector<std::uint64_t> born(steps + 1, 0), gone(steps + 1, 0), live(steps, 0);
  for (const Interval& i : intervals) born[i.first] += i.bytes, gone[i.last + 1] += i.bytes;
  std::uint64_t now = 0;
  for (std::size_t s = 0; s < steps; ++s) live[s] = now = now + born[s] - gone[s];
  return live;
}

/// Bytes at each step, in three kinds of which each has its fullest in a span of time to itself.
struct Profile {
  std::vector<std::uint64_t> live;
  std::span<const std::uint64_t> scratch, beside;

  std::uint64_t at(std::size_t step) const { return live[step] + scratch[step] + beside[step]; }
};

/// The most of each kind since a span began.
struct Fullest {
  std::uint64_t live = 0, scratch = 0, beside = 0;

  void take(const Profile& p, std::size_t step) {
    live = std::max(live, p.live[step]);
    scratch = std::max(scratch, p.scratch[step]);
    beside = std::max(beside, p.beside[step]);
  }
  std::uint64_t total() const { return live + scratch + beside; }
};

using Spans = std::vector<std::uint32_t>;  ///< their first steps

/// The fewest spans of time in each of which the fullest of all kinds are together at most `ceiling`.
Spans spans_below(std::uint64_t ceiling, const Profile& profile) {
  Spans starts{0};
  Fullest most;
  for (std::uint32_t s = 0; s < profile.live.size(); ++s) {
    most.take(profile, s);
    if (most.total() <= ceiling) continue;
    if (s > 0) starts.push_back(s);
    most = {};
    most.take(profile, s);
  }
  return starts;
}

/// At most so many spans, with the lowest ceiling between two.
Spans at_most_spans(std::size_t count, std::uint64_t low, std::uint64_t high, const Profile& profile) {
  for (int k = 0; k < kHalvings && low < high; ++k) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (spans_below(middle, profile).size() <= count)
      high = middle;
    else
      low = middle + 1;
  }
  return spans_below(high, profile);
}

std::size_t span_at(const Spans& starts, std::uint32_t step) {
  return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), step) - starts.begin()) - 1;
}

/// Moves the borders of spans to where the pieces that they make have a lower peak.
class SpanSearch {
 public:
  SpanSearch(std::span<const Interval> intervals, const Profile& profile)
      : intervals_(intervals),
        profile_(profile),
        evaluations_(kMostWork / (intervals.size() + profile.live.size() + 1)),
        across_(profile.live.size() + 1),
        inside_(profile.live.size() + 1) {}

  Spans improved(Spans starts) {
    std::uint64_t best = peak(starts);
    for (bool better = true; better && evaluations_ > 0;) {
      better = false;
      for (std::size_t cut = 1; cut < starts.size(); ++cut)
        for (std::int64_t by : {1, -1, 3, -3, 9, -9, 27, -27}) {
          Spans moved = starts;
          if (evaluations_ == 0 || !move(moved, cut, by)) continue;
          --evaluations_;
          if (const std::uint64_t now = peak(moved); now < best) starts = std::move(moved), best = now, better = true;
        }
    }
    return starts;
  }

 private:
  static constexpr std::size_t kMostWork = 2'000'000;  // intervals and steps that are looked at

  bool move(Spans& starts, std::size_t cut, std::int64_t by) const {
    const std::int64_t to = starts[cut] + by, end = cut + 1 < starts.size()
                                                        ? starts[cut + 1]
                                                        : static_cast<std::int64_t>(profile_.live.size());
    if (to <= starts[cut - 1] || to >= end) return false;
    starts[cut] = static_cast<std::uint32_t>(to);
    return true;
  }

  /// An arena, or the scratch memory, of a span.
  struct Block {
    std::uint64_t bytes = 0;
    std::uint32_t first = UINT32_MAX, last = 0;

    void take(std::uint64_t need, std::uint32_t step) {
      if (need > 0) *this = {std::max(bytes, need), std::min(first, step), step};
    }
    std::uint64_t at(std::uint32_t step) const { return first <= step && step <= last ? bytes : 0; }
  };

  /// The peak of pieces for these spans, if no piece has gaps in it.
  std::uint64_t peak(const Spans& starts) {
    std::ranges::fill(across_, 0);
    std::ranges::fill(inside_, 0);
    for (const Interval& i : intervals_) {
      auto& change = span_at(starts, i.first) == span_at(starts, i.last) ? inside_ : across_;
      change[i.first] += i.bytes;
      change[i.last + 1] -= i.bytes;
    }
    std::vector<Block> arenas(starts.size()), scratch(starts.size());
    std::uint64_t inside = 0, across = 0, most = 0;
    const auto steps = static_cast<std::uint32_t>(profile_.live.size());
    for (std::uint32_t s = 0, span = 0; s < steps; ++s) {
      if (span + 1 < starts.size() && s == starts[span + 1]) ++span;
      arenas[span].take(inside += inside_[s], s);
      scratch[span].take(profile_.scratch[s], s);
    }
    for (std::uint32_t s = 0, span = 0; s < steps; ++s) {
      if (span + 1 < starts.size() && s == starts[span + 1]) ++span;
      across += across_[s];
      most = std::max(most, across + arenas[span].at(s) + scratch[span].at(s) + profile_.beside[s]);
    }
    return most;
  }

  std::span<const Interval> intervals_;
  const Profile& profile_;
  std::size_t evaluations_;
  std::vector<std::uint64_t> across_, inside_;  ///< changes at each step
};

class PieceBuilder {
 public:
  PieceBuilder(std::span<const Interval> intervals, const Profile& profile)
      : intervals_(intervals), profile_(profile) {}

  ArenaPieces build(const Spans& starts) {
    out_.piece_of.assign(intervals_.size(), 0);
    out_.offsets.assign(intervals_.size(), 0);
    out_.scratch_of.assign(profile_.scratch.size(), 0);
    std::vector<std::vector<std::size_t>> inside(starts.size());
    std::vector<std::size_t> across;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> small;  // by their first and last span
    std::uint64_t all_across = 0;
    for (std::size_t k = 0; k < intervals_.size(); ++k) {
      if (intervals_[k].bytes == 0) continue;
      const std::size_t span = span_at(starts, intervals_[k].first);
      if (span == span_at(starts, intervals_[k].last))
        inside[span].push_back(k);
      else
        across.push_back(k), all_across += intervals_[k].bytes;
    }
    for (const auto& members : inside) add(members);
    for (std::size_t k : across)
      if (intervals_[k].bytes >= std::max(kSlack, all_across / kMostPieces))
        add({k});
      else
        small[{span_at(starts, intervals_[k].first), span_at(starts, intervals_[k].last)}].push_back(k);
    for (auto& [spans, members] : small) add_in_turn(members, all_across / kMostPieces);
    for (std::size_t k = 0; k < starts.size(); ++k)
      add_scratch(starts[k], k + 1 < starts.size() ? starts[k + 1] : profile_.scratch.size());
    sort();
    measure();
    return std::move(out_);
  }

 private:
  void add(const std::vector<std::size_t>& members) {
    if (members.empty()) return;
    std::vector<Interval> own;
    ArenaPiece piece{0, UINT32_MAX, 0};
    for (std::size_t k : members) {
      own.push_back(intervals_[k]);
      piece.first = std::min(piece.first, intervals_[k].first);
      piece.last = std::max(piece.last, intervals_[k].last);
    }
    const ArenaPlan plan = plan_arena(own, ArenaEffort::Call);
    piece.bytes = plan.peak;
    for (std::size_t m = 0; m < members.size(); ++m) {
      out_.piece_of[members[m]] = static_cast<std::uint32_t>(out_.pieces.size());
      out_.offsets[members[m]] = plan.offsets[m];
    }
    out_.pieces.push_back(piece);
  }

  /// Adds the members as several pieces of about so many bytes, those that begin one after another together. All live
  /// at one step, the border of their first span, so that none has memory that another had.
  void add_in_turn(std::vector<std::size_t>& members, std::uint64_t bytes) {
    std::ranges::stable_sort(members, {}, [&](std::size_t k) { return intervals_[k].first; });
    std::vector<std::size_t> together;
    std::uint64_t sum = 0;
    for (std::size_t k : members) {
      together.push_back(k);
      if ((sum += intervals_[k].bytes) < std::max(bytes, kSlack)) continue;
      add(std::exchange(together, {}));
      sum = 0;
    }
    add(together);
  }

  void add_scratch(std::size_t first, std::size_t end) {
    ArenaPiece piece{0, UINT32_MAX, 0};
    for (std::size_t s = first; s < end; ++s) {
      if (profile_.scratch[s] == 0) continue;
      const auto step = static_cast<std::uint32_t>(s);
      piece = {std::max(piece.bytes, profile_.scratch[s]), std::min(piece.first, step), step};
      out_.scratch_of[s] = static_cast<std::uint32_t>(out_.pieces.size());
    }
    if (piece.bytes > 0) out_.pieces.push_back(piece);
  }

  void sort() {
    std::vector<std::uint32_t> order(out_.pieces.size()), place(out_.pieces.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t p) { return out_.pieces[p].first; });
    std::vector<ArenaPiece> sorted;
    for (std::uint32_t p : order) {
      place[p] = static_cast<std::uint32_t>(sorted.size());
      sorted.push_back(out_.pieces[p]);
    }
    out_.pieces = std::move(sorted);
    for (std::size_t k = 0; k < intervals_.size(); ++k)
      if (intervals_[k].bytes > 0) out_.piece_of[k] = place[out_.piece_of[k]];
    for (std::size_t s = 0; s < profile_.scratch.size(); ++s)
      if (profile_.scratch[s] > 0) out_.scratch_of[s] = place[out_.scratch_of[s]];
  }

  void measure() {
    std::vector<Interval> lives;
    for (const ArenaPiece& p : out_.pieces) lives.push_back({p.bytes, p.first, p.last});
    const std::vector<std::uint64_t> live = live_at(lives, profile_.beside.size());
    for (std::size_t s = 0; s < live.size(); ++s) out_.peak = std::max(out_.peak, live[s] + profile_.beside[s]);
  }

  std::span<const Interval> intervals_;
  const Profile& profile_;
  ArenaPieces out_;
};

bool is_far_above(std::uint64_t peak, std::uint64_t least) {
  return peak > least && peak - least > std::max(least / 128, kSlack);
}

ArenaPieces pieces_of_steps(std::span<const Interval> intervals, std::span<const std::uint64_t> scratch,
                            std::span<const std::uint64_t> beside) {
  const Profile profile{live_at(intervals, beside.size()), scratch, beside};
  ArenaPieces none;
  Fullest all;
  for (std::size_t s = 0; s < beside.size(); ++s) {
    none.least = std::max(none.least, profile.at(s));
    all.take(profile, s);
  }
  none.whole = none.peak = all.beside + all.scratch + plan_arena(intervals, ArenaEffort::Call).peak;
  if (!is_far_above(none.whole, none.least)) return none;
  ArenaPieces best = none;
  SpanSearch search(intervals, profile);
  for (std::size_t count : kSpans) {
    const Spans starts = search.improved(at_most_spans(count, 0, none.whole, profile));
    ArenaPieces now = PieceBuilder(intervals, profile).build(starts);
    if (now.pieces.size() > 4 * kMostPieces) break;
    if (now.peak < best.peak - best.peak / 100) best = std::move(now);
    if (!is_far_above(best.peak, none.least)) break;
  }
  if (!is_far_above(none.whole, best.peak)) return none;
  best.whole = none.whole;
  best.least = none.least;
  return best;
}

/// Time in which a block is one step.
class BlockTime {
 public:
  BlockTime(std::size_t steps, std::span<const StepRange> blocks) {
    auto block = blocks.begin();
    for (std::uint32_t s = 0; s < steps; s = units_.back().last + 1) {
      const bool here = block != blocks.end() && block->first == s;
      units_.push_back(here ? *block++ : StepRange{s, s});
      unit_of_.resize(units_.back().last + std::size_t{1}, static_cast<std::uint32_t>(units_.size() - 1));
    }
  }

  std::uint32_t unit(std::uint32_t step) const { return unit_of_[step]; }
  const StepRange& steps_of(std::uint32_t unit) const { return units_[unit]; }

  std::vector<std::uint64_t> most(std::span<const std::uint64_t> at_steps) const {
    std::vector<std::uint64_t> out(units_.size(), 0);
    for (std::size_t s = 0; s < at_steps.size(); ++s) out[unit_of_[s]] = std::max(out[unit_of_[s]], at_steps[s]);
    return out;
  }

 private:
  std::vector<StepRange> units_;
  std::vector<std::uint32_t> unit_of_;
};

/// What lives within a block, as one interval of that block's bytes.
class BlockArenas {
 public:
  BlockArenas(std::span<const Interval> intervals, const BlockTime& time) : outside_(intervals.size()) {
    std::map<std::uint32_t, std::vector<std::size_t>> inside;
    for (std::size_t k = 0; k < intervals.size(); ++k) {
      const Interval& i = intervals[k];
      if (i.bytes == 0) continue;
      const std::uint32_t first = time.unit(i.first), last = time.unit(i.last);
      if (first == last)
        inside[first].push_back(k);
      else
        outside_[k] = {i.bytes, first, last};
    }
    for (const auto& [unit, members] : inside) add(intervals, unit, members);
  }

  /// The intervals in units, and behind them one for each block.
  std::span<const Interval> in_units() const { return outside_; }

  void place(ArenaPieces& plan) const {
    for (const Arena& arena : arenas_)
      for (std::size_t m = 0; m < arena.members.size(); ++m) {
        plan.piece_of[arena.members[m]] = plan.piece_of[arena.interval];
        plan.offsets[arena.members[m]] = plan.offsets[arena.interval] + arena.offsets[m];
      }
  }

 private:
  struct Arena {
    std::size_t interval;
    std::vector<std::size_t> members;
    std::vector<std::uint64_t> offsets;
  };

  void add(std::span<const Interval> intervals, std::uint32_t unit, const std::vector<std::size_t>& members) {
    std::vector<Interval> own;
    for (std::size_t k : members) own.push_back(intervals[k]);
    ArenaPlan plan = plan_arena(own, ArenaEffort::Call);
    arenas_.push_back({outside_.size(), members, std::move(plan.offsets)});
    outside_.push_back({plan.peak, unit, unit});
  }

  std::vector<Interval> outside_;
  std::vector<Arena> arenas_;
};

}  // namespace

ArenaPieces plan_pieces(std::span<const Interval> intervals, std::span<const std::uint64_t> scratch,
                        std::span<const std::uint64_t> beside, std::span<const StepRange> blocks) {
  if (blocks.empty()) return pieces_of_steps(intervals, scratch, beside);
  const BlockTime time(beside.size(), blocks);
  const BlockArenas arenas(intervals, time);
  ArenaPieces plan = pieces_of_steps(arenas.in_units(), time.most(scratch), time.most(beside));
  if (plan.pieces.empty()) return plan;
  arenas.place(plan);
  plan.piece_of.resize(intervals.size());
  plan.offsets.resize(intervals.size());
  std::vector<std::uint32_t> scratch_of;
  for (std::uint32_t s = 0; s < beside.size(); ++s) scratch_of.push_back(plan.scratch_of[time.unit(s)]);
  plan.scratch_of = std::move(scratch_of);
  for (ArenaPiece& p : plan.pieces) p.first = time.steps_of(p.first).first, p.last = time.steps_of(p.last).last;
  return plan;
}

}  // namespace coil::runtime
