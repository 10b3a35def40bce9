#include "runtime/ops/gemm.h"

#include <cmath>
#include <random>

#include "runtime/views/half.h"
#include "runtime_calls.h"
#include "support/cpu.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

using V = BoundView;

/// The matrix product by definition, in double, without its epilogue.
std::vector<double> product(const Operands& in, const V& y, bool weight_is_transposed) {
  const V &a = in.views[0], &b = in.views[1];
  std::vector<double> result;
  const std::size_t r = y.sizes.size();
  for_each_index(y.sizes, [&](const Sizes& at) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.sizes.back(); ++k) {
      Sizes ia(at), ib = weight_is_transposed ? Sizes{k, at[r - 1]} : Sizes{at[r - 1], k};
      ia[r - 1] = k;
      if (b.sizes.size() > 2) {
        ib = at;
        ib[r - 2] = k;
      }
      sum += in.value(0, ia) * in.value(1, ib);
    }
    result.push_back(sum);
  });
  return result;
}

TEST(Linear, AgreesWithTheDefinition) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64, DType::I32}) {
    for (const Sizes& lead : {Sizes{}, Sizes{1}, Sizes{7}, Sizes{2, 3}, Sizes{2, 1, 3}}) {
      for (int transposed : {0, 1}) {
        SCOPED_TRACE(fmt::format("{} [{}] transposed {}", short_name(dtype), fmt::join(lead, ", "), transposed));
        Sizes x = lead, y = lead;
        x.push_back(20);
        y.push_back(9);
        Operands in;
        in.add(dense_view(dtype, x));
        in.add(dense_view(dtype, transposed ? Sizes{20, 9} : Sizes{9, 20}));
        in.add(dense_view(dtype, {9}));
        const V out = dense_view(dtype, y);
        std::vector<double> expected = product(in, out, transposed != 0);
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += in.value(2, {static_cast<std::int64_t>(i % 9)});
        expect_near(run("linear", {{"has_bias", 1}, {"weight_transposed", transposed}}, in, out), expected,
                    tolerance(dtype));
      }
    }
  }
}

TEST(Linear, TakesViewsThatDoNotCollapse) {
  Operands in;
  in.add({DType::F32, {2, 3, 16}, {16, 64, 1}});  // leading dimensions exchanged
  in.add({DType::F32, {8, 16}, {33, 2}});         // a weight with gaps
  const V y{DType::F32, {2, 3, 8}, {1, 16, 2}};
  expect_near(run("linear", {}, in, y), product(in, y, false), 1e-5);
}

TEST(Linear, PackedWeightsServeEveryBatchSize) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    for (Sizes weight : {Sizes{70, 40}, Sizes{64, 128}, Sizes{5, 300}}) {
      Operands in;
      in.add(dense_view(dtype, {16, weight[1]}));
      in.add(dense_view(dtype, weight));
      const std::vector<V> hint_out = {dense_view(dtype, {16, weight[0]})};
      auto packed = pack_operand("linear", {}, in.views, hint_out, 1, in.tensors[1], machine_isa());
      if (!packed) GTEST_SKIP() << "nothing to pack for in this build";
      for (std::int64_t m : {1, 2, 16, 130}) {
        Operands now;
        now.add(dense_view(dtype, {m, weight[1]}));
        now.use(in.views[1], in.tensors[1]);
        const V y = dense_view(dtype, {m, weight[0]});
        const std::vector<double> expected = product(now, y, false);
        Attributes attributes = packed->attributes;
        attributes["n"] = weight[0];
        attributes["k"] = weight[1];
        now.use({DType::U8, packed->bytes.sizes, {1}}, packed->written(), 1);
        expect_near(run("linear", attributes, now, y), expected, tolerance(dtype));
      }
    }
  }
}

TEST(Linear, RefusesDamagedPacking) {
  Operands in;
  in.add(dense_view(DType::F32, {16, 64}));
  in.add(dense_view(DType::F32, {64, 64}));
  const std::vector<V> out = {dense_view(DType::F32, {16, 64})};
  auto packed = pack_operand("linear", {}, in.views, out, 1, in.tensors[1], machine_isa());
  if (!packed) GTEST_SKIP() << "nothing to pack for in this build";
  auto with = [&](const std::string& text) {
    in.use({DType::U8, packed->bytes.sizes, {1}}, packed->written(), 1);
    return run("linear", {{"packed_desc", text}, {"n", 64}, {"k", 64}}, in, out[0]);
  };
  const std::string good = std::get<std::string>(packed->attributes.at("packed_desc"));
  EXPECT_NO_THROW(with(good));
  EXPECT_THROW(with("onednn-9.9.9:00"), Error);
  EXPECT_THROW(with(good.substr(0, good.size() - 2)), Error);
}

TEST(Matmul, AgreesWithTheDefinitionInEveryLayout) {
  struct Case {
    V a, b, y;
  };
  const DType f = DType::F32;
  const std::vector<Case> cases = {
      {{f, {4, 5}, {5, 1}}, {f, {5, 6}, {6, 1}}, {f, {4, 6}, {6, 1}}},
      {{f, {4, 5}, {1, 4}}, {f, {5, 6}, {1, 5}}, {f, {4, 6}, {1, 4}}},  // all transposed
      {{f, {2, 4, 5}, {20, 5, 1}}, {f, {2, 5, 6}, {30, 6, 1}}, {f, {2, 4, 6}, {24, 6, 1}}},
      {{f, {2, 3, 8, 16}, {384, 16, 48, 1}},
       {f, {2, 3, 16, 8}, {384, 16, 1, 48}},
       {f, {2, 3, 8, 8}, {192, 64, 8, 1}}},  // attention
      {{f, {2, 3, 8, 8}, {192, 64, 8, 1}}, {f, {2, 3, 8, 16}, {384, 16, 48, 1}}, {f, {2, 3, 8, 16}, {384, 16, 48, 1}}},
      {{f, {2, 3, 4, 5}, {0, 0, 5, 1}},
       {f, {2, 3, 5, 6}, {90, 30, 6, 1}},
       {f, {2, 3, 4, 6}, {72, 24, 6, 1}}},  // one a for all
      {{f, {2, 3, 4, 5}, {60, 20, 5, 1}},
       {f, {2, 3, 5, 6}, {0, 0, 6, 1}},
       {f, {2, 3, 4, 6}, {72, 24, 6, 1}}},  // one b for all
      {{f, {2, 1, 5}, {5, 5, 1}}, {f, {2, 5, 1}, {5, 1, 1}}, {f, {2, 1, 1}, {1, 1, 1}}},
      {{f, {3, 5}, {0, 1}}, {f, {5, 4}, {4, 0}}, {f, {3, 4}, {4, 1}}},  // expanded matrices
  };
  for (const Case& c : cases) {
    for (DType dtype : {DType::F32, DType::BF16, DType::I64}) {
      SCOPED_TRACE(fmt::format("{} a [{}] strides [{}]", short_name(dtype), fmt::join(c.a.sizes, ", "),
                               fmt::join(c.a.strides, ", ")));
      Operands in;
      V a = c.a, b = c.b, y = c.y;
      a.dtype = b.dtype = y.dtype = dtype;
      in.add(a);
      in.add(b);
      expect_near(run("matmul", {}, in, y), product(in, y, true), tolerance(dtype));
    }
  }
}

TEST(Matmul, AppliesBiasAndPostOperationsInOrder) {
  for (DType dtype : {DType::F32, DType::F64}) {
    Operands in;
    in.add(dense_view(dtype, {2, 4, 5}));
    in.add(dense_view(dtype, {2, 5, 6}));
    in.add(dense_view(dtype, {6}));
    in.add(dense_view(dtype, {2, 4, 6}));
    in.add({dtype, {4, 1}, {1, 1}});
    in.add(dense_view(dtype, {}));
    const V y = dense_view(dtype, {2, 4, 6});
    std::vector<double> expected = product(in, y, true);
    std::size_t i = 0;
    for_each_index(y.sizes, [&](const Sizes& at) {
      double& e = expected[i++];
      e = std::max(0.0, e + in.value(2, {at[2]}));
      e = e * in.value(3, at) + in.value(4, {at[1], 0});
      e = (2 * e + 0.5) * in.value(5, {});
    });
    const Attributes attributes = {{"has_bias", 1},
                                   {"post", std::vector<std::string>{"relu", "mul", "add", "scale:2:0.5", "mul"}}};
    expect_near(run("matmul", attributes, in, y), expected, tolerance(dtype) * 4);
  }
}

TEST(Matmul, SumAddsToWhatTheOutputHolds) {
  for (const V& y : {V{DType::F32, {4, 6}, {6, 1}}, V{DType::F32, {4, 6}, {1, 4}}}) {
    Operands in;
    in.add(dense_view(DType::F32, {4, 5}));
    in.add(dense_view(DType::F32, {5, 6}));
    std::vector<double> expected = product(in, y, true);
    for (double& e : expected) e += 3;
    expect_near(run("matmul", {{"post", std::vector<std::string>{"sum"}}}, in, y, 3), expected, 1e-5);
  }
}

TEST(Matmul, SumFollowsOtherPostOperations) {
  // oneDNN's kernels for processors without AVX-512 take it first or not at all.
  for (const V& y : {V{DType::F32, {4, 6}, {6, 1}}, V{DType::F32, {4, 6}, {1, 4}}, V{DType::BF16, {4, 6}, {6, 1}}}) {
    SCOPED_TRACE(fmt::format("{} {}", short_name(y.dtype), y.strides[0]));
    Operands in;
    in.add(dense_view(y.dtype, {4, 5}));
    in.add(dense_view(y.dtype, {5, 6}));
    in.add(dense_view(y.dtype, {6}));
    in.add(dense_view(y.dtype, {4, 6}));
    std::vector<double> expected = product(in, y, true);
    std::size_t i = 0;
    for_each_index(y.sizes, [&](const Sizes& at) {
      double& e = expected[i++];
      e = std::max(0.0, e * in.value(2, {at[1]}) + 3) * in.value(3, at);
    });
    expect_near(run("matmul", {{"post", std::vector<std::string>{"mul", "sum", "relu", "mul"}}}, in, y, 3), expected,
                4 * tolerance(y.dtype));
  }
}

TEST(PostOps, AgreeWithTheirDefinitions) {
  // Every eltwise operation through a 1-wide product: y = post(x). The bound is on the difference from double
  // arithmetic.
  const std::vector<std::string> names = {"relu",        "gelu_erf", "gelu_tanh",      "silu",
                                          "sigmoid",     "tanh",     "clip:-1:0.5",    "hardswish",
                                          "hardsigmoid", "elu:0.7",  "leaky_relu:0.1", "scale:2:-1"};
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const PostOp op = library_ops::parse_post_op(name);
    Operands in;
    in.add(dense_view(DType::F32, {4001, 1}));
    in.add(dense_view(DType::F32, {1, 1}));
    for (int i = 0; i <= 4000; ++i) in.tensors[0].data<float>()[i] = static_cast<float>(i - 2000) / 200;
    in.tensors[1].data<float>()[0] = 1;
    std::vector<double> expected;
    for (int i = 0; i <= 4000; ++i) expected.push_back(apply_post_op(op, in.tensors[0].data<float>()[i]));
    expect_near(run("linear", {{"post", std::vector<std::string>{name}}}, in, dense_view(DType::F32, {4001, 1})),
                expected, 2e-6);
  }
  EXPECT_THROW(make_library_op("linear", {{"post", std::vector<std::string>{"levitate"}}}), Error);
}

TEST(Linear, RefusesSizesThatDoNotFit) {
  Operands in;
  in.add(dense_view(DType::F32, {2, 5}));
  in.add(dense_view(DType::F32, {3, 4}));
  EXPECT_THROW(run("linear", {}, in, dense_view(DType::F32, {2, 3})), Error);
  EXPECT_THROW(run("matmul", {}, in, dense_view(DType::F32, {2, 4})), Error);
}

TEST(ReshapeView, FindsStridesWhereThereAreSome) {
  auto strides = [](const V& v, const Sizes& sizes) { return reshape_view(v, sizes).value().strides; };
  EXPECT_EQ(strides({DType::F32, {2, 3, 4}, {12, 4, 1}}, {6, 4}), (Sizes{4, 1}));
  EXPECT_EQ(strides({DType::F32, {2, 3, 4}, {24, 8, 2}}, {24}), (Sizes{2}));
  EXPECT_EQ(strides({DType::F32, {2, 1, 4}, {4, 99, 1}}, {2, 4}), (Sizes{4, 1}));
  EXPECT_EQ(strides({DType::F32, {2, 3}, {0, 0}}, {6}), (Sizes{0}));
  EXPECT_FALSE(reshape_view({DType::F32, {2, 3}, {1, 2}}, {6}));
  EXPECT_FALSE(reshape_view({DType::F32, {2, 3}, {0, 1}}, {6}));
}

}  // namespace
}  // namespace coil::runtime
