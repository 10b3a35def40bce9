// Scalars, buffers and tensor boxes of the loop-level IR.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/tensor_box.h"

namespace coil::ir {
namespace {

struct IrTest : testing::Test {
  std::shared_ptr<sym::ShapeEnv> env = std::make_shared<sym::ShapeEnv>();
  Graph graph{env};
  ScalarPool& pool = graph.pool();

  TensorBox input(Exprs sizes, DType dtype = DType::F32) {
    Exprs strides = sym::contiguous_strides(sizes);
    return whole(graph,
                 graph.add_buffer("x", BufferKind::Input, {dtype, {}, std::move(sizes), std::move(strides), true}).id);
  }
  std::vector<sym::LoopVar> loops(const Exprs& sizes) {
    std::vector<sym::LoopVar> result;
    for (std::size_t d = 0; d < sizes.size(); ++d) result.push_back({graph.ivar(d), sizes[d]});
    return result;
  }
  Scalar element(const TensorBox& box) { return box.load(graph.ivars(box.rank()), loops(box.sizes)); }
};

TEST_F(IrTest, EqualScalarsAreIdentical) {
  Scalar a = pool.load(0, DType::F32, {graph.ivar(0)});
  EXPECT_EQ(pool.op(ScalarOp::Add, a, pool.constant(DType::F32, 1)),
            pool.op(ScalarOp::Add, pool.load(0, DType::F32, {graph.ivar(0)}), pool.constant(DType::F32, 1)));
  EXPECT_NE(pool.constant(DType::F32, 0.0), pool.constant(DType::F32, -0.0));
  EXPECT_NE(pool.constant(DType::F32, 1), pool.constant(DType::F64, 1));
  EXPECT_EQ(pool.constant(DType::F64, NAN), pool.constant(DType::F64, -NAN));
}

TEST_F(IrTest, FoldsOnlyWhatIsExact) {
  Scalar x = pool.load(0, DType::F32, {graph.ivar(0)}), n = pool.load(1, DType::I64, {graph.ivar(0)});
  auto f = [&](double v) { return pool.constant(DType::F32, v); };
  auto i = [&](std::int64_t v) { return pool.constant_int(DType::I64, v); };
  EXPECT_EQ(pool.op(ScalarOp::Mul, x, f(1)), x);
  EXPECT_EQ(pool.op(ScalarOp::Sub, x, f(0)), x);
  EXPECT_NE(pool.op(ScalarOp::Add, x, f(0)), x) << "-0 + 0 is 0";
  EXPECT_NE(pool.op(ScalarOp::Mul, x, f(0)), f(0)) << "NaN * 0 is NaN";
  EXPECT_EQ(pool.op(ScalarOp::Add, n, i(0)), n);
  EXPECT_EQ(pool.op(ScalarOp::Mul, n, i(0)), i(0));
  EXPECT_EQ(pool.op(ScalarOp::Add, f(1), f(2)), f(3));
  EXPECT_EQ(pool.op(ScalarOp::Add, pool.constant_int(DType::U8, 200), pool.constant_int(DType::U8, 100)),
            pool.constant_int(DType::U8, 44));
  EXPECT_EQ(pool.op(ScalarOp::Where, pool.op(ScalarOp::Lt, i(1), i(2)), x, f(0)), x);
  const Scalar below = pool.op(ScalarOp::Lt, x, f(3)), y = pool.op(ScalarOp::Neg, x);
  const Scalar inner = pool.op(ScalarOp::Where, below, x, y);
  EXPECT_EQ(pool.op(ScalarOp::Where, below, inner, f(0)), pool.op(ScalarOp::Where, below, x, f(0)));
  EXPECT_EQ(pool.op(ScalarOp::Where, below, f(0), inner), pool.op(ScalarOp::Where, below, f(0), y));
}

TEST_F(IrTest, FoldsCastsOfConstants) {
  Scalar x = pool.load(0, DType::F32, {graph.ivar(0)}), one = pool.constant(DType::F32, 1.5);
  EXPECT_EQ(pool.op(ScalarOp::Where, pool.op(ScalarOp::Not, pool.cast(one, DType::Bool)), one, x), x);
  EXPECT_EQ(pool.cast(pool.constant(DType::F64, NAN), DType::Bool), pool.constant_int(DType::Bool, 1));
  EXPECT_EQ(pool.cast(pool.constant(DType::F64, -3.7), DType::I64), pool.constant_int(DType::I64, -3));
  // What no integer of the type is, the processor decides.
  EXPECT_EQ(pool.cast(pool.constant(DType::F64, 300), DType::U8)->op, ScalarOp::Cast);
  EXPECT_EQ(pool.cast(pool.constant(DType::F64, -1), DType::U64)->op, ScalarOp::Cast);
  EXPECT_EQ(pool.cast(pool.constant(DType::F64, INFINITY), DType::I32)->op, ScalarOp::Cast);
}

TEST_F(IrTest, ComparesIndicesThatAreKnown) {
  Scalar i = pool.index(graph.ivar(0));
  auto number = [&](std::int64_t v) { return pool.constant_int(DType::I64, v); };
  EXPECT_EQ(to_string(pool.op(ScalarOp::Ge, i, number(0))), "true");
  EXPECT_EQ(to_string(pool.op(ScalarOp::Lt, i, number(0))), "false");
  EXPECT_EQ(to_string(pool.op(ScalarOp::Ge, i, number(1))), "ge(index(i0), 1)");
}

TEST_F(IrTest, RoundingOfANarrowLoadIsNothing) {
  Scalar x = pool.load(0, DType::BF16, {graph.ivar(0)});
  EXPECT_EQ(pool.cast(x, DType::BF16), x);
  EXPECT_EQ(to_string(pool.cast(x, DType::F16)), "round(load(buf0, [i0]), f16)");
  Scalar sum = pool.op(ScalarOp::Add, x, x);
  EXPECT_EQ(pool.cast(pool.cast(sum, DType::BF16), DType::BF16), pool.cast(sum, DType::BF16));
}

TEST_F(IrTest, SubstituteKeepsWhatDoesNotChange) {
  Scalar x = pool.load(0, DType::F32, {graph.ivar(0)}), y = pool.load(1, DType::F32, {graph.ivar(1)});
  Scalar sum = pool.op(ScalarOp::Add, x, y);
  Expr from[] = {graph.ivar(0), graph.ivar(1)}, to[] = {graph.ivar(1), graph.ivar(0)},
       other[] = {graph.ivar(5), graph.ivar(6)};
  EXPECT_EQ(pool.substitute(sum, other, to, nullptr), sum);
  EXPECT_EQ(to_string(pool.substitute(sum, from, to, nullptr)), "add(load(buf0, [i1]), load(buf1, [i0]))");
}

TEST_F(IrTest, MaskReachesEveryLoad) {
  Scalar x = pool.load(0, DType::F32, {graph.ivar(0)}), mask = pool.condition(sym::lt(graph.ivar(0), 3));
  EXPECT_EQ(to_string(pool.masked(x, mask, pool.constant(DType::F32, 0))),
            "load(buf0, [i0], mask = condition(i0 <= 2))");
  EXPECT_EQ(to_string(pool.masked(pool.op(ScalarOp::Exp, x), mask, pool.constant(DType::F32, 1))),
            "where(condition(i0 <= 2), exp(load(buf0, [i0], mask = condition(i0 <= 2))), 1.0)");
}

TEST_F(IrTest, DeepChainsNeedNoStack) {
  Scalar s = pool.load(0, DType::F32, {graph.ivar(0)});
  for (int k = 0; k < 200000; ++k) s = pool.op(ScalarOp::Sin, s);
  EXPECT_EQ(topological({&s, 1}).size(), 200001u);
  EXPECT_EQ(loads(s).size(), 1u);
}

TEST_F(IrTest, ViewsComposeBySubstitution) {
  TensorBox x = input({4, 6});
  TensorBox t = x.view({6, 4}, {graph.ivar(1), graph.ivar(0)});
  TensorBox s = t.view({3, 4}, {graph.ivar(0) * 2 + 1, graph.ivar(1)});
  EXPECT_EQ(to_string(element(s)), "load(buf0, [i1, 2*i0 + 1])");
  auto view = s.strided();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->strides, (Exprs{2, 6}));
  EXPECT_EQ(view->offset, Expr(1));
  EXPECT_FALSE(x.view({24}, {sym::mod(graph.ivar(0), 4), sym::floor_div(graph.ivar(0), 4)}).strided());
}

TEST_F(IrTest, UnrealizedBodiesAreAbsorbed) {
  TensorBox x = input({4, 6});
  graph.provenance.origins = {"exp"};
  TensorBox e = make_pointwise(graph, DType::F32, {}, x.sizes, pool.op(ScalarOp::Exp, element(x)));
  graph.provenance.origins = {"neg"};
  TensorBox n = make_pointwise(graph, DType::F32, {}, x.sizes, pool.op(ScalarOp::Neg, element(e)));
  n.realize();
  ASSERT_EQ(graph.operations().size(), 1u);
  EXPECT_EQ(graph.operations()[0].origins, (std::set<std::string>{"exp", "neg"}));
  EXPECT_EQ(to_string(graph),
            "loops():\nbuf0: f32[4, 6] input x\nbuf1: f32[4, 6]\nop0: buf1 = pointwise[i0 < 4, i1 < 6] "
            "neg(exp(load(buf0, [i0, i1])))  # exp, neg\nreturn\n");
}

TEST_F(IrTest, CostlyValuesWithSeveralUsersAreRealized) {
  TensorBox x = input({4});
  TensorBox cheap = make_pointwise(graph, DType::F32, {}, x.sizes, pool.op(ScalarOp::Neg, element(x)));
  TensorBox costly = make_pointwise(graph, DType::F32, {}, x.sizes, pool.op(ScalarOp::Exp, element(x)));
  realize_by_policy(cheap, 2, {});
  realize_by_policy(costly, 1, {});
  EXPECT_FALSE(cheap.storage->realized() || costly.storage->realized());
  realize_by_policy(costly, 2, {});
  EXPECT_TRUE(costly.storage->realized());
}

TEST_F(IrTest, EachRealizationLimitCounts) {
  const auto sum_of = [&](const std::vector<TensorBox>& of) {
    Scalar body = element(of[0]);
    for (std::size_t i = 1; i < of.size(); ++i) body = pool.op(ScalarOp::Add, body, element(of[i]));
    return make_pointwise(graph, DType::F32, {}, of[0].sizes, body);
  };
  const auto realized = [](const TensorBox& box, const RealizeLimits& limits) {
    realize_by_policy(box, 1, limits);
    return box.storage->realized();
  };
  const TensorBox x = input({4}), y = input({4}), z = input({4});
  EXPECT_FALSE(realized(sum_of({x, y, z}), {}));
  EXPECT_FALSE(realized(sum_of({x, y, z}), {.reads = 3}));
  EXPECT_TRUE(realized(sum_of({x, y, z}), {.reads = 2})) << "by number";
  EXPECT_FALSE(realized(sum_of({x, y, z}), {.operations = 16}));
  EXPECT_TRUE(realized(sum_of({x, y, z}), {.operations = 1})) << "by operations";
  EXPECT_FALSE(realized(sum_of({x, y, z}), {.read_bytes = 48}));
  EXPECT_TRUE(realized(sum_of({x, y, z}), {.read_bytes = 47})) << "by bytes";
  // A size that only a run tells counts as the end of its range, and as the beginning where that has none.
  const Expr few = env->add_unbacked("few", {0, 8}), any = env->add_unbacked("any", {2, sym::Range::kMax});
  const auto sums = [&](Expr n) { return sum_of({input({n}), input({n})}); };
  EXPECT_FALSE(realized(sums(few), {.read_bytes = 64}));
  EXPECT_TRUE(realized(sums(few), {.read_bytes = 63})) << "by the end of the range";
  EXPECT_FALSE(realized(sums(any), {.read_bytes = 16}));
  EXPECT_TRUE(realized(sums(any), {.read_bytes = 15})) << "by the beginning of one without an end";
}

TEST_F(IrTest, LargeReductionToOneElementIsSplit) {
  TensorBox x = input({1000003});
  Expr r = graph.rvar(0);
  sym::LoopVar loop{r, 1000003};
  Scalar body = x.load({&r, 1}, {&loop, 1});
  TensorBox sum = make_reduction(graph, DType::F32, {}, {}, {1000003}, ReductionKind::Sum, body);
  ASSERT_EQ(graph.operations().size(), 2u);
  EXPECT_EQ(graph.operations()[0].sizes().size(), 1u);
  EXPECT_EQ(to_string(std::get<Reduction>(graph.operations()[1].node).body), "load(buf1, [r0])");
  EXPECT_EQ(sum.sizes.size(), 0u);
}

TEST_F(IrTest, DenseStridesFollowTheOrder) {
  EXPECT_EQ(dense_strides(*env, {2, 3, 4}, {12, 1, 3}), (Exprs{12, 1, 3}));
  EXPECT_EQ(dense_strides(*env, {2, 3, 4}, {100, 1, 30}), (Exprs{12, 1, 3}));
  EXPECT_EQ(dense_strides(*env, {2, 3}, {0, 1}), (Exprs{3, 1}));
  EXPECT_EQ(dense_strides(*env, {1, 3, 2}, {3, 1, 3}), (Exprs{3, 1, 3}));
}

/// Symbols of every kind of operation, each in one place only.
TEST_F(IrTest, FreeSymbolsOfEveryKind) {
  auto u = [&, k = 0]() mutable { return env->add_unbacked(fmt::format("u{}", k++)); };
  auto buffer = [&](Exprs sizes, BufferKind kind = BufferKind::Computed) {
    Exprs strides = sym::contiguous_strides(sizes);
    return graph.add_buffer("b", kind, {DType::F32, {}, std::move(sizes), std::move(strides), true}).id;
  };
  auto names = [&](Operation op) { return free_symbols(graph, graph.add_operation(std::move(op))); };
  using Names = std::set<std::string>;
  const BufferId in = buffer({4}, BufferKind::Input), out = buffer({4}), one = buffer({u()}), other = buffer({u()});
  const Scalar x = pool.load(in, DType::F32, {graph.ivar(0)});
  EXPECT_EQ(names({.node = Pointwise{{4}, x}, .outs = {one}}), Names{"u0"}) << "of the layout written to";
  EXPECT_EQ(names({.node = Pointwise{{4}, pool.load(other, DType::F32, {graph.ivar(0)})}, .outs = {out}}), Names{"u1"})
      << "of the layout read";
  EXPECT_EQ(names({.node = Pointwise{{u()}, x}, .outs = {out}}), Names{"u2"});
  EXPECT_EQ(names({.node = Pointwise{{4}, pool.load(in, DType::F32, {graph.ivar(0) + u()})}, .outs = {out}}),
            Names{"u3"})
      << "a view at a place that data tell";
  EXPECT_EQ(names({.node = Pointwise{{4}, x}, .outs = {out}, .store_index = {u()}}), Names{"u4"})
      << "a part of a concatenation";
  EXPECT_EQ(names({.node = Reduction{{4}, {u()}, {}, x}, .outs = {out}}), Names{"u5"});
  EXPECT_EQ(names({.node = Scan{.sizes = {u()}, .body = x}, .outs = {out}}), Names{"u6"});
  EXPECT_EQ(names({.node = Scatter{.sizes = {4}, .body = x, .index = {u()}}, .outs = {out}}), Names{"u7"});
  EXPECT_EQ(
      names({.node = Scatter{.sizes = {4}, .body = x, .index = {0}, .indirect = {pool.load(in, DType::F32, {u()})}},
             .outs = {out}}),
      Names{"u8"});
  const BufferView whole_out{out, DType::F32, {4}, {1}};
  EXPECT_EQ(names({.node = Extern{.op = "sort", .inputs = {{in, DType::F32, {u()}, {1}}}, .outputs = {whole_out}},
                   .outs = {out}}),
            Names{"u9"});
  EXPECT_EQ(names({.node = Extern{.op = "sort", .inputs = {{in, DType::F32, {4}, {u()}}}, .outputs = {whole_out}},
                   .outs = {out}}),
            Names{"u10"});
  EXPECT_EQ(names({.node = Extern{.op = "sort", .inputs = {{in, DType::F32, {4}, {1}, u()}}, .outputs = {whole_out}},
                   .outs = {out}}),
            Names{"u11"});
  EXPECT_EQ(names({.node = Extern{.op = "sort",
                                  .inputs = {{in, DType::F32, {4}, {1}}},
                                  .outputs = {whole_out, {other, DType::F32, {u()}, {1}}}},
                   .outs = {out, one}}),
            (Names{"u0", "u12"}))
      << "of several results";
  EXPECT_EQ(names({.node = Assertion{sym::le(u(), 4), "no"}}), Names{"u13"});
  EXPECT_EQ(names({.node = Control{.kind = Control::Kind::If, .condition = u()}}), Names{"u14"});
  EXPECT_EQ(names({.node = Control{.kind = Control::Kind::EndIf}}), Names{});
  EXPECT_EQ(names({.node = Control{.kind = Control::Kind::Loop, .counter = u(), .extent = u()}}), Names{"u16"})
      << "not of the counter, which it defines";
  EXPECT_EQ(names({.node = ReadSymbol{u(), in}}), Names{});
  ops::NamedArgument count{.value = ops::CallArgument(u())};
  EXPECT_EQ(names({.node = Fallback{.op = "lib.f.default", .arguments = {count}}, .outs = {out}}), Names{"u18"});
  EXPECT_EQ(names({.node = Fallback{.op = "lib.f.default", .inputs = {{in, DType::F32, {u()}, {1}}}}, .outs = {out}}),
            Names{"u19"});
}

}  // namespace
}  // namespace coil::ir
