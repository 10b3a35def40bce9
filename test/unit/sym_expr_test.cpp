// Canonical forms: what equals what, by construction alone.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace coil::sym
