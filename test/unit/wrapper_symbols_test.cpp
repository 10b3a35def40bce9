#include <gtest/gtest.h>

#include "error_of.h"
#include "passes/wrapper/symbols.h"
#include "runtime/plan/shape_program.h"
#include "wrapper/plan.h"
#include "wrapper/text.h"
#include "wrapper_programs.h"

namespace coil {
namespace {

using sym::Expr;

/// The values that the plan's shape program gives these expressions, for inputs of these sizes. The last buffers' bytes
/// carry them.
std::vector<std::int64_t> solve(WrapperProgram& p, const std::vector<Sizes>& given, const std::vector<Expr>& wanted) {
  std::vector<wrapper::BufferId> carriers;
  for (Expr e : wanted) {
    carriers.push_back(p.temporary("t" + std::to_string(carriers.size()), {e}));
    p.buffers.back().dtype = DType::U8;
    p.buffers.back().bytes = e;
    p.call({}, carriers.back());
  }
  wrapper::define_symbols(p);
  const runtime::Plan plan = wrapper::make_plan(p);
  std::vector<Tensor> inputs;
  for (const Sizes& sizes : given) inputs.push_back(Tensor::empty(DType::F32, sizes));
  std::vector<std::int64_t> slots(plan.shape_program.size()), values;
  runtime::run_shape_program(plan.shape_program, inputs, slots);
  for (wrapper::BufferId b : carriers) values.push_back(slots[plan.buffers[b].bytes]);
  return values;
}

using Values = std::vector<std::int64_t>;

TEST(WrapperSymbols, APlainSizeIsItsSymbol) {
  WrapperProgram p;
  const Expr s = p.env->add_size("s0", 4);
  p.input("x", {s, 3});
  EXPECT_EQ(solve(p, {{7, 3}}, {s, s * 3 + 1}), (Values{7, 22}));
}

TEST(WrapperSymbols, AMultipleAndAnOffsetAreUndone) {
  WrapperProgram p;
  const Expr s = p.env->add_size("s0", 4);
  p.input("x", {2 * s + 1});
  EXPECT_EQ(solve(p, {{9}}, {s}), (Values{4}));
}

TEST(WrapperSymbols, AProductIsSolvedOnceTheOtherFactorIsKnown) {
  for (bool product_first : {true, false}) {
    WrapperProgram p;
    const Expr a = p.env->add_size("s0", 4), b = p.env->add_size("s1", 5);
    if (product_first) p.input("xy", {a * b});
    p.input("x", {b});
    if (!product_first) p.input("xy", {a * b});
    const std::vector<Sizes> given = product_first ? std::vector<Sizes>{{42}, {6}} : std::vector<Sizes>{{6}, {42}};
    EXPECT_EQ(solve(p, given, {a, b}), (Values{7, 6})) << "product first: " << product_first;
  }
}

TEST(WrapperSymbols, AChainIsSolvedInAnyOrder) {
  WrapperProgram p;
  const Expr a = p.env->add_size("s0", 4), b = p.env->add_size("s1", 5), c = p.env->add_size("s2", 6);
  p.input("x", {a + b + c});
  p.input("y", {a + b});
  p.input("z", {a});
  EXPECT_EQ(solve(p, {{12}, {7}, {3}}, {a, b, c}), (Values{3, 4, 5}));
}

TEST(WrapperSymbols, CompoundSizesAreSolvedTogether) {
  WrapperProgram p;
  const Expr a = p.env->add_size("s0", 9), b = p.env->add_size("s1", 5);
  p.input("x", {a + b});
  p.input("y", {a - b});
  EXPECT_EQ(solve(p, {{12}, {4}}, {a, b}), (Values{8, 4}));
}

TEST(WrapperSymbols, ThreeUnknownsWithFactors) {
  WrapperProgram p;
  const Expr a = p.env->add_size("s0", 4), b = p.env->add_size("s1", 5), c = p.env->add_size("s2", 6);
  p.input("x", {2 * a + 3 * b + c, b + 5 * c + 7});
  p.input("y", {a + b + c - 1});
  const std::int64_t s0 = 11, s1 = 3, s2 = 4;
  EXPECT_EQ(solve(p, {{2 * s0 + 3 * s1 + s2, s1 + 5 * s2 + 7}, {s0 + s1 + s2 - 1}}, {a, b, c}), (Values{s0, s1, s2}));
}

TEST(WrapperSymbols, AProductIsATermLikeAnother) {
  WrapperProgram p;
  const Expr a = p.env->add_size("s0", 4), b = p.env->add_size("s1", 5);
  p.input("x", {a * b + a});
  p.input("y", {a * b - 2 * a});
  EXPECT_EQ(solve(p, {{7 * 6 + 7}, {7 * 6 - 14}}, {a, b}), (Values{7, 6}));
}

TEST(WrapperSymbols, OneThatCannotBeFoundIsNamed) {
  WrapperProgram p;
  const Expr a = p.env->add_size("s0", 4), b = p.env->add_size("s1", 5);
  p.input("xy", {a * b});
  EXPECT_NE(error_of([&] { wrapper::define_symbols(p); }).find("the size s"), std::string::npos);
}

TEST(WrapperSymbols, RangesAndGuardsAreChecked) {
  WrapperProgram p;
  const Expr s = p.env->add_size("s0", 4, {2, 64});
  p.input("x", {s});
  p.env->add_guard(sym::eq(sym::mod(s, 2), 0), "the test wants it");
  wrapper::define_symbols(p);
  const std::string text = wrapper::to_string(p);
  EXPECT_NE(text.find("must be at least 2"), std::string::npos) << text;
  EXPECT_NE(text.find("must be at most 64"), std::string::npos) << text;
  EXPECT_NE(text.find("the test wants it"), std::string::npos) << text;
  EXPECT_EQ(p.count<wrapper::Assert>(), 3u) << text;
}

TEST(WrapperSymbols, TheShapeProgramComputesEachExpressionOnce) {
  WrapperProgram p;
  const Expr s = p.env->add_size("s0", 4);
  p.input("x", {s});
  const Expr e = sym::max(sym::floor_div(s, 3), 2) * sym::mod(s, 5);
  EXPECT_EQ(solve(p, {{13}}, {e, e, sym::where(sym::lt(s, 4), 1, e)}), (Values{12, 12, 12}));
  const runtime::Plan plan = wrapper::make_plan(p);
  for (std::size_t i = 0; i < plan.shape_program.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(plan.shape_program[i] == plan.shape_program[j]) << i << " repeats " << j;
}

}  // namespace
}  // namespace coil
