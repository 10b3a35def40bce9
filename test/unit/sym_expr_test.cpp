// Canonical forms: what equals what, by construction alone.
#include <gtest/gtest.h>

#include <ctime>

#include "sym/print.h"
#include "sym/shape_env.h"

namespace coil::sym {
namespace {

struct SymExpr : testing::Test {
  Context context;
  Expr s0 = context.symbol("s0", SymbolKind::Size), s1 = context.symbol("s1", SymbolKind::Size);
  Expr i0 = context.symbol("i0", SymbolKind::Loop), i1 = context.symbol("i1", SymbolKind::Loop);
};

TEST_F(SymExpr, SumsCollectTerms) {
  EXPECT_EQ(s0 + s1, s1 + s0);
  EXPECT_EQ(s0 + s0, 2 * s0);
  EXPECT_EQ(s0 - s0, Expr(0));
  EXPECT_EQ((s0 + 1) * (s0 - 1), s0 * s0 - 1);
  EXPECT_EQ(to_string(1 + s0 * 2), "2*s0 + 1");
  EXPECT_EQ(to_string(i0 * s0 + i1 - 3), "i1 + i0*s0 - 3");
}

TEST_F(SymExpr, DivisionTakesOutMultiples) {
  EXPECT_EQ(floor_div(8 * i0 + i1, 8), i0 + floor_div(i1, 8));
  EXPECT_EQ(mod(8 * i0 + i1, 8), mod(i1, 8));
  EXPECT_EQ(floor_div(s0 * i0 + i1, s0), i0 + floor_div(i1, s0));
  EXPECT_EQ(mod(s0 * i0 + i1, s0), mod(i1, s0));
  EXPECT_EQ(floor_div(s0 * s1, s0), s1);
  EXPECT_EQ(floor_div(s0 * i0, s0 * s1), floor_div(i0, s1));
  EXPECT_EQ(floor_div(floor_div(i0, 4), 3), floor_div(i0, 12));
  EXPECT_EQ(floor_div(4 * i0 + 2, 8), floor_div(i0, 2));
  EXPECT_EQ(mod(4 * i0 + 2, 8), 4 * mod(i0, 2) + 2);
  EXPECT_EQ(mod(mod(i0, 8), 4), mod(i0, 4));
  EXPECT_EQ(floor_div(mod(i0, 32), 8), mod(floor_div(i0, 8), 4));
  EXPECT_EQ(floor_div(i0, -4), floor_div(-i0, 4));
  EXPECT_EQ(mod(i0, 1), Expr(0));
  EXPECT_EQ(ceil_div(s0, 4), floor_div(s0 + 3, 4));
  EXPECT_EQ(floor_div((s0 + 1) * i0 + i1, s0 + 1), i0 + floor_div(i1, s0 + 1));
  EXPECT_EQ(floor_div(s0 - 1, 4), floor_div(s0 + 3, 4) - 1);
}

TEST_F(SymExpr, RelationsAreOneSided) {
  EXPECT_EQ(lt(s0, s1), gt(s1, s0));
  EXPECT_EQ(to_string(lt(s0, 101)), "s0 <= 100");
  EXPECT_EQ(lt(2 * s0, 7), le(s0, 3));
  EXPECT_EQ(eq(2 * s0, 7), Expr(0));
  EXPECT_EQ(logical_not(lt(s0, s1)), le(s1, s0));
  EXPECT_EQ(logical_and(lt(s0, s1), le(s1, s0)), Expr(0));
  EXPECT_EQ(to_string(eq(s0, 4)), "Eq(s0, 4)");
}

TEST_F(SymExpr, RelationsToTheLimitsOf64Bits) {
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min(),
                         kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(le(3 * s0 - 3, kMax), Expr(1));
  EXPECT_EQ(lt(s0 - 3, kMax), Expr(1));
  EXPECT_EQ(le(kMax, s0 - 3), Expr(0));
  EXPECT_EQ(le(kMin, s0 + 3), Expr(1));
  EXPECT_EQ(lt(s0 + 3, kMin), Expr(0));
  EXPECT_EQ(lt(s0, kMin), Expr(0));
  EXPECT_EQ(to_string(le(s0, kMax)), "s0 <= 9223372036854775807");
}

/// Seconds of processor time to build, simplify, bound, print and parse an expression of so many terms, each a product
/// with a quotient in it.
double seconds_for(int terms) {
  ShapeEnv env;
  const Expr i = env.loop_var("i");
  const std::clock_t begin = std::clock();
  Exprs all;
  for (int k = 0; k < terms; ++k) {
    const Expr s = env.add_size(fmt::format("s{}", k), std::nullopt, {1, 1000});
    all.push_back(s * floor_div(4 * i + s, 4) + mod(s + k, 3));
  }
  const LoopVar loops[] = {{i, 64}};
  const Expr e = sum(all), simplified = env.simplify(e, loops);
  EXPECT_EQ(env.bounds(e, loops).low >= 0, true);
  const std::string text = to_string(simplified);
  EXPECT_EQ(parse(text, [&](std::string_view name) { return *env.context().find(name); }), simplified);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST(SymExprCost, GrowsWithTheNumberOfTerms) {
  seconds_for(100);
  const double small = seconds_for(1000), large = seconds_for(10'000);
  RecordProperty("seconds_for_1000", std::to_string(small));
  RecordProperty("seconds_for_10000", std::to_string(large));
  EXPECT_LT(large, 25 * small + 0.05)
      << small << " s for 1,000 terms";  // ten times the terms; caches and sorting take their share
}

}  // namespace
}  // namespace coil::sym
