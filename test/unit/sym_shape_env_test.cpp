// What ranges, loops, divisibility and guards prove.
#include <gtest/gtest.h>

#include <ctime>

#include "support/error.h"
#include "sym/print.h"
#include "sym/shape_env.h"
#include "sym/tensor_meta.h"

namespace coil::sym {
namespace {

struct SymShapeEnv : testing::Test {
  ShapeEnv env;
  Expr s0 = env.add_size("s0", 6), s1 = env.add_size("s1", 12), s2 = env.add_size("s2", 24, {2, 100});
  Expr i0 = env.loop_var("i0"), i1 = env.loop_var("i1"), i2 = env.loop_var("i2");
  std::vector<LoopVar> loops{{i0, s1}, {i1, s0}, {i2, 8}};

  std::string simple(Expr e) { return to_string(env.simplify(e, loops)); }
  std::string error(auto&& f) {
    try {
      f();
      return "none";
    } catch (const Error& e) {
      return e.what();
    }
  }
};

TEST_F(SymShapeEnv, LinearIndexSplitsBySymbolicSize) {
  EXPECT_EQ(simple(floor_div(i0 * s0 + i1, s0)), "i0");
  EXPECT_EQ(simple(mod(i0 * s0 + i1, s0)), "i1");
  Expr flat = (i0 * s0 + i1) * s2 + i2;
  std::vector<LoopVar> three{{i0, s1}, {i1, s0}, {i2, s2}};
  EXPECT_EQ(env.simplify(floor_div(flat, s0 * s2), three), i0);
  EXPECT_EQ(env.simplify(mod(floor_div(flat, s2), s0), three), i1);
  EXPECT_EQ(env.simplify(mod(flat, s2), three), i2);
  EXPECT_EQ(env.simplify(floor_div(mod(flat, s0 * s2), s2), three), i1);
  EXPECT_EQ(env.simplify(floor_div(i0 * s0 * s2 + i1, s0 * s2), three), i0);
}

TEST_F(SymShapeEnv, ReversedIndex) {
  EXPECT_EQ(simple(floor_div(s0 - 1 - i1, s0)), "0");
  EXPECT_EQ(simple(mod(s0 - 1 - i1, s0)), "-i1 + s0 - 1");
}

TEST_F(SymShapeEnv, StridesOfSizesThatMayBeZero) {
  Exprs strides = contiguous_strides(Exprs{s1, s0});
  EXPECT_EQ(simple(i0 * strides[0] + i1 * strides[1]), "i1 + i0*s0");
  EXPECT_EQ(to_string(env.simplify(strides[0])), "Max(1, s0)");
  EXPECT_EQ(to_string(env.simplify(contiguous_strides(Exprs{s1, s2})[0])), "s2");
}

TEST_F(SymShapeEnv, ConstantSplits) {
  std::vector<LoopVar> l{{i0, 12}, {i1, 64}, {i2, 4}};
  EXPECT_EQ(env.simplify(floor_div(64 * i0 + i1, 768), l), Expr(0));
  EXPECT_EQ(env.simplify(floor_div(64 * i1 + i0, 768), l), floor_div(i1, 12));
  EXPECT_EQ(env.simplify(mod(64 * i1 + i0, 768), l), 64 * mod(i1, 12) + i0);
  EXPECT_EQ(env.simplify(floor_div(4 * i0 + i2, 8), l), floor_div(i0, 2));
  EXPECT_EQ(env.simplify(mod(4 * i0 + i2, 8), l), 4 * mod(i0, 2) + i2);
  EXPECT_EQ(env.simplify(mod(i1 + 128, 64), l), i1);
  EXPECT_EQ(env.simplify(floor_div(63 - i1, 64), l), Expr(0));
}

TEST_F(SymShapeEnv, DigitsRecombine) {
  EXPECT_EQ(simple(8 * floor_div(i0, 8) + mod(i0, 8)), "i0");
  EXPECT_EQ(simple(24 * floor_div(i0, 8) + 3 * mod(i0, 8) + 5), "3*i0 + 5");
  EXPECT_EQ(simple(s2 * floor_div(i0, s2) + mod(i0, s2)), "i0");
  EXPECT_EQ(simple(s2 * s0 * floor_div(i0, s2) + s0 * mod(i0, s2)), "i0*s0");
  EXPECT_EQ(simple(64 * floor_div(i0, 64) + 8 * mod(floor_div(i0, 8), 8) + mod(i0, 8)), "i0");
  EXPECT_EQ(simple(8 * mod(floor_div(i0, 8), 4) + mod(i0, 8)), "Mod(i0, 32)");
  EXPECT_EQ(simple(i0 - 8 * floor_div(i0, 8)), "Mod(i0, 8)");
}

TEST_F(SymShapeEnv, NestedDivisionBySizes) {
  EXPECT_EQ(simple(floor_div(floor_div(i0, s0), s2)), to_string(floor_div(i0, s0 * s2)));
  EXPECT_EQ(simple(ceil_div(s0, s2)), to_string(floor_div(s0 - 1, s2) + 1));
}

TEST_F(SymShapeEnv, ChoicesByBounds) {
  EXPECT_EQ(simple(min(i1, s0)), "i1");
  EXPECT_EQ(simple(max(i2, 8)), "8");
  EXPECT_EQ(simple(max(s2, 1)), "s2");
  EXPECT_EQ(simple(where(lt(i1, s0), i1, 0)), "i1");
  EXPECT_EQ(simple(where(lt(i1 + 1, s0), i1, 0)), "Where(i1 + 2 <= s0, i1, 0)");
}

TEST_F(SymShapeEnv, DivisorsAreNotZeroOnlyWhereTheyDivide) {
  Expr guarded = where(ge(s0, 1), floor_div(s1, s0), 0);
  EXPECT_EQ(simple(where(lt(s1, 3), guarded, max(s0, 1))),
            "Where(s1 <= 2, Where(1 <= s0, FloorDiv(s1, s0), 0), Max(1, s0))");
}

TEST_F(SymShapeEnv, OneRoundLoopsAreZero) {
  std::vector<LoopVar> l{{i0, 1}, {i1, s0}};
  EXPECT_EQ(env.simplify(i0 * s0 + i1, l), i1);
}

TEST_F(SymShapeEnv, StaticallyKnown) {
  EXPECT_TRUE(env.statically_known_true(ge(s0, 0)));
  EXPECT_FALSE(env.statically_known_true(ge(s0, 1)));
  EXPECT_TRUE(env.statically_known_true(ne(s2, 1)));
  EXPECT_TRUE(env.statically_known_equal(s0 * s1 + s0, s0 * (s1 + 1)));
  EXPECT_TRUE(env.statically_known_lt(s0, s0 + s2));
  EXPECT_TRUE(env.statically_known_le(s0, s0 * s2));
  EXPECT_TRUE(env.statically_known_multiple_of(8 * s0, 4));
  EXPECT_TRUE(env.statically_known_multiple_of(8 * s0, s0));
  EXPECT_FALSE(env.statically_known_multiple_of(s0, 2));
  EXPECT_TRUE(env.statically_known_true(lt(i1, s0), loops));
  EXPECT_TRUE(env.guards().empty());
}

TEST_F(SymShapeEnv, UnknownIsNeverAnError) {
  Expr u0 = env.fresh_unbacked();
  EXPECT_EQ(to_string(u0), "u0");
  EXPECT_FALSE(env.statically_known_true(eq(u0, 1)));
  EXPECT_FALSE(env.statically_known_multiple_of(s0, 0));
  EXPECT_FALSE(env.statically_known_true(eq(s0 * 9000000000000000000, s1)));
  EXPECT_NE(error([&] { env.decide(eq(u0, 1), "aten.squeeze.dim"); }).find("aten.squeeze.dim depends on the data"),
            std::string::npos);
  EXPECT_EQ(env.hint(u0 + s0), std::nullopt);
  EXPECT_EQ(env.hint_or(u0, 7), 7);
  EXPECT_EQ(env.hint(s0 * 2 + 1), 13);
}

TEST_F(SymShapeEnv, ProofsThatOverflowProveNothing) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  Expr a = env.add_size("a", kLarge, {kLarge, Range::kMax}), b = env.add_size("b", kLarge, {kLarge, Range::kMax});
  Expr e = max(a * b * s0 - a * b + b, floor_div(floor_div(s0, kLarge), kLarge));
  EXPECT_EQ(env.simplify(e), e);
  EXPECT_EQ(env.bounds(a * b - s0), (Range{Range::kMin, Range::kMax}));
  EXPECT_EQ(env.bounds(a * b), (Range{Range::kMax - 1, Range::kMax}));
  EXPECT_EQ(env.hint(a * b), std::nullopt);
}

TEST_F(SymShapeEnv, DecidingGuards) {
  EXPECT_TRUE(env.decide(ge(s2, 1), "known"));
  EXPECT_TRUE(env.guards().empty());
  EXPECT_TRUE(env.decide(ge(s0, 2), "aten.view.default"));
  EXPECT_TRUE(env.decide(ge(s0, 1), "weaker"));
  EXPECT_TRUE(env.decide(ge(s0, 2), "again"));
  EXPECT_FALSE(env.decide(eq(s0, 1), "weaker still"));
  ASSERT_EQ(env.guards().size(), 1u);
  EXPECT_EQ(to_string(env.guards()[0].condition), "2 <= s0");
  EXPECT_EQ(env.guards()[0].reason, "aten.view.default");
  EXPECT_TRUE(env.decide(lt(s0, s1), "order"));
  EXPECT_TRUE(env.decide(le(s0, s1 + 3), "implied by order"));
  EXPECT_TRUE(env.statically_known_true(le(s0 + 1, s1)));
  EXPECT_FALSE(env.statically_known_true(le(s0 + 2, s1)));
  EXPECT_EQ(env.guards().size(), 2u);
}

TEST_F(SymShapeEnv, EqualitiesReplace) {
  EXPECT_TRUE(env.decide(eq(2 * s0, s1), "broadcast"));
  EXPECT_EQ(env.simplify(s1 + 1), 2 * s0 + 1);
  EXPECT_TRUE(env.statically_known_equal(s1, s0 * 2));
  EXPECT_EQ(env.specialize(s0, "a constant size"), 6);
  EXPECT_EQ(env.simplify(s1), Expr(12));
  EXPECT_EQ(env.guards().size(), 2u);
  EXPECT_NE(error([&] { env.learn(eq(s1, 13)); }), "none");
}

TEST_F(SymShapeEnv, ReplacementsKeepRangesAndMultiples) {
  Expr s3 = env.add_size("s3", 16, {10, 20});
  env.learn_multiple_of(s3, 8);
  env.learn(eq(s3, s0 + 1));
  EXPECT_TRUE(env.statically_known_true(ge(s0, 9)));
  EXPECT_TRUE(env.statically_known_true(eq(mod(s0 + 1, 8), 0)));
}

TEST_F(SymShapeEnv, Multiples) {
  env.learn(eq(mod(s0, 8), 0));
  EXPECT_EQ(env.simplify(mod(s0, 4)), Expr(0));
  EXPECT_EQ(env.simplify(4 * floor_div(s0, 4)), s0);
  EXPECT_EQ(simple(mod(s0 * s1 + i2, 8)), "i2");
  EXPECT_TRUE(env.statically_known_true(ne(s0, 12)));
  EXPECT_TRUE(env.statically_known_multiple_of(s0 * 3, 24));
}

TEST_F(SymShapeEnv, RangesThatContradictAreErrors) {
  EXPECT_EQ(error([&] { env.constrain(s2, {101, Range::kMax}); }).substr(0, 11), "the size s2");
  env.constrain(s0, {4, 4});
  EXPECT_EQ(env.simplify(s0), Expr(4));
}

TEST_F(SymShapeEnv, Bounds) {
  EXPECT_EQ(env.bounds(8 * i2 + 3, loops), (Range{3, 59}));
  EXPECT_EQ(env.bounds(s0 - i1, loops), (Range{1, Range::kMax}));
  EXPECT_EQ(env.bounds(mod(i0, 8), loops), (Range{0, 7}));
  EXPECT_EQ(env.bounds(s2 * s2), (Range{4, 10000}));
  EXPECT_EQ(env.bounds(i0), (Range{0, Range::kMax}));
}

/// Processor time of this thread, so that a busy machine does not change it.
double seconds(auto&& f) {
  auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  double start = now();
  f();
  return now() - start;
}

TEST_F(SymShapeEnv, SumsOfManyTermsTakeLinearTime) {
  auto build = [&](int n) {
    Exprs terms;
    for (int i = 0; i < n; ++i)
      terms.push_back(env.context().symbol(fmt::format("i{}", (i * 7919) % n), SymbolKind::Loop) * (i % 5 + 1));
    Expr all;
    double built = seconds([&] { all = sum(terms); });
    double used = seconds([&] {
      EXPECT_EQ(all.operands().size(), static_cast<std::size_t>(n));
      EXPECT_EQ(free_symbols(all + 1).size(), static_cast<std::size_t>(n));
      EXPECT_EQ(env.simplify(mod(all * 16, 8)), Expr(0));
      std::string text = to_string(all);
      EXPECT_EQ(parse(text, [&](std::string_view name) { return *env.context().find(name); }), all);
    });
    return built + used;
  };
  build(1000);
  double small = build(5000), large = build(20000);
  EXPECT_LT(large, 10 * small + 0.05) << "four times the terms took " << large << " s after " << small << " s";
}

TEST_F(SymShapeEnv, SharedExpressionsAreWalkedOnce) {
  Expr e = s0;
  for (int i = 0; i < 60; ++i) e = max(floor_div(e + i1, 3), mod(e, s2) + e);
  EXPECT_LT(seconds([&] {
              EXPECT_EQ(free_symbols(e).size(), 3u);
              EXPECT_TRUE(contains(e, s2));
              const Expr from[] = {s0}, to[] = {s1};
              substitute(e, from, to);
              evaluate(e, [](Expr) { return 1; });
              env.simplify(e, loops);
              env.bounds(e, loops);
            }),
            5.0);
}

}  // namespace
}  // namespace coil::sym
