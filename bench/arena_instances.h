// Sets of buffers in the manner of programs, and of instances that planner papers publish: for tests and benchmarks.
#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "runtime/plan/arena_planner.h"

namespace coil::instances {

using runtime::Interval;

/// A rectangle of time and memory cut up until it has `count` pieces: they fit without a gap, if one finds out how.
inline std::vector<Interval> cut_up(std::size_t count, std::uint32_t steps, std::uint64_t units, std::mt19937& random) {
  struct Piece {
    std::uint32_t first, end;
    std::uint64_t low, high;
  };
  std::vector<Piece> pieces{{0, steps, 0, units}};
  while (pieces.size() < count) {
    const std::size_t k = random() % pieces.size();
    const Piece p = pieces[k];
    if (random() % 2 == 0 && p.end - p.first > 1) {
      const auto at = p.first + 1 + static_cast<std::uint32_t>(random() % (p.end - p.first - 1));
      pieces[k].end = at;
      pieces.push_back({at, p.end, p.low, p.high});
    } else if (p.high - p.low > 1) {
      const std::uint64_t at = p.low + 1 + random() % (p.high - p.low - 1);
      pieces[k].high = at;
      pieces.push_back({p.first, p.end, at, p.high});
    }
  }
  std::ranges::shuffle(pieces, random);
  std::vector<Interval> intervals;
  for (const Piece& p : pieces) intervals.push_back({(p.high - p.low) * 1024, p.first, p.end - 1});
  return intervals;
}

/// Rectangles cut up within sections of time, beside others that live through many sections: no gap is left either.
inline std::vector<Interval> sections(std::size_t count, std::mt19937& random) {
  constexpr std::uint32_t kSteps = 32;
  constexpr std::uint64_t kUnits = 832, kLongUnits = 192;
  const auto number = static_cast<std::uint32_t>(std::max<std::size_t>(count / 16, 2));
  std::vector<Interval> intervals = cut_up(count / 10, number, kLongUnits, random);
  for (Interval& i : intervals) i.first *= kSteps, i.last = (i.last + 1) * kSteps - 1;
  for (std::uint32_t k = 0; k < number; ++k) {
    const std::size_t left = (count - intervals.size()) / (number - k);
    for (Interval i : cut_up(left, kSteps, kUnits, random))
      intervals.push_back({i.bytes, i.first + k * kSteps, i.last + k * kSteps});
  }
  std::ranges::shuffle(intervals, random);
  return intervals;
}

/// Forward values that the backward pass reads, the last ones first, and what lives briefly beside them.
inline std::vector<Interval> training(std::uint32_t layers, std::mt19937& random) {
  const std::uint32_t steps = 4 * layers;
  std::vector<Interval> intervals;
  for (std::uint32_t k = 0; k < layers; ++k) {
    intervals.push_back({64 * (1 + random() % 3000), 2 * k, steps - 1 - 2 * k});
    intervals.push_back({64 * (1 + random() % 4000), 2 * k, 2 * k + 2});
    intervals.push_back({64 * (1 + random() % 4000), steps - 3 - 2 * k, steps - 1 - 2 * k});
  }
  return intervals;
}

/// Values that live for two steps mostly, some for longer, few for long.
inline std::vector<Interval> inference(std::uint32_t count, std::mt19937& random) {
  std::vector<Interval> intervals;
  for (std::uint32_t k = 0; k < count; ++k) {
    std::uint32_t length = random() % 10 < 7 ? 2 : 2 + random() % 11;
    if (random() % 50 == 0) length = 12 + random() % 190;
    intervals.push_back({64 * (1 + random() % 4096), k, k + length});
  }
  return intervals;
}

/// Any sizes at any time, for less than `length` steps.
inline std::vector<Interval> scattered(std::uint32_t count, std::uint32_t length, std::mt19937& random) {
  std::vector<Interval> intervals;
  for (std::uint32_t k = 0; k < count; ++k) {
    const auto first = static_cast<std::uint32_t>(random() % count);
    intervals.push_back({64 * (1 + random() % 4096), first, first + static_cast<std::uint32_t>(random() % length)});
  }
  return intervals;
}

/// In the manner of programs of accelerators with memory of their own: tiles of one size that come together and go one
/// after the other, sizes of a small set, and some weights that stay for long.
inline std::vector<Interval> tiles(std::uint32_t count, std::mt19937& random) {
  constexpr std::uint64_t kSizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
  const auto size = [&] { return kSizes[random() % std::size(kSizes)] * 1024; };
  std::vector<Interval> intervals;
  for (std::uint32_t now = 0; intervals.size() < count; now += 1 + random() % 6) {
    const auto together = static_cast<std::uint32_t>(2 + random() % 14);
    const std::uint64_t bytes = size();
    for (std::uint32_t k = 0; k < together; ++k) {
      const auto first = now + static_cast<std::uint32_t>(random() % 4);
      intervals.push_back({bytes, first, first + 1 + k + static_cast<std::uint32_t>(random() % 6)});
    }
    if (random() % 4 == 0)
      intervals.push_back({size(), now, now + 20 + static_cast<std::uint32_t>(random() % (count / 3))});
  }
  intervals.resize(count);
  return intervals;
}

}  // namespace coil::instances
