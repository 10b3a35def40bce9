// Which form kernels of loop nests take, and a kernel's text in its parts.
#include "codegen/heuristics/kernel_plan.h"

#include <gtest/gtest.h>

#include "codegen/cuda/kernel.h"
#include "codegen/grid_nest.h"
#include "codegen/heuristics/alternatives.h"
#include "codegen/heuristics/points.h"
#include "codegen/heuristics/whole_vectors.h"
#include "ir/text.h"

namespace coil::codegen {
namespace {

const target::Target gpu = target::cuda(0, "sm_90");

/// The nest of the only group of loops given as text.
struct Nest {
  explicit Nest(const std::string& text) : parsed(ir::parse(text)) {
    ir::Graph& graph = *parsed.graph;
    const scheduler::Schedule schedule = scheduler::schedule(graph, scheduler::Choices());
    if (const auto* group = std::get_if<scheduler::Group>(&schedule.items.at(0)))
      loops = make_grid_nest(graph, *group);
    else
      loops = make_scatter_nest(graph, graph.operations().at(0));
  }
  KernelPlan plan(LaunchRequest request = {}) { return plan_kernel(*parsed.graph, loops, gpu, request); }

  ir::Parsed parsed;
  LoopNest loops;
};

std::string points_of(const std::string& size) {
  return "loops():\nbuf0: f32[64, " + size + "]@cuda:0 input x\nbuf1: f32[64, " + size +
         "]@cuda:0 fixed output\nop0: buf1 = pointwise[i0 < 64, i1 < " + size +
         "] neg(load(buf0, [i0, i1]))\nreturn output=buf1 as f32[64, " + size + "]\n";
}

/// The sum over the first or the second dimension of f32[rows, columns].
std::string sum_of(int rows, int columns, bool down) {
  const int kept = down ? columns : rows, gone = down ? rows : columns;
  return fmt::format(
      "loops():\nbuf0: f32[{}, {}]@cuda:0 input x\nbuf1: f32[{}]@cuda:0 fixed output\nop0: buf1 = reduce.sum[i0 < {}; "
      "r0 < {}] load(buf0, [{}])\nreturn output=buf1 as f32[{}]\n",
      rows, columns, kept, kept, gone, down ? "r0, i0" : "i0, r0", kept);
}

TEST(KernelPlans, PointsAreTakenInVectors) {
  Nest nest(points_of("65536"));
  const PointFacts facts = point_facts(*nest.parsed.graph, nest.loops);
  EXPECT_EQ(facts.points, 64 * 65536);
  EXPECT_EQ(facts.vector, 4) << "16 bytes";
  const KernelPlan plan = nest.plan();
  ASSERT_TRUE(std::holds_alternative<PointPlan>(plan));
  EXPECT_EQ(choice_of(plan).config.vector, 4);
}

TEST(KernelPlans, SumsAlongRowsAndDownColumnsDiffer) {
  Nest rows(sum_of(512, 4096, false)), columns(sum_of(4096, 512, true));
  EXPECT_TRUE(std::holds_alternative<RowPlan>(rows.plan()));
  EXPECT_TRUE(std::holds_alternative<ColumnPlan>(columns.plan()));
}

TEST(KernelPlans, ARequestTakesAnotherCandidate) {
  Nest nest(sum_of(512, 4096, false));
  const KernelPlan usual = nest.plan(), other = nest.plan({.candidate = 1});
  EXPECT_EQ(choice_of(usual).candidates, choice_of(other).candidates);
  EXPECT_EQ(choice_of(other).config.team, choice_of(usual).candidates.at(1).team);
}

/// The sum along rows of f32[rows, columns] with free sizes.
std::string free_sum(const std::string& symbols, const std::string& rows, const std::string& columns) {
  return fmt::format(
      "loops({0}):\nbuf0: f32[{1}, {2}]@cuda:0 input x\nbuf1: f32[{1}]@cuda:0 fixed output\nop0: buf1 = "
      "reduce.sum[i0 < {1}; r0 < {2}] load(buf0, [i0, r0])\nreturn output=buf1 as f32[{1}]\n",
      symbols, rows, columns);
}

TEST(KernelPlans, FreeRowsHaveKernelsForSomeLengths) {
  Nest nest(free_sum("s0: [2, inf] = 1024", "512", "s0"));
  sym::ShapeEnv& env = nest.parsed.graph->env();
  const sym::Expr s0 = env.symbols().at(0);
  const auto sized = sized_kernels(*nest.parsed.graph, nest.loops, gpu, {});
  ASSERT_FALSE(sized.empty());
  EXPECT_LE(sized.size(), 4u);
  EXPECT_EQ(env.hint(s0), 1024) << "the program's own hint is back";
  bool taken = false;
  for (std::int64_t n = 2; n < (std::int64_t{1} << 30); n += n / 3 + 1) {
    int holding = 0;
    for (const SizedKernel& k : sized) {
      if (sym::substitute(k.when, std::vector{s0}, std::vector<sym::Expr>{n}).is_constant(0)) continue;
      ++holding;
      EXPECT_LE(n, k.request.longest_row.value_or(n));
    }
    EXPECT_LE(holding, 1) << n;
    taken = taken || holding == 1;
  }
  EXPECT_TRUE(taken);
}

TEST(KernelPlans, AKernelForShortRowsHasNoLoop) {
  Nest nest(free_sum("s0: [2, 14] = 8", "65536", "s0"));
  const auto sized = sized_kernels(*nest.parsed.graph, nest.loops, gpu, {});
  ASSERT_EQ(sized.size(), 1u);
  EXPECT_TRUE(sized[0].when.is_constant(1)) << "it is for all sizes that there are";
  EXPECT_EQ(sized[0].request.longest_row, 14);
  const AssumedSize assumed(nest.parsed.graph->env(), sized[0].symbol, sized[0].value);
  EXPECT_FALSE(choice_of(nest.plan(sized[0].request)).config.looped);
  EXPECT_TRUE(choice_of(nest.plan()).config.looped);
}

TEST(KernelPlans, FreeRowsMoveInVectorsThatBeginAnywhere) {
  Nest nest(free_sum("s0: [1, inf] = 512, s1: [1, inf] = 4095", "s0", "s1"));
  const LaunchConfig config = choice_of(nest.plan()).config;
  EXPECT_TRUE(config.ragged && config.looped && !config.partial_vectors);
  EXPECT_EQ(config.vector, 4);
  EXPECT_FALSE(whole_vectors(*nest.parsed.graph, nest.loops, gpu, {})) << "all of it moves in vectors already";
  Nest fixed(sum_of(512, 4095, false));
  EXPECT_FALSE(choice_of(fixed.plan()).config.ragged);
}

/// A row added to each row of f32[rows, columns].
std::string added_row(const std::string& symbols, const std::string& rows, const std::string& columns) {
  return fmt::format(
      "loops({0}):\nbuf0: f32[{1}, {2}]@cuda:0 input x\nbuf1: f32[{2}]@cuda:0 input y\nbuf2: f32[{1}, {2}]@cuda:0 "
      "fixed output\nop0: buf2 = pointwise[i0 < {1}, i1 < {2}] add(load(buf0, [i0, i1]), load(buf1, [i1]))\nreturn "
      "output=buf2 as f32[{1}, {2}]\n",
      symbols, rows, columns);
}

TEST(KernelPlans, WhatLiesOtherwiseMovesInVectorsWhereSizesAreWhole) {
  Nest nest(added_row("s0: [1, inf] = 4096, s1: [1, inf] = 4095", "s0", "s1"));
  EXPECT_TRUE(choice_of(nest.plan()).config.flat);
  sym::ShapeEnv& env = nest.parsed.graph->env();
  const auto whole = whole_vectors(*nest.parsed.graph, nest.loops, gpu, {});
  ASSERT_TRUE(whole);
  const sym::Expr s1 = env.symbols().at(1);
  EXPECT_EQ(whole->when(env), sym::eq(sym::mod(s1, 4), 0));
  sym::AssumedMultiples known(env);
  whole->assume(known);
  EXPECT_FALSE(choice_of(nest.plan()).config.flat);
  EXPECT_EQ(choice_of(nest.plan()).config.vector, 4);
}

TEST(KernelPlans, KnownMultiplesNeedNoCondition) {
  Nest nest(added_row("s0: [1, inf] = 4096, s1: [1, inf] = 512", "s0", "8*s1"));
  EXPECT_EQ(choice_of(nest.plan()).config.vector, 4);
  EXPECT_FALSE(whole_vectors(*nest.parsed.graph, nest.loops, gpu, {}));
}

TEST(KernelPlans, FixedSizesHaveOneKernel) {
  Nest nest(sum_of(512, 4096, false));
  EXPECT_TRUE(sized_kernels(*nest.parsed.graph, nest.loops, gpu, {}).empty());
}

TEST(KernelPlans, FewRowsMayHaveAKernelOfTheirOwn) {
  Nest nest(free_sum("s0: [1, inf] = 65536", "s0", "4096"));
  const auto sized = sized_kernels(*nest.parsed.graph, nest.loops, gpu, {});
  ASSERT_EQ(sized.size(), 1u);
  EXPECT_FALSE(sized[0].request.longest_row) << "rows have one length";
}

TEST(KernelPlans, KernelsNameTheirCandidates) {
  Nest nest(sum_of(512, 4096, false));
  const Kernel kernel = print_cuda_nest(*nest.parsed.graph, nest.loops, gpu);
  EXPECT_EQ(kernel.candidates, choice_of(nest.plan()).candidates);
  EXPECT_EQ(kernel.launch->block, kernel.candidates[0].threads);
}

// ---- What stays in registers

/// A softmax along the rows of f32[512, n].
std::string softmax_of(int n) {
  return fmt::format(R"(loops():
buf0: f32[512, {0}]@cuda:0 input x
buf1: f32[512, 1]@cuda:0 fixed
buf2: f32[512, {0}]@cuda:0 fixed
buf3: f32[512, 1]@cuda:0 fixed
buf4: f32[512, {0}]@cuda:0 fixed output
op0: buf1 = reduce.max[i0 < 512, i1 < 1; r0 < {0}] load(buf0, [i0, r0])
op1: buf2 = pointwise[i0 < 512, i1 < {0}] exp(sub(load(buf0, [i0, i1]), load(buf1, [i0, 0])))
op2: buf3 = reduce.sum[i0 < 512, i1 < 1; r0 < {0}] load(buf2, [i0, r0])
op3: buf4 = pointwise[i0 < 512, i1 < {0}] div(load(buf2, [i0, i1]), load(buf3, [i0, 0]))
return output=buf4 as f32[512, {0}]
)",
                     n);
}

TEST(KeptValues, ARowThatFitsRegistersIsReadOnce) {
  Nest nest(softmax_of(4096));
  const KernelPlan plan = nest.plan();
  const RowPlan& rows = std::get<RowPlan>(plan);
  EXPECT_FALSE(rows.choice.config.looped);
  ASSERT_FALSE(rows.kept.empty());
  EXPECT_EQ(rows.kept[0].level, 0);
  EXPECT_TRUE(rows.pairs.empty()) << "going through registers again costs nothing";
  EXPECT_EQ(rows.coarse.size(), 1u) << "the exponentials";
}

TEST(KeptValues, ALongRowIsReadAgainAndItsReductionsAreMadeTogether) {
  Nest nest(softmax_of(1 << 20));
  const KernelPlan plan = nest.plan();
  const RowPlan& rows = std::get<RowPlan>(plan);
  EXPECT_TRUE(rows.choice.config.looped);
  EXPECT_TRUE(rows.kept.empty());
  ASSERT_EQ(rows.pairs.size(), 1u);
  EXPECT_EQ(rows.pairs[0].kind, OnlinePair::Kind::Softmax);
}

// ---- The text in its parts

const KernelParts parts{.qualifiers = "__global__ void __launch_bounds__(64)",
                        .parameters = {{"const f32*", "p0", true}, {"f32*", "p1"}, {"i64", "n0"}, {"i64*", "status"}},
                        .body = "  p1[n0] = p0[n0];\n"};

TEST(KernelParts, MakeTheText) {
  EXPECT_EQ(parts.text("k"),
            "extern \"C\" __global__ void __launch_bounds__(64) k(const f32* __restrict__ p0, f32* p1, i64 n0, i64* "
            "status) {\n  p1[n0] = p0[n0];\n}\n");
  EXPECT_EQ(KernelParts({.qualifiers = "kernel void"}).text("k", ""), "kernel void k() {\n}\n");
}

TEST(KernelParts, OfABatchTakeOneTableOfPointers) {
  const KernelParts batch = batch_cuda_kernel(parts, 2, 3);
  EXPECT_EQ(to_string(batch.parameters), "(const __grid_constant__ c_table<6> table, i64 n0, i64* status)");
  EXPECT_EQ(batch.body,
            "  const f32* __restrict__ p0 = (const f32*)table.p[blockIdx.y * 2 + 0];\n"
            "  f32* p1 = (f32*)table.p[blockIdx.y * 2 + 1];\n"
            "  p1[n0] = p0[n0];\n");
  EXPECT_EQ(batch.qualifiers, parts.qualifiers);
}

TEST(KernelParts, OfEveryKernelAreItsText) {
  Nest nest(sum_of(512, 4096, false));
  const Kernel kernel = print_cuda_nest(*nest.parsed.graph, nest.loops, gpu);
  ASSERT_TRUE(kernel.parts.has_value());
  EXPECT_EQ(kernel.parts->text(kernel.symbol), kernel.text);
  EXPECT_EQ(kernel.parts->parameters.size(), kernel.buffers.size() + kernel.scalars.size() + 1);
}

}  // namespace
}  // namespace coil::codegen
