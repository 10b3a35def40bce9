// What moves along a run of neighbours, against the values of random indices.
#include "codegen/lanes.h"

#include <gtest/gtest.h>

#include <random>

#include "sym/assumed_multiples.h"
#include "sym/print.h"

namespace coil::codegen {
namespace {

struct Indices {
  sym::ShapeEnv env;
  Expr run = env.loop_var("i0"), row = env.loop_var("i1");
  std::mt19937 random{0};

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  }

  Expr number(int depth) {
    if (depth == 0) return draw(0, 3) == 0 ? Expr(draw(-9, 9)) : draw(0, 3) == 0 ? row : run;
    const Expr a = number(depth - 1), b = draw(0, 1) ? number(depth - 1) : Expr(draw(-9, 9));
    switch (draw(0, 6)) {
      case 0:
      case 1: return a + b;
      case 2: return a * Expr(draw(-4, 8));
      case 3: return sym::floor_div(a, Expr(draw(1, 9)));
      case 4: return sym::mod(a, Expr(draw(1, 9)));
      case 5: return draw(0, 1) ? sym::min(a, b) : sym::max(a, b);
      default: return sym::where(condition(depth - 1), a, b);
    }
  }

  Expr condition(int depth) {
    if (depth > 0 && draw(0, 3) == 0) {
      const Expr a = condition(depth - 1), b = condition(depth - 1);
      return draw(0, 2) == 0 ? sym::logical_not(a) : draw(0, 1) ? sym::logical_and(a, b) : sym::logical_or(a, b);
    }
    const Expr a = number(depth), b = draw(0, 1) ? number(depth) : Expr(draw(-2, 12));
    switch (draw(0, 3)) {
      case 0: return sym::lt(a, b);
      case 1: return sym::le(a, b);
      case 2: return sym::eq(a, b);
      default: return sym::ne(a, b);
    }
  }

  std::int64_t value(Expr e, std::int64_t at, std::int64_t in_row) {
    return sym::evaluate(e, [&](Expr s) { return s == run ? at : in_row; });
  }
};

TEST(Lanes, StridesAreThoseOfTheValues) {
  Indices of;
  std::size_t known = 0, aligned = 0;
  constexpr int kTries = 8000;
  for (int k = 0; k < kTries; ++k) {
    const Lanes lanes{of.run, 1 << of.draw(1, 3)};
    const Expr e = k % 2 ? of.condition(2) : of.number(2);
    const auto stride = lane_stride(of.env, e, lanes);
    const bool starts_whole = run_aligned(of.env, e, lanes);
    known += stride.has_value(), aligned += starts_whole;
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t first = 0; first < 32; first += lanes.width) {
        const std::int64_t start = of.value(e, first, row);
        ASSERT_TRUE(!starts_whole || start % lanes.width == 0)
            << sym::to_string(e) << " at " << first << ", width " << lanes.width;
        for (std::int64_t j = 0; stride && j < lanes.width; ++j)
          ASSERT_EQ(of.value(e, first + j, row), start + j * *stride)
              << sym::to_string(e) << " at " << first << " + " << j << ", width " << lanes.width;
      }
  }
  EXPECT_GT(known, kTries / 4u);
  EXPECT_GT(aligned, kTries / 20u);
}

TEST(Lanes, RowsBeginWholeWhereTheStepBetweenThemIsTakenToBe) {
  sym::ShapeEnv env;
  const Expr s0 = env.add_size("s0", 8), s1 = env.add_size("s1", 24), run = env.loop_var("i1"),
             row = env.loop_var("i0");
  const Expr index = row * (s0 + s1) + run + 16;
  const Lanes lanes{run, 8};
  EXPECT_FALSE(run_aligned(env, index, lanes));
  {
    sym::AssumedMultiples known(env);
    known.assume(s0 + s1, 8);
    EXPECT_TRUE(run_aligned(env, index, lanes));
    EXPECT_FALSE(run_aligned(env, index + 4, lanes));
    EXPECT_FALSE(run_aligned(env, index + row * s0, lanes));
  }
  EXPECT_FALSE(run_aligned(env, index, lanes)) << "it is forgotten";
}

}  // namespace
}  // namespace coil::codegen
