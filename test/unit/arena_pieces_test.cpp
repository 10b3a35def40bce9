#include "runtime/plan/arena_pieces.h"

#include <algorithm>
#include <random>

namespace coil::runtime {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

std::vector<std::uint64_t> bytes_at(std::size_t steps, std::span<const Interval> lives) {
  std::vector<std::uint64_t> bytes(steps, 0);
  for (const Interval& i : lives)
    for (std::uint32_t s = i.first; i.bytes > 0 && s <= i.last; ++s) bytes[s] += i.bytes;
  return bytes;
}

/// Everything lies in its piece while it lives, apart from all else there.
void check(const ArenaPieces& plan, std::span<const Interval> intervals, std::span<const std::uint64_t> scratch,
           std::span<const std::uint64_t> beside, std::span<const StepRange> blocks = {}) {
  std::vector<std::uint64_t> total(beside.begin(), beside.end());
  for (const ArenaPiece& p : plan.pieces)
    for (std::uint32_t s = p.first; s <= p.last; ++s) total[s] += p.bytes;
  EXPECT_TRUE(blocks.empty() ? std::ranges::max(total) == plan.peak : std::ranges::max(total) <= plan.peak);
  for (const ArenaPiece& p : plan.pieces)
    for (const StepRange& b : blocks)
      EXPECT_TRUE((p.first <= b.first || b.last < p.first) && (p.last < b.first || b.last <= p.last));
  EXPECT_LE(plan.least, plan.peak);
  EXPECT_LT(plan.peak, plan.whole);
  EXPECT_TRUE(std::ranges::is_sorted(plan.pieces, {}, &ArenaPiece::first));
  for (std::size_t a = 0; a < intervals.size(); ++a) {
    const Interval& i = intervals[a];
    if (i.bytes == 0) continue;
    const ArenaPiece& piece = plan.pieces.at(plan.piece_of[a]);
    EXPECT_TRUE(piece.first <= i.first && i.last <= piece.last && plan.offsets[a] + i.bytes <= piece.bytes) << a;
    for (std::size_t s = i.first; s <= i.last; ++s)
      EXPECT_TRUE(scratch[s] == 0 || plan.scratch_of[s] != plan.piece_of[a]) << a;
    for (std::size_t b = 0; b < a; ++b) {
      const Interval& j = intervals[b];
      if (j.bytes == 0 || plan.piece_of[a] != plan.piece_of[b] || i.last < j.first || j.last < i.first) continue;
      EXPECT_TRUE(plan.offsets[a] + i.bytes <= plan.offsets[b] || plan.offsets[b] + j.bytes <= plan.offsets[a]);
    }
  }
  for (std::uint32_t s = 0; s < scratch.size(); ++s) {
    if (scratch[s] == 0) continue;
    const ArenaPiece& piece = plan.pieces.at(plan.scratch_of[s]);
    EXPECT_TRUE(piece.first <= s && s <= piece.last && scratch[s] <= piece.bytes) << s;
  }
}

/// Layers whose values are large at first and small at last, as a convolutional net's, each of which keeps something
/// for good; `backwards`, each of which lets go of something.
struct Layers {
  std::vector<Interval> values;
  std::vector<std::uint64_t> scratch, beside;

  explicit Layers(bool backwards, std::uint32_t count = 40) {
    const std::uint32_t steps = 2 * count;
    std::vector<Interval> kept;
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t layer = backwards ? count - 1 - k : k, at = 2 * k;
      const std::uint64_t bytes = (count - layer) * kMiB;
      values.push_back({bytes, at, std::min(at + 2, steps - 1)});
      values.push_back({bytes, at + 1, std::min(at + 2, steps - 1)});
      kept.push_back({bytes, backwards ? 0 : at, backwards ? at + 1 : steps - 1});
      scratch.push_back(bytes / 2);
      scratch.push_back(0);
    }
    beside = bytes_at(steps, kept);
  }
};

TEST(ArenaPieces, ArenasThatAreGoneWhenTheyAreNeededNoLongerLowerThePeak) {
  for (bool backwards : {false, true}) {
    const Layers net(backwards);
    const ArenaPieces plan = plan_pieces(net.values, net.scratch, net.beside);
    ASSERT_GT(plan.pieces.size(), 1u) << backwards;
    check(plan, net.values, net.scratch, net.beside);
    EXPECT_LT(plan.peak, plan.least + plan.least / 16) << backwards;
    EXPECT_GT(plan.whole, plan.least + plan.least / 10) << backwards;
    EXPECT_LE(plan.pieces.size(), 40u);
  }
}

TEST(ArenaPieces, OneArenaIsLeftWholeWhereNothingComesOrGoesBesideIt) {
  const Layers net(false);
  const std::vector<std::uint64_t> nothing(net.beside.size(), 0), steady(net.beside.size(), 100 * kMiB);
  for (const auto& beside : {nothing, steady}) {
    const ArenaPieces plan = plan_pieces(net.values, nothing, beside);
    EXPECT_TRUE(plan.pieces.empty());
    EXPECT_EQ(plan.peak, plan.whole);
  }
}

TEST(ArenaPieces, SmallProgramsHaveOneArena) {
  const std::vector<Interval> values{{32 << 10, 0, 1}, {16 << 10, 1, 2}};
  const std::vector<std::uint64_t> nothing(3, 0), beside{0, 0, 64 << 10};
  EXPECT_TRUE(plan_pieces(values, nothing, beside).pieces.empty());
  EXPECT_TRUE(plan_pieces({}, nothing, beside).pieces.empty());
  EXPECT_TRUE(plan_pieces({}, {}, {}).pieces.empty());
}

TEST(ArenaPieces, SmallValuesThatAllEndLastDoNotHaveMemoryFromTheFirstStep) {
  // Gradients of two hundred weights in 16 bits, which one call at the end widens, while what was kept goes.
  constexpr std::uint32_t kCount = 200;
  std::vector<Interval> values;
  std::vector<std::uint64_t> beside(kCount + 1);
  for (std::uint32_t s = 0; s <= kCount; ++s) {
    if (s < kCount) values.push_back({kMiB, s, kCount});
    beside[s] = (kCount - s) * kMiB;
  }
  const std::vector<std::uint64_t> scratch(beside.size(), 0);
  const ArenaPieces plan = plan_pieces(values, scratch, beside);
  check(plan, values, scratch, beside);
  EXPECT_LE(plan.peak, plan.least + plan.least / 8);
}

TEST(ArenaPieces, PiecesComeAndGoWithWholeBlocks) {
  // As many layers, each in a loop of its own: the same peak as where each is two steps.
  for (bool backwards : {false, true}) {
    const Layers net(backwards);
    std::vector<StepRange> blocks;
    for (std::uint32_t s = 0; s < net.beside.size(); s += 2) blocks.push_back({s, s + 1});
    const ArenaPieces plan = plan_pieces(net.values, net.scratch, net.beside, blocks);
    ASSERT_GT(plan.pieces.size(), 1u) << backwards;
    check(plan, net.values, net.scratch, net.beside, blocks);
    EXPECT_LT(plan.peak, plan.least + plan.least / 16) << backwards;
    const StepRange all[] = {{0, static_cast<std::uint32_t>(net.beside.size()) - 1}};
    EXPECT_TRUE(plan_pieces(net.values, net.scratch, net.beside, all).pieces.empty());
  }
}

TEST(ArenaPieces, NothingOverlapsInRandomPrograms) {
  int with_pieces = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937 random(seed);
    const auto steps = static_cast<std::uint32_t>(2 + random() % 120);
    const auto interval = [&](std::uint32_t most, std::uint32_t length) {
      const auto first = static_cast<std::uint32_t>(random() % steps);
      return Interval{random() % most, first,
                      std::min(steps - 1, first + static_cast<std::uint32_t>(random() % length))};
    };
    std::vector<Interval> values(random() % 150), beside(random() % 40);
    for (Interval& i : values) i = interval(random() % 4 == 0 ? 4u << 20 : 50'000, random() % 5 == 0 ? 60 : 5);
    for (Interval& i : beside) i = interval(8u << 20, steps);
    std::vector<std::uint64_t> scratch(steps, 0);
    for (std::uint64_t& s : scratch) s = random() % 3 == 0 ? random() % (3u << 20) : 0;
    const std::vector<std::uint64_t> other = bytes_at(steps, beside);
    std::vector<StepRange> blocks;
    for (std::uint32_t s = 0; seed % 2 == 0 && s < steps; s += static_cast<std::uint32_t>(random() % 20)) {
      blocks.push_back({s, std::min(steps - 1, s + static_cast<std::uint32_t>(random() % 9))});
      s = blocks.back().last + 1;
    }
    const ArenaPieces plan = plan_pieces(values, scratch, other, blocks);
    if (plan.pieces.empty()) continue;
    ++with_pieces;
    check(plan, values, scratch, other, blocks);
  }
  EXPECT_GT(with_pieces, 10);
}

TEST(ArenaPieces, EqualArgumentsGiveEqualPieces) {
  const Layers net(true);
  const ArenaPieces a = plan_pieces(net.values, net.scratch, net.beside),
                    b = plan_pieces(net.values, net.scratch, net.beside);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.piece_of, b.piece_of);
}

}  // namespace
}  // namespace coil::runtime
