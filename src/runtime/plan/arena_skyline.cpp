#include "runtime/plan/arena_skyline.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "support/error.h"

namespace coil::runtime {
namespace {

using BlockId = std::uint32_t;
using Rank = std::uint32_t;  ///< the preferred block has the least

/// The blocks that are not placed yet, by the clique that they begin in, or end in.
class Waiting {
 public:
  Waiting(const ArenaProblem& problem, std::uint32_t ArenaBlock::* border)
      : border_(border), problem_(problem), at_(problem.bytes.size()), place_(problem.blocks.size()) {
    for (BlockId b = 0; b < problem.blocks.size(); ++b) {
      std::vector<BlockId>& mine = at_[problem.blocks[b].*border];
      place_[b] = static_cast<std::uint32_t>(mine.size());
      mine.push_back(b);
    }
  }

  std::span<const BlockId> at(std::uint32_t clique) const { return at_[clique]; }

  void remove(BlockId b) {
    std::vector<BlockId>& mine = at_[problem_.blocks[b].*border_];
    mine[place_[b]] = mine.back();
    place_[mine.back()] = place_[b];
    mine.pop_back();
  }

 private:
  std::uint32_t ArenaBlock::* border_;
  const ArenaProblem& problem_;
  std::vector<std::vector<BlockId>> at_;
  std::vector<std::uint32_t> place_;
};

constexpr std::uint32_t kNone = UINT32_MAX;

/// Cliques whose lowest free address is the same.
struct Stretch {
  std::uint32_t first = 0, last = 0;
  std::uint64_t floor = 0;
  std::uint32_t before = kNone, behind = kNone;  ///< neighbours
  std::uint32_t version = 0;                     ///< counts changes; entries of the queue for older ones are stale
  bool gone = false;
  /// A heap of all that may lie in it next, and of some that may not any more.
  std::vector<Rank> next;
};

class Skyline {
 public:
  Skyline(const ArenaProblem& problem, std::vector<BlockId> order)
      : problem_(problem),
        order_(std::move(order)),
        rank_(order_.size()),
        placed_(order_.size(), false),
        starts_(problem, &ArenaBlock::first),
        ends_(problem, &ArenaBlock::last) {
    for (Rank r = 0; r < order_.size(); ++r) rank_[order_[r]] = r;
  }

  Placement run() {
    Placement result{std::vector<std::uint64_t>(order_.size(), 0), 0};
    stretches_.push_back({0, static_cast<std::uint32_t>(problem_.bytes.size()) - 1});
    gather(stretches_[0]);
    offer(0);
    for (std::size_t left = order_.size(); left > 0;) {
      const auto [floor, first, id, version] = lowest_.top();
      lowest_.pop();
      if (stretches_[id].gone || stretches_[id].version != version) continue;
      const BlockId b = preferred(stretches_[id]);
      if (b == kNone) {
        raise(id);
        continue;
      }
      const ArenaBlock& block = problem_.blocks[b];
      result.offsets[b] = aligned(floor, block.alignment);
      result.peak = std::max(result.peak, result.offsets[b] + block.bytes);
      placed_[b] = true;
      starts_.remove(b);
      ends_.remove(b);
      split(id, block, result.offsets[b] + block.bytes);
      --left;
    }
    return result;
  }

  /// Cliques and blocks that were looked at.
  std::uint64_t work() const { return work_; }

 private:
  void push(std::vector<Rank>& heap, Rank r) {
    ++work_;
    heap.push_back(r);
    std::ranges::push_heap(heap, std::greater<>());
  }

  void offer(std::uint32_t id) {
    const Stretch& s = stretches_[id];
    lowest_.push({s.floor, s.first, id, s.version});
  }

  void gather(Stretch& s) {
    s.next.clear();
    work_ += s.last - s.first + 1;
    for (std::uint32_t c = s.first; c <= s.last; ++c)
      for (BlockId b : starts_.at(c))
        if (problem_.blocks[b].last <= s.last) s.next.push_back(rank_[b]);
    work_ += s.next.size();
    std::ranges::make_heap(s.next, std::greater<>());
  }

  BlockId preferred(Stretch& s) const {
    while (!s.next.empty()) {
      const BlockId b = order_[s.next.front()];
      const ArenaBlock& block = problem_.blocks[b];
      if (!placed_[b] && block.first >= s.first && block.last <= s.last) return b;
      std::ranges::pop_heap(s.next, std::greater<>());
      s.next.pop_back();
    }
    return kNone;
  }

  /// Raises a stretch to its lower neighbour, which it becomes one with.
  void raise(std::uint32_t id) {
    const std::uint32_t before = stretches_[id].before, behind = stretches_[id].behind;
    COIL_CHECK(before != kNone || behind != kNone, "a block fits nowhere");
    const std::uint64_t left = before == kNone ? kNoPeak : stretches_[before].floor,
                        right = behind == kNone ? kNoPeak : stretches_[behind].floor;
    if (right <= left) merge(id, behind);
    if (left <= right) merge(before, id);
    const std::uint32_t merged = left <= right ? before : id;
    Stretch& s = stretches_[merged];
    s.floor = std::min(left, right);
    ++s.version;
    offer(merged);
  }

  /// Makes the right one a part of the left one. What crosses the border between them may now lie in both.
  void merge(std::uint32_t left, std::uint32_t right) {
    Stretch &a = stretches_[left], &b = stretches_[right];
    if (a.next.size() < b.next.size()) a.next.swap(b.next);
    for (Rank r : b.next) push(a.next, r);
    if (a.last - a.first <= b.last - b.first) {
      for (std::uint32_t c = a.first; c <= a.last; ++c)
        for (BlockId k : starts_.at(c))
          if (problem_.blocks[k].last > a.last && problem_.blocks[k].last <= b.last) push(a.next, rank_[k]);
    } else {
      for (std::uint32_t c = b.first; c <= b.last; ++c)
        for (BlockId k : ends_.at(c))
          if (problem_.blocks[k].first < b.first && problem_.blocks[k].first >= a.first) push(a.next, rank_[k]);
    }
    a.last = b.last;
    a.behind = b.behind;
    if (a.behind != kNone) stretches_[a.behind].before = left;
    b.gone = true;
    b.next = {};
  }

  /// A block up to `top` leaves of a stretch what is left of it, itself, and what is right of it.
  void split(std::uint32_t id, const ArenaBlock& block, std::uint64_t top) {
    const Stretch whole{stretches_[id].first, stretches_[id].last, stretches_[id].floor, stretches_[id].before,
                        stretches_[id].behind};
    std::vector<Stretch> parts;
    if (whole.first < block.first) parts.push_back({whole.first, block.first - 1, whole.floor});
    parts.push_back({block.first, block.last, top});
    if (block.last < whole.last) parts.push_back({block.last + 1, whole.last, whole.floor});
    const auto length = [](const Stretch& s) { return s.last - s.first; };
    const auto widest = static_cast<std::size_t>(std::ranges::max_element(parts, {}, length) - parts.begin());
    std::vector<std::uint32_t> ids;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      ids.push_back(k == widest ? id : static_cast<std::uint32_t>(stretches_.size()));
      if (k != widest) stretches_.push_back({});
    }
    for (std::size_t k = 0; k < parts.size(); ++k) {
      Stretch& s = stretches_[ids[k]];
      s.first = parts[k].first, s.last = parts[k].last, s.floor = parts[k].floor;
      s.before = k > 0 ? ids[k - 1] : whole.before;
      s.behind = k + 1 < parts.size() ? ids[k + 1] : whole.behind;
      ++s.version;
      if (k != widest) gather(s);  // the widest part keeps the heap
      offer(ids[k]);
    }
    if (whole.before != kNone) stretches_[whole.before].behind = ids.front();
    if (whole.behind != kNone) stretches_[whole.behind].before = ids.back();
  }

  using Entry = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint32_t>;  ///< floor, first, id, version

  const ArenaProblem& problem_;
  std::vector<BlockId> order_;
  std::vector<Rank> rank_;
  std::vector<bool> placed_;
  Waiting starts_, ends_;
  std::vector<Stretch> stretches_;
  std::uint64_t work_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> lowest_;
};

std::vector<BlockId> preferred_order(const ArenaProblem& problem, Preference preference) {
  std::vector<BlockId> order(problem.blocks.size());
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](BlockId b) -> std::pair<double, double> {
    const ArenaBlock& block = problem.blocks[b];
    const double cliques = block.last - block.first + 1, bytes = static_cast<double>(block.bytes);
    if (preference == Preference::Longest) return {cliques, bytes};
    if (preference == Preference::LargestArea) return {cliques * bytes, cliques};
    return {bytes, cliques};
  };
  std::ranges::stable_sort(order, std::greater<>(), key);
  return order;
}

/// The lengths of blocks, those preferred that live where nearly as much is live as anywhere.
std::vector<double> lengths_by_load(const ArenaProblem& problem) {
  constexpr double kPower = 16;
  std::vector<double> keys;
  for (const ArenaBlock& block : problem.blocks) {
    std::uint64_t most = 0;
    for (std::uint32_t c = block.first; c <= block.last; ++c) most = std::max(most, problem.bytes[c]);
    const double load = static_cast<double>(most) / static_cast<double>(problem.least);
    keys.push_back((block.last - block.first + 1) * std::pow(load, kPower));
  }
  return keys;
}

}  // namespace

Placement place_again(const ArenaProblem& problem, Placement best, std::size_t passes) {
  constexpr std::uint64_t kMostWork = 1'500'000;
  if (best.peak - problem.least <= problem.least / 256) return best;
  std::vector<double> keys = lengths_by_load(problem);
  std::vector<BlockId> order(problem.blocks.size());
  std::uint64_t work = 0;
  for (std::size_t pass = 0; pass < passes && work < kMostWork; ++pass) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](BlockId b) { return keys[b]; });
    Skyline skyline(problem, order);
    Placement now = skyline.run();
    work += skyline.work();
    const auto excess = static_cast<double>(now.peak - problem.least);
    for (BlockId b = 0; b < keys.size(); ++b)
      if (const std::uint64_t end = now.offsets[b] + problem.blocks[b].bytes; end > problem.least)
        keys[b] *= 1 + static_cast<double>(end - problem.least) / excess;
    if (now.peak < best.peak) best = std::move(now);
    if (best.peak - problem.least <= problem.least / 256) break;
  }
  return best;
}

Placement place_by_skyline(const ArenaProblem& problem, Preference preference, std::uint64_t& work) {
  if (problem.blocks.empty()) return {{}, 0};
  Skyline skyline(problem, preferred_order(problem, preference));
  Placement placed = skyline.run();
  work += skyline.work();
  return placed;
}

}  // namespace coil::runtime
