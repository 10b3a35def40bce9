#include "runtime/plan/arena_search.h"

#include <algorithm>

#include "runtime/plan/arena_refill.h"

namespace coil::runtime {
namespace {

constexpr std::size_t kMostMembers = 120;
constexpr std::uint64_t kLooksOfAll = 4000;

class Search {
 public:
  Search(const ArenaProblem& problem, Placement& placement)
      : problem_(problem), now_(placement), best_(placement), refill_(problem, now_) {}

  void run(std::uint64_t work) {
    const std::uint64_t enough = problem_.least + problem_.least / 256;
    // One try of all takes a few thousand looks at each block.
    if (best_.peak > enough && problem_.blocks.size() * kLooksOfAll < work) restart(work * 3 / 10);
    aim();
    while (best_.peak > problem_.least && refill_.work() < (best_.peak <= enough ? work / 32 : work)) {
      const std::vector<std::uint32_t> members = choose();
      if (!refill_.run(members, target_, random_)) continue;
      for (std::uint32_t b : members) now_.offsets[b] = refill_.offsets()[b];
      find_high();
      if (now_.peak < best_.peak) best_ = now_;
      if (high_.empty()) aim();
    }
  }

 private:
  /// Everything placed anew, each time lower.
  void restart(std::uint64_t work) {
    const double steps[] = {0.3, 0.1, 0.05, 0.03, 0.02, 0.01, 0.004, 0};
    for (double step : steps) {
      const auto most = problem_.least + static_cast<std::uint64_t>(step * static_cast<double>(problem_.least));
      if (most >= best_.peak) continue;
      while (refill_.work() < work) {
        if (!refill_.run_all(most, random_)) continue;
        now_.offsets.assign(refill_.offsets().begin(), refill_.offsets().end());
        find_high();
        best_ = now_;
        break;
      }
      if (best_.peak > most) return;
    }
  }

  std::uint64_t end_of(std::uint32_t b) const { return now_.offsets[b] + problem_.blocks[b].bytes; }

  /// Half of the way to the least, or all of it where little is left.
  void aim() {
    find_high();
    const std::uint64_t excess = best_.peak - problem_.least;
    target_ = problem_.least + (excess <= problem_.least / 64 ? 0 : excess / 2);
    find_high();
  }

  void find_high() {
    high_.clear();
    now_.peak = 0;
    for (std::uint32_t b = 0; b < problem_.blocks.size(); ++b) {
      now_.peak = std::max(now_.peak, end_of(b));
      if (end_of(b) > target_) high_.push_back(b);
    }
  }

  /// One block that lies too high, and all that live within some time around it; of many those that lie highest.
  std::vector<std::uint32_t> choose() {
    const std::uint32_t pivot = high_[random_() % high_.size()];
    const ArenaBlock& high = problem_.blocks[pivot];
    const auto cliques = static_cast<std::uint32_t>(problem_.bytes.size());
    const std::uint32_t reach = 1 + random_() % (16u << (random_() % 4));
    const std::uint32_t before = random_() % (reach + 1), behind = reach - before;
    const std::uint32_t first = high.first - std::min(high.first, before),
                        last = std::min(high.last + behind, cliques - 1);
    std::vector<std::uint32_t> members;
    for (std::uint32_t b = 0; b < problem_.blocks.size(); ++b)
      if (problem_.blocks[b].first >= first && problem_.blocks[b].last <= last) members.push_back(b);
    if (members.size() <= kMostMembers) return members;
    // Around some height, with the pivot.
    const bool top = random_() % 2 == 0;
    const std::uint64_t height = top ? now_.peak : random_() % now_.peak;
    auto distance = [&](std::uint32_t b) {
      const std::uint64_t at = now_.offsets[b] + problem_.blocks[b].bytes / 2;
      return b == pivot ? 0 : 1 + (at > height ? at - height : height - at);
    };
    std::ranges::nth_element(members, members.begin() + kMostMembers, {}, distance);
    members.resize(kMostMembers);
    std::ranges::sort(members);
    return members;
  }

  const ArenaProblem& problem_;
  Placement now_;
  Placement& best_;
  Refill refill_;
  std::mt19937 random_{3};
  std::vector<std::uint32_t> high_;  ///< blocks that end above the target
  std::uint64_t target_ = 0;
};

}  // namespace

void improve_placement(const ArenaProblem& problem, Placement& placement, std::uint64_t work) {
  std::uint64_t look = 0;  // of a refill at all blocks
  for (const ArenaBlock& b : problem.blocks) look += b.last - b.first + 1;
  if (placement.peak > problem.least && look <= work) Search(problem, placement).run(work);
}

}  // namespace coil::runtime
