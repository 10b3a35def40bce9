#include "scheduler/exchange_overlap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/memory_order.h"

namespace coil::scheduler {
namespace {

/// A program of steps that read and write storages, some of which start exchanges of what was made.
struct Maker {
  TimedProgram program;
  StepOrder order;
  std::vector<StepId> starts;

  Maker(std::size_t storages, std::uint64_t bytes)
      : program{{std::vector<Storage>(storages, {bytes, StorageClass::Temporary}), {}}, {}}, order(program.memory) {}
  StepId add(std::vector<StorageId> reads, std::vector<StorageId> writes, TimedStep step) {
    const StepId id = order.add(reads, writes);
    auto& after = program.memory.steps[id].after;
    if ((step.group || step.waits_for) && !starts.empty() && std::ranges::find(after, starts.back()) == after.end())
      after.push_back(starts.back());
    std::ranges::sort(after);
    if (step.group) starts.push_back(id);
    program.steps.push_back(step);
    return id;
  }
  StepId compute(std::vector<StorageId> reads, std::vector<StorageId> writes, double seconds) {
    return add(std::move(reads), std::move(writes), {.seconds = seconds, .group = {}, .waits_for = {}});
  }
  StepId start(StorageId from, StorageId to, double seconds) {
    return add({from}, {to},
               {.seconds = 0.01,
                .group = 0,
                .exchange_seconds = seconds,
                .waits_for = {},
                .kind = 1,
                .bytes = 1,
                .saved_seconds = 0.5});
  }
  void wait(StepId started, StorageId from, StorageId to) {
    add({from, to}, {to}, {.seconds = 0.01, .group = {}, .waits_for = started});
  }
};

std::vector<StepId> flat(const OverlapOrder& order) {
  std::vector<StepId> all;
  for (const auto& step : order.steps) all.insert(all.end(), step.begin(), step.end());
  return all;
}

TEST(OverlapOfExchanges, PutsWorkThatNeedsNoneOfThemBetweenStartAndWait) {
  Maker m(6, 8);
  m.compute({}, {4}, 3);
  m.compute({4}, {5}, 3);
  m.compute({}, {0}, 1);
  m.wait(m.start(0, 1, 5), 0, 1);
  m.compute({1}, {2}, 1);
  const OverlapOrder found = overlap_exchanges(m.program, {0, 1000});
  EXPECT_NEAR(found.written_seconds, 13.01, 0.1);
  EXPECT_NEAR(found.seconds, 8.02, 0.1) << "the other six seconds lie beside the exchange";
  EXPECT_EQ(flat(found), (std::vector<StepId>{2, 3, 0, 1, 4, 5}));
}

TEST(OverlapOfExchanges, KeepsTheWrittenOrderWhereNothingIsGained) {
  Maker m(4, 8);
  m.compute({}, {0}, 1);
  m.wait(m.start(0, 1, 5), 0, 1);
  m.compute({1}, {2}, 1);
  const OverlapOrder found = overlap_exchanges(m.program, {100, 1000});
  EXPECT_EQ(flat(found), written_order(m.program.memory));
  EXPECT_EQ(found.seconds, found.written_seconds);
}

TEST(OverlapOfExchanges, StartsTogetherWhatDoesNotWaitForOneAnother) {
  Maker m(8, 8);
  m.compute({}, {0}, 0.1);
  m.wait(m.start(0, 1, 1), 0, 1);
  m.compute({1}, {2}, 0.1);
  m.wait(m.start(0, 3, 1), 0, 3);
  m.wait(m.start(2, 4, 1), 2, 4);
  const OverlapOrder found = overlap_exchanges(m.program, {100, 1000});
  const auto bucket = std::ranges::find_if(found.steps, [](const auto& s) { return s.size() > 1; });
  ASSERT_NE(bucket, found.steps.end());
  EXPECT_EQ(*bucket, (std::vector<StepId>{1, 4})) << "the third needs what the first gives";
  EXPECT_LT(found.seconds, overlap_exchanges(m.program, {0, 1000}).seconds);
  EXPECT_LT(found.seconds, overlap_exchanges(m.program, {1, 1000}).seconds) << "two of them are too large for 1";
}

/// What holds of every order that is found.
void check(const TimedProgram& program, const OverlapLimits& limits, const OverlapOrder& found, unsigned seed) {
  const std::vector<StepId> order = flat(found);
  std::vector<StepId> starts;
  std::vector<std::size_t> place(order.size(), order.size());
  for (std::size_t k = 0; k < found.steps.size(); ++k)
    for (StepId s : found.steps[k]) {
      ASSERT_EQ(place[s], order.size()) << "seed " << seed;
      place[s] = k;
      if (program.steps[s].group) starts.push_back(s);
    }
  ASSERT_EQ(order.size(), program.steps.size()) << "seed " << seed;
  EXPECT_TRUE(std::ranges::is_sorted(starts)) << "exchanges in another order, seed " << seed;
  for (StepId s = 0; s < place.size(); ++s)
    for (StepId before : program.memory.steps[s].after)
      EXPECT_TRUE(place[before] < place[s] || (place[before] == place[s] && program.steps[s].group))
          << "step " << s << " before " << before << ", seed " << seed;
  EXPECT_LE(found.seconds, found.written_seconds) << "seed " << seed;
  EXPECT_LE(found.found.temporaries, std::max(limits.peak_bytes, found.written.temporaries)) << "seed " << seed;
  for (const auto& step : found.steps) {
    std::uint64_t bytes = 0;
    for (StepId s : step) bytes += program.steps[s].bytes;
    EXPECT_TRUE(step.size() == 1 || bytes <= limits.bucket_bytes) << "seed " << seed;
  }
}

TEST(OverlapOfExchanges, HoldsWhatItPromisesForRandomPrograms) {
  const unsigned first = std::random_device{}();
  for (unsigned seed = first; seed < first + 60; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](unsigned n) { return static_cast<StorageId>(random() % n); };
    Maker m(40, 8);
    std::vector<StorageId> made{0};
    m.compute({}, {0}, 1);
    std::vector<std::tuple<StepId, StorageId, StorageId>> pending;
    for (StorageId next = 1; next < 40;) {
      const StorageId from = made[draw(static_cast<unsigned>(made.size()))];
      const unsigned kind = draw(4);
      if (kind == 0) {
        pending.emplace_back(m.start(from, next, 0.5 + draw(4)), from, next);
        ++next;
      } else if (kind == 1 && !pending.empty()) {
        const auto at = pending.begin() + draw(static_cast<unsigned>(pending.size()));
        const auto [step, x, y] = *at;
        pending.erase(at);
        m.wait(step, x, y);
        made.push_back(y);
      } else {
        m.compute({from}, {next}, 0.1 + draw(3));
        made.push_back(next++);
      }
    }
    for (const auto& [step, x, y] : pending) m.wait(step, x, y);
    const std::uint64_t peak = peak_of(m.program.memory, written_order(m.program.memory)).temporaries;
    for (const OverlapLimits& limits : {OverlapLimits{0, 0}, OverlapLimits{3, peak + 32}, OverlapLimits{100, 1000}})
      check(m.program, limits, overlap_exchanges(m.program, limits), seed);
  }
}

}  // namespace
}  // namespace coil::scheduler
