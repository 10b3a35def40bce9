#include "runtime/device/overlap.h"

#include <algorithm>
#include <functional>
#include <map>

namespace coil::runtime {
namespace {

constexpr std::int64_t kNone = -1;

/// Who touched which bytes last.
class Touched {
 public:
  /// Adds to `behind` what a step has to wait for that touches these bytes now.
  void touch(std::uint32_t step, const Touch& t, std::vector<std::uint32_t>& behind) {
    if (t.begin >= t.end) return;
    cut(t.begin);
    cut(t.end);
    auto wait_for = [&](std::int64_t other) {
      if (other != kNone && other != step) behind.push_back(static_cast<std::uint32_t>(other));
    };
    std::uintptr_t at = t.begin;
    for (auto it = pieces_.lower_bound(t.begin); at < t.end;) {
      if (it == pieces_.end() || it->first > at) {  // nobody was here
        const std::uintptr_t end = it == pieces_.end() ? t.end : std::min(t.end, it->first);
        it = pieces_.emplace_hint(it, at, Piece{end, kNone, {}});
      }
      Piece& p = it->second;
      wait_for(p.writer);
      if (t.writes) {
        for (std::uint32_t reader : p.readers) wait_for(reader);
        p.writer = step;
        p.readers.clear();
      } else {
        p.readers.push_back(step);
      }
      at = p.end;
      ++it;
    }
  }

 private:
  struct Piece {
    std::uintptr_t end;
    std::int64_t writer;
    std::vector<std::uint32_t> readers;  ///< since then
  };

  /// No piece lies across this place from now on.
  void cut(std::uintptr_t at) {
    auto after = pieces_.upper_bound(at);
    if (after == pieces_.begin()) return;
    auto& [begin, piece] = *std::prev(after);
    if (begin == at || piece.end <= at) return;
    Piece rest = piece;
    piece.end = at;
    pieces_.emplace_hint(after, at, std::move(rest));
  }

  std::map<std::uintptr_t, Piece> pieces_;  ///< by where they begin
};

/// For each lane the last step that is known to be done.
using Clock = std::vector<std::int64_t>;

void join(Clock& to, const Clock& other) {
  for (std::size_t l = 0; l < to.size(); ++l) to[l] = std::max(to[l], other[l]);
}

}  // namespace

std::vector<StepOrder> order_steps(std::span<const std::vector<Touch>> steps, std::uint32_t lanes) {
  Touched touched;
  std::vector<StepOrder> orders(steps.size());
  std::vector<Clock> done(steps.size());  // when the step is
  Clock last(lanes, kNone);               // step of each lane
  std::vector<std::uint32_t> behind;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    behind.clear();
    for (const Touch& t : steps[s]) touched.touch(s, t, behind);
    std::sort(behind.begin(), behind.end(), std::greater<>());
    Clock clock(lanes, kNone);
    std::vector<std::uint32_t> after;
    for (std::uint32_t d : behind) {
      if (clock[orders[d].lane] >= d) continue;
      after.push_back(d);
      join(clock, done[d]);
    }
    // Behind the latest of what it waits for; else where everything is known to be done; else where it was quiet for
    // the longest time.
    std::uint32_t lane = lanes;
    for (std::uint32_t d : after)
      if (lane == lanes && last[orders[d].lane] == d) lane = orders[d].lane;
    for (std::uint32_t l = 0; l < lanes && lane == lanes; ++l)
      if (last[l] <= clock[l]) lane = l;
    if (lane == lanes) {
      lane = static_cast<std::uint32_t>(std::min_element(last.begin(), last.end()) - last.begin());
      join(clock, done[static_cast<std::size_t>(last[lane])]);
    }
    orders[s].lane = lane;
    for (std::uint32_t d : after) {
      if (orders[d].lane == lane) continue;
      orders[s].after.push_back(d);
      orders[d].awaited = true;
    }
    last[lane] = clock[lane] = s;
    done[s] = std::move(clock);
  }
  return orders;
}

}  // namespace coil::runtime
