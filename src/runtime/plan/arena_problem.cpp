#include "runtime/plan/arena_problem.h"

#include <algorithm>

#include "support/error.h"

namespace coil::runtime {
namespace {

/// The clique of each step: a new one begins where something comes to life after something has died.
std::vector<std::uint32_t> cliques_of_steps(std::span<const Interval> intervals, std::uint32_t steps) {
  std::vector<bool> begins(steps, false), ends(steps, false);
  for (const Interval& i : intervals)
    if (i.bytes > 0) begins[i.first] = true, ends[i.last] = true;
  std::vector<std::uint32_t> clique(steps);
  std::uint32_t now = 0;
  bool ended = false;
  for (std::uint32_t s = 0; s < steps; ++s) {
    if (begins[s] && ended) ++now, ended = false;
    clique[s] = now;
    ended = ended || ends[s];
  }
  return clique;
}

/// The steps at which something begins or ends, in order: gaps between them do not matter.
std::vector<std::uint32_t> borders(std::span<const Interval> intervals) {
  std::vector<std::uint32_t> steps;
  for (const Interval& i : intervals)
    if (i.bytes > 0) steps.push_back(i.first), steps.push_back(i.last);
  std::ranges::sort(steps);
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

}  // namespace

ArenaProblem arena_problem(std::span<const Interval> given) {
  const std::vector<std::uint32_t> steps = borders(given);
  auto place = [&](std::uint32_t step) {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(steps, step) - steps.begin());
  };
  std::vector<Interval> intervals(given.begin(), given.end());
  ArenaProblem problem;
  std::uint64_t sum = 0;
  for (std::size_t k = 0; k < intervals.size(); ++k) {
    Interval& i = intervals[k];
    COIL_CHECK(i.first <= i.last, "interval {} ends before it begins", k);
    if (i.bytes == 0) continue;
    const std::uint64_t alignment = arena_alignment(i.bytes), bytes = aligned(i.bytes, arena_alignment(1));
    // Every offset is at most the sum of what lies below, each with its alignment.
    if (bytes < i.bytes || __builtin_add_overflow(sum, bytes, &sum) || __builtin_add_overflow(sum, alignment, &sum))
      fail("the temporaries of this program do not fit in 64 bits of memory");
    problem.blocks.push_back({bytes, alignment, place(i.first), place(i.last), i.last - i.first + 1});
    problem.of.push_back(k);
    i.first = problem.blocks.back().first, i.last = problem.blocks.back().last;
  }
  const std::vector<std::uint32_t> clique = cliques_of_steps(intervals, static_cast<std::uint32_t>(steps.size()));
  problem.bytes.assign(clique.empty() ? 0 : clique.back() + 2, 0);
  for (ArenaBlock& b : problem.blocks) {
    b.first = clique[b.first], b.last = clique[b.last];
    problem.bytes[b.first] += b.bytes;
    problem.bytes[b.last + 1] -= b.bytes;  // differences, summed up below
  }
  for (std::size_t c = 1; c < problem.bytes.size(); ++c) problem.bytes[c] += problem.bytes[c - 1];
  if (!problem.bytes.empty()) problem.bytes.pop_back(), problem.least = *std::ranges::max_element(problem.bytes);
  return problem;
}

}  // namespace coil::runtime
