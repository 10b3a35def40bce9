#include "runtime/plan/arena_planner.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "support/error.h"

namespace coil::runtime {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  const std::uint64_t rounded = (value + alignment - 1) / alignment * alignment;
  if (rounded < value) fail("the temporaries of this program do not fit in 64 bits of memory");
  return rounded;
}

struct Placed {
  std::uint64_t begin, end;
  std::uint32_t first, last;
};

/// A centred interval tree over steps: each block lies at the highest node whose middle step it covers, so a query
/// for a short interval walks one path.
class LiveTree {
 public:
  explicit LiveTree(std::uint32_t steps) : steps_(steps), nodes_(1) {}

  void insert(const Placed& block) {
    std::uint32_t low = 0, high = steps_;
    std::size_t node = 0;
    for (;;) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (block.last < middle) {
        node = child(node, 0);
        high = middle;
      } else if (block.first > middle) {
        node = child(node, 1);
        low = middle + 1;
      } else {
        nodes_[node].blocks.push_back(block);
        return;
      }
    }
  }

  /// Appends to `found` the blocks that are live somewhere in [first, last].
  void overlapping(std::uint32_t first, std::uint32_t last, std::vector<Placed>& found) const {
    visit(0, 0, steps_, first, last, found);
  }

 private:
  struct Node {
    std::vector<Placed> blocks;
    std::size_t children[2] = {0, 0};
  };

  std::size_t child(std::size_t node, int side) {
    if (nodes_[node].children[side] == 0) {
      nodes_.emplace_back();
      nodes_[node].children[side] = nodes_.size() - 1;
    }
    return nodes_[node].children[side];
  }

  void visit(std::size_t node, std::uint32_t low, std::uint32_t high, std::uint32_t first, std::uint32_t last,
             std::vector<Placed>& found) const {
    for (const Placed& block : nodes_[node].blocks)
      if (block.first <= last && first <= block.last) found.push_back(block);
    const std::uint32_t middle = low + (high - low) / 2;
    if (first < middle && nodes_[node].children[0]) visit(nodes_[node].children[0], low, middle, first, last, found);
    if (last > middle && nodes_[node].children[1])
      visit(nodes_[node].children[1], middle + 1, high, first, last, found);
  }

  std::uint32_t steps_;
  std::vector<Node> nodes_;
};

/// The tightest gap between `blocks` (sorted by begin) that holds `bytes`; past them all when there is none.
std::uint64_t best_fit(std::span<const Placed> blocks, std::uint64_t bytes) {
  const std::uint64_t alignment = arena_alignment(bytes);
  std::uint64_t best = 0, best_waste = std::numeric_limits<std::uint64_t>::max(), top = 0;
  bool found = false;
  for (const Placed& block : blocks) {
    const std::uint64_t at = round_up(top, alignment);
    if (block.begin >= at && block.begin - at >= bytes && block.begin - top - bytes < best_waste) {
      best = at;
      best_waste = block.begin - top - bytes;
      found = true;
    }
    top = std::max(top, block.end);
  }
  return found ? best : round_up(top, alignment);
}

ArenaPlan place(std::span<const Interval> intervals, std::span<const std::size_t> order, std::uint32_t steps) {
  ArenaPlan plan;
  plan.offsets.assign(intervals.size(), 0);
  LiveTree live(steps);
  std::vector<Placed> around;
  for (std::size_t i : order) {
    const Interval& interval = intervals[i];
    around.clear();
    live.overlapping(interval.first, interval.last, around);
    std::sort(around.begin(), around.end(), [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    const std::uint64_t at = best_fit(around, interval.bytes);
    if (at + interval.bytes < at) fail("the temporaries of this program do not fit in 64 bits of memory");
    plan.offsets[i] = at;
    live.insert({at, at + interval.bytes, interval.first, interval.last});
    plan.peak = std::max(plan.peak, at + interval.bytes);
  }
  plan.peak = round_up(plan.peak, 64);
  return plan;
}

}  // namespace

std::uint64_t arena_alignment(std::uint64_t bytes) { return bytes >= (1u << 20) ? 4096 : 64; }

ArenaPlan plan_arena(std::span<const Interval> intervals) {
  std::vector<std::size_t> order;
  std::uint32_t steps = 1;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    COIL_CHECK(intervals[i].first <= intervals[i].last, "interval {} ends before it begins", i);
    COIL_CHECK(intervals[i].last < std::numeric_limits<std::uint32_t>::max());
    steps = std::max(steps, intervals[i].last + 1);
    if (intervals[i].bytes > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return intervals[a].bytes != intervals[b].bytes ? intervals[a].bytes > intervals[b].bytes
                                                    : intervals[a].first < intervals[b].first;
  });
  return place(intervals, order, steps);
}

}  // namespace coil::runtime
