#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "error_of.h"
#include "passes/wrapper/lifetimes.h"
#include "wrapper/plan.h"
#include "wrapper/text.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using wrapper::Allocate;
using wrapper::BufferId;
using wrapper::CallKernel;
using wrapper::Free;
using wrapper::Reuse;

/// x -> a -> b -> output, of these sizes each.
struct Chain : WrapperProgram {
  BufferId x, a, b, out;
  Chain(const sym::Exprs& first, const sym::Exprs& second, bool in_place)
      : x(input("x", first)), a(temporary("a", first)), b(temporary("b", second)), out(temporary("out", second)) {
    call({x}, a);
    call({a}, b, in_place);
    call({b}, out, in_place);
    returns(out);
  }
};

TEST(WrapperLifetimes, EachTemporaryLivesFromItsFirstUseToItsLast) {
  Chain p({8}, {4}, true);
  wrapper::plan_lifetimes(p);
  EXPECT_NO_THROW(wrapper::verify(p));
  EXPECT_EQ(p.count<Allocate>(), 3u);  // a, b and the output
  EXPECT_EQ(p.count<Free>(), 2u);      // the output is the caller's
  EXPECT_EQ(p.count<Reuse>(), 0u) << "sizes differ";
  EXPECT_EQ(wrapper::to_string(p),
            "buffer x : f32[8] {[1]} input\n"
            "buffer a : f32[8] {[1]} temporary\n"
            "buffer b : f32[4] {[1]} temporary\n"
            "buffer out : f32[4] {[1]} output\n"
            "kernel coil_k\n"
            "allocate a\n"
            "call coil_k(x, &a; []) over 1 by 1\n"
            "allocate b\n"
            "call coil_k(a, &b; []) over 1 by 1\n"
            "free a\n"
            "allocate out\n"
            "call coil_k(b, &out; []) over 1 by 1\n"
            "free b\n"
            "output output = out\n");
}

TEST(WrapperLifetimes, MemoryIsReusedWhereTheKernelAllowsItAndSizesAreEqual) {
  Chain allowed({8}, {8}, true), forbidden({8}, {8}, false);
  wrapper::plan_lifetimes(allowed);
  wrapper::plan_lifetimes(forbidden);
  EXPECT_EQ(allowed.count<Reuse>(), 1u) << "b takes over a; the output never takes over a temporary";
  EXPECT_EQ(forbidden.count<Reuse>(), 0u);
  EXPECT_NO_THROW(wrapper::verify(allowed));
}

/// Two layers that each make their input in place of it, beside a wide value, and a head of two more steps.
struct Layers : WrapperProgram {
  explicit Layers(std::int64_t results) {
    constexpr std::int64_t kNarrow = 1 << 16, kWide = 4 * kNarrow;
    BufferId x = temporary("x0", {kNarrow});
    call({input("x", {kNarrow})}, x);
    for (int layer = 0; layer < 2; ++layer) {
      const BufferId wide = temporary("wide", {kWide}), sum = temporary("sum", {kNarrow}),
                     norm = temporary("norm", {kNarrow});
      call({x}, wide);
      call({x, wide}, sum, true);
      call({sum}, norm, true);
      x = norm;
    }
    const BufferId head = temporary("head", {kNarrow}), out = temporary("out", {results});
    call({x}, head);
    call({head}, out);
    returns(out);
  }
};

TEST(WrapperLifetimes, ATakeoverThatKeepsTheLastValueOutOfAResultIsTakenBack) {
  Layers wide(1 << 18), narrow(16);
  wrapper::plan_lifetimes(wide);
  wrapper::plan_lifetimes(narrow);
  EXPECT_EQ(narrow.count<Reuse>(), 4u) << "no value has room in the result: " << wrapper::to_string(narrow);
  EXPECT_EQ(wide.count<Reuse>(), 3u) << "the last value may lie in the result, and the head in its place: "
                                     << wrapper::to_string(wide);
  EXPECT_NO_THROW(wrapper::verify(wide));
}

TEST(WrapperLifetimes, AnInputOrAValueReadLaterIsNotTakenOver) {
  WrapperProgram p;
  const BufferId x = p.input("x", {8}), a = p.temporary("a", {8}), b = p.temporary("b", {8}),
                 out = p.temporary("out", {8});
  p.call({x}, a, true);
  p.call({a}, b, true);
  p.call({a, b}, out);
  p.returns(out);
  wrapper::plan_lifetimes(p);
  EXPECT_EQ(p.count<Reuse>(), 0u) << wrapper::to_string(p);
  EXPECT_NO_THROW(wrapper::verify(p));
}

TEST(WrapperLifetimes, SymbolicSizesAreReusedWhenTheyAreKnownToBeEqual) {
  WrapperProgram p;
  const sym::Expr s = p.env->add_size("s0", 4);
  const BufferId x = p.input("x", {s, 6}), a = p.temporary("a", {s, 6}), b = p.temporary("b", {2, s * 3}),
                 out = p.temporary("out", {s});
  p.call({x}, a, true);
  p.call({a}, b, true);
  p.call({b}, out);
  p.returns(out);
  wrapper::plan_lifetimes(p);
  EXPECT_EQ(p.count<Reuse>(), 1u) << wrapper::to_string(p);
}

/// Calls that each make a value of some size from one or two earlier ones, which they may write over; the last one
/// reads what nothing else does.
WrapperProgram random_calls(std::uint32_t seed, bool in_place) {
  std::mt19937 random(seed);
  const std::size_t count = 12 + random() % 30;
  std::vector<std::int64_t> sizes(count);
  for (std::int64_t& s : sizes) s = 16 * (1 + random() % 12);
  std::vector<std::vector<std::size_t>> reads(count);
  std::vector<bool> read(count, false);
  for (std::size_t k = 1; k < count; ++k)
    for (std::size_t j = 1 + random() % 2; j > 0; --j) {
      const std::size_t from = random() % k;
      if (std::ranges::find(reads[k], from) == reads[k].end()) reads[k].push_back(from);
      read[from] = true;
    }
  WrapperProgram p;
  std::vector<BufferId> values, left;
  const BufferId x = p.input("x", {16});
  for (std::size_t k = 0; k < count; ++k) values.push_back(p.temporary("t" + std::to_string(k), {sizes[k]}));
  const BufferId out = p.temporary("out", {1});
  for (std::size_t k = 0; k < count; ++k) {
    std::vector<BufferId> from;
    for (std::size_t r : reads[k]) from.push_back(values[r]);
    if (k == 0) from.push_back(x);
    p.call(from, values[k], in_place);
    if (!read[k]) left.push_back(values[k]);
  }
  p.call(left, out);
  p.returns(out);
  return p;
}

TEST(WrapperLifetimes, MemoryIsReusedInPlaceOnlyWhereTheArenaDoesNotGrow) {
  // Found among fifty thousand: one block of memory for two values leaves no packing of 8384 bytes, the least.
  WrapperProgram p = random_calls(47322, true), apart = random_calls(47322, false);
  wrapper::plan_lifetimes(p);
  wrapper::plan_lifetimes(apart);
  EXPECT_EQ(wrapper::make_plan(apart).static_arena_bytes, 8384u);
  EXPECT_EQ(wrapper::make_plan(p).static_arena_bytes, 8384u);
  EXPECT_EQ(p.count<Reuse>(), 0u);
  WrapperProgram other = random_calls(1, true);
  wrapper::plan_lifetimes(other);
  EXPECT_GT(other.count<Reuse>(), 0u) << "of those that lose nothing";
}

TEST(WrapperPlan, TemporariesThatLiveAtOneStepDoNotOverlap) {
  WrapperProgram p;
  std::vector<BufferId> made{p.input("x", {100})};
  for (int k = 0; k < 40; ++k) {
    made.push_back(p.temporary("t" + std::to_string(k), {1 + (k * 37) % 23 * 50}));
    std::vector<BufferId> reads{made[made.size() - 2]};
    if (k % 5 == 4) reads.push_back(made[made.size() - 5]);
    p.call(reads, made.back());
  }
  p.returns(made.back());
  wrapper::plan_lifetimes(p);
  const runtime::Plan plan = wrapper::make_plan(p);
  std::uint64_t peak = 0;
  auto bytes = [&](const runtime::Buffer& b) { return static_cast<std::int64_t>(plan.shape_program[b.bytes].a); };
  for (const runtime::Buffer& a : plan.buffers) {
    if (a.kind != runtime::BufferKind::Temporary) continue;
    ASSERT_GE(a.arena_offset, 0);
    peak = std::max(peak, static_cast<std::uint64_t>(a.arena_offset + bytes(a)));
    for (const runtime::Buffer& b : plan.buffers) {
      const bool together =
          &a != &b && b.kind == runtime::BufferKind::Temporary && a.first <= b.last && b.first <= a.last;
      EXPECT_TRUE(!together || a.arena_offset + bytes(a) <= b.arena_offset ||
                  b.arena_offset + bytes(b) <= a.arena_offset)
          << a.name << " and " << b.name;
    }
  }
  EXPECT_LE(peak, plan.static_arena_bytes);
}

TEST(WrapperPlan, AnOwnersLifetimeCoversThoseThatLiveInItsMemory) {
  Chain p({8}, {8}, true);
  wrapper::plan_lifetimes(p);
  const runtime::Plan plan = wrapper::make_plan(p);
  EXPECT_EQ(plan.buffers[p.b].shares, p.a);
  EXPECT_EQ(plan.buffers[p.a].first, 0u);
  EXPECT_EQ(plan.buffers[p.a].last, 2u);
  EXPECT_EQ(plan.static_arena_bytes % 64, 0u);
}

}  // namespace
}  // namespace coil
