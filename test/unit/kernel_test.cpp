#include "codegen/cpp/kernel.h"
#include "ir/tensor_box.h"
#include "scheduler/schedule.h"
#include "scheduler/space.h"
#include "scheduler/text.h"

namespace coil {
namespace {

using ir::Scalar;
using ir::ScalarOp;
using ir::TensorBox;
using sym::Exprs;

struct Fixture : testing::Test {
  std::shared_ptr<sym::ShapeEnv> env = std::make_shared<sym::ShapeEnv>();
  ir::Graph graph{env};

  TensorBox input(const char* name, const Exprs& sizes) {
    return ir::whole(
        graph,
        graph.add_buffer(name, ir::BufferKind::Input, {DType::F32, {}, sizes, sym::contiguous_strides(sizes), true})
            .id);
  }
  TensorBox pointwise(ScalarOp op, const TensorBox& a, const TensorBox& b) {
    const Exprs at = graph.ivars(a.sizes.size());
    std::vector<sym::LoopVar> loops;
    for (std::size_t d = 0; d < at.size(); ++d) loops.push_back({at[d], a.sizes[d]});
    TensorBox out =
        ir::make_pointwise(graph, DType::F32, {}, a.sizes, graph.pool().op(op, a.load(at, loops), b.load(at, loops)));
    out.realize();
    return out;
  }
  TensorBox row_sum(const TensorBox& a) {
    const sym::Expr r = graph.rvar(0);
    Exprs at = graph.ivars(a.sizes.size() - 1);
    std::vector<sym::LoopVar> loops;
    for (std::size_t d = 0; d < at.size(); ++d) loops.push_back({at[d], a.sizes[d]});
    loops.push_back({r, a.sizes.back()});
    at.push_back(r);
    return ir::make_reduction(graph, DType::F32, {}, Exprs(a.sizes.begin(), a.sizes.end() - 1), {a.sizes.back()},
                              ir::ReductionKind::Sum, a.load(at, loops));
  }
  void returns(const TensorBox& t) {
    t.realize();
    graph.outputs.push_back({"output", *t.strided()});
  }
};

struct NoFusion : scheduler::Choices {
  std::size_t max_members() const override { return 1; }
};

TEST_F(Fixture, RefinementCutsBothNestsAtEveryBoundary) {
  auto r = scheduler::refine(Exprs{2, 128, 768}, Exprs{256, 768}, *env);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->sizes, (Exprs{2, 128, 768}));
  EXPECT_EQ(r->b[0], (std::vector<std::size_t>{0, 1}));
  EXPECT_FALSE(scheduler::refine(Exprs{6, 4}, Exprs{4, 6}, *env));
  const sym::Expr s0 = env->add_size("s0", 3);
  auto symbolic = scheduler::refine(Exprs{s0, 12}, Exprs{s0 * 4, 3}, *env);
  ASSERT_TRUE(symbolic);
  EXPECT_EQ(symbolic->sizes, (Exprs{s0, 4, 3}));
}

TEST_F(Fixture, ReductionTakesItsProducerAndItsEpilogueIntoOneKernel) {
  const TensorBox sum = pointwise(ScalarOp::Add, input("x", {64, 768}), input("y", {64, 768}));
  const TensorBox rows = row_sum(sum);
  const Exprs at{graph.ivar(0), graph.ivar(1)}, row{graph.ivar(0)};
  const std::vector<sym::LoopVar> loops{{at[0], 64}, {at[1], 768}};
  returns(ir::make_pointwise(graph, DType::F32, {}, {64, 768},
                             graph.pool().op(ScalarOp::Div, sum.load(at, loops), rows.load(row, loops))));
  const auto schedule = scheduler::schedule(graph);
  ASSERT_EQ(schedule.items.size(), 1u) << scheduler::to_string(graph, schedule);
  const auto& group = std::get<scheduler::Group>(schedule.items[0]);
  EXPECT_EQ(group.internal.size(), 2u) << "the sum and its rows need no memory";
  const auto kernel = codegen::print_kernel(graph, group, {.lanes = 16});
  EXPECT_EQ(kernel.buffers.size(), 3u) << kernel.text;
  EXPECT_EQ(kernel.extent, sym::Expr(64));
}

TEST_F(Fixture, DifferentSpacesAreRefusedWithAReason) {
  const TensorBox x = input("x", {64, 32});
  const TensorBox rows = row_sum(x);
  const TensorBox other = pointwise(ScalarOp::Mul, rows, rows);
  const Exprs at{graph.ivar(0)};
  const std::vector<sym::LoopVar> loops{{at[0], 7}};
  returns(ir::make_pointwise(graph, DType::F32, {}, {7}, other.load(at, loops)));
  const auto schedule = scheduler::schedule(graph);
  ASSERT_FALSE(schedule.refusals.empty());
  EXPECT_NE(schedule.refusals[0].reason, "");
}

TEST_F(Fixture, ThePolicyIsAskedAboutEachPair) {
  struct Asked : scheduler::Choices {
    std::optional<std::string> refuses_loops(const scheduler::Joint& joint) const override {
      joints.push_back(joint);
      return joint.mixes ? std::optional<std::string>("rows are for weekdays") : std::nullopt;
    }
    std::int64_t gain(const scheduler::Joint& joint) const override { return joint.saved_bytes; }
    mutable std::vector<scheduler::Joint> joints;
  };
  const Asked policy;
  const TensorBox sum = pointwise(ScalarOp::Add, input("x", {64, 768}), input("y", {64, 768}));
  returns(pointwise(ScalarOp::Mul, sum, sum));
  returns(row_sum(sum));
  const auto schedule = scheduler::schedule(graph, policy);
  ASSERT_EQ(schedule.items.size(), 2u) << scheduler::to_string(graph, schedule);
  ASSERT_FALSE(schedule.refusals.empty());
  EXPECT_EQ(schedule.refusals.back().reason, "rows are for weekdays");
  ASSERT_FALSE(policy.joints.empty());
  EXPECT_FALSE(policy.joints.front().mixes);
  EXPECT_EQ(policy.joints.back().rows, 64);
  EXPECT_EQ(policy.joints.back().row, 768);
}

TEST_F(Fixture, OperationsThatShareAnInputAreLaidOverEachOtherByTheOrderOfTheirReads) {
  const TensorBox x = input("x", {4, 16, 9});
  returns(pointwise(ScalarOp::Add, x, x));
  const Exprs at{graph.ivar(1), graph.ivar(0), graph.rvar(0)};
  const std::vector<sym::LoopVar> loops{{at[0], 4}, {at[1], 16}, {at[2], 9}};
  returns(ir::make_reduction(graph, DType::F32, {}, {16, 4}, {9}, ir::ReductionKind::Sum, x.load(at, loops)));
  const auto schedule = scheduler::schedule(graph);
  ASSERT_EQ(schedule.items.size(), 1u) << scheduler::to_string(graph, schedule);
  const auto& group = std::get<scheduler::Group>(schedule.items[0]);
  EXPECT_EQ(group.outer, (Exprs{16, 4})) << "and not 4, 4, 4, where both spaces have equal numbers of points";
  EXPECT_EQ(group.members[0].ivars, (Exprs{graph.ivar(1), graph.ivar(0), graph.rvar(0)}));
}

TEST_F(Fixture, OperationsThatReadAnInputInDifferentOrdersShareNoKernel) {
  const TensorBox x = input("x", {8, 8});
  returns(row_sum(x));
  const Exprs at{graph.rvar(0), graph.ivar(0)};
  const std::vector<sym::LoopVar> loops{{at[0], 8}, {at[1], 8}};
  returns(ir::make_reduction(graph, DType::F32, {}, {8}, {8}, ir::ReductionKind::Sum, x.load(at, loops)));
  const auto schedule = scheduler::schedule(graph);
  EXPECT_EQ(schedule.items.size(), 2u) << scheduler::to_string(graph, schedule);
}

TEST_F(Fixture, TermsThatBodiesShareCountOnceTowardsAKernelsSize) {
  const TensorBox x = input("x", {1000});
  const Exprs at{graph.ivar(0)};
  const std::vector<sym::LoopVar> loops{{at[0], 1000}};
  auto& pool = graph.pool();
  auto chain = [&](double step) {
    Scalar value = x.load(at, loops);
    for (int k = 1; k <= 400; ++k) value = pool.op(ScalarOp::Mul, value, pool.constant(DType::F32, 1 + k * step));
    return value;
  };
  const auto result = [&](Scalar body) { returns(ir::make_pointwise(graph, DType::F32, {}, {1000}, body)); };
  result(pool.op(ScalarOp::Neg, chain(0.5)));
  result(pool.op(ScalarOp::Sin, chain(0.5)));
  EXPECT_EQ(scheduler::schedule(graph).items.size(), 1u) << "803 nodes";
  result(chain(0.25));
  EXPECT_EQ(scheduler::schedule(graph).items.size(), 2u) << "as many again, of their own";
}

TEST_F(Fixture, ConditionsOfWholeVectorsAreBoolsAndSmallBodiesAreWrittenWithoutThem) {
  const TensorBox x = input("x", {64, 256});
  const ir::BufferId b = x.strided()->buffer;
  const Exprs at{graph.ivar(0), graph.ivar(1)};
  auto& pool = graph.pool();
  const Scalar row = pool.condition(sym::le(1, at[0])), lane = pool.condition(sym::le(1, at[1]));
  /// Of a load under the mask, with `steps` products behind it.
  const auto text = [&](Scalar mask, int steps) {
    Scalar value = pool.op(ScalarOp::Where, mask,
                           pool.linear_load(b, DType::F32, 256 * at[0] + at[1] - (mask == row ? 256 : 1), {}, mask),
                           pool.constant(DType::F32, 2));
    for (int k = 1; k <= steps; ++k) value = pool.op(ScalarOp::Mul, value, pool.constant(DType::F32, 1 + k * 0.5));
    returns(ir::make_pointwise(graph, DType::F32, {}, {64, 256}, value));
    const auto schedule = scheduler::schedule(graph, NoFusion());
    return codegen::print_kernel(graph, std::get<scheduler::Group>(schedule.items.back()), {.lanes = 16}).text;
  };
  const std::string small = text(row, 1), large = text(row, 100), lanes = text(lane, 100);
  const std::size_t otherwise = small.find("} else {");
  ASSERT_NE(otherwise, std::string::npos) << small;
  EXPECT_EQ(small.substr(0, otherwise).find(" ? "), std::string::npos) << "what was tested is tested again: " << small;
  EXPECT_EQ(small.find("c_splat_b8v"), std::string::npos) << small;
  EXPECT_EQ(large.find("} else {"), std::string::npos) << large;
  EXPECT_NE(lanes.find("} else {\n"), std::string::npos) << lanes;
}

TEST_F(Fixture, EqualKernelsAreEqualTexts) {
  const TensorBox a = input("a", {1000}), b = input("b", {1000});
  returns(pointwise(ScalarOp::Add, a, a));
  returns(pointwise(ScalarOp::Add, b, b));
  const auto schedule = scheduler::schedule(graph);
  std::set<std::string> symbols;
  for (const auto& item : schedule.items)
    symbols.insert(codegen::print_kernel(graph, std::get<scheduler::Group>(item), {.lanes = 8}).symbol);
  EXPECT_EQ(symbols.size(), 1u);
}

}  // namespace
}  // namespace coil
