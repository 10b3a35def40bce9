// ATen operators to IR: what is computed, absorbed, aliased, written back and given to libraries. Values are tested
// against eager elsewhere.
#include "lowering/lowering.h"

#include <gtest/gtest.h>

#include "frontend/graph_builder.h"
#include "passes/loop/fuse_post_ops.h"
#include "passes/loop/layout_choice.h"

namespace coil::lowering {
namespace {

using frontend::GraphBuilder;
using ops::None;
using ops::Values;

struct LoweringTest : testing::Test {
  GraphBuilder b;
  std::unique_ptr<fx::GraphModule> module;
  std::unique_ptr<ir::Graph> graph;

  /// The operations' lines, without buffers and without origins.
  std::string lowered(std::vector<fx::Node*> results) {
    module = b.build(std::move(results));
    return relowered();
  }
  std::string relowered() {
    graph = lower(*module);
    return operations();
  }
  std::string operations() {
    std::string text, all = to_string(*graph);
    for (std::size_t at = 0; at < all.size();) {
      std::size_t end = all.find('\n', at);
      std::string line = all.substr(at, end - at);
      if (auto comment = line.find("  #"); comment != line.npos) line.resize(comment);
      if (line.starts_with("op") || line.starts_with("return")) text += line + "\n";
      at = end + 1;
    }
    return text;
  }
  fx::Node* weight(std::string_view name, Sizes sizes) {
    return b.constant(name, Tensor::empty(DType::F32, std::move(sizes)));
  }
};

TEST_F(LoweringTest, ChainsOfPointwiseBecomeOneLoop) {
  auto* x = b.input("x", DType::F32, {4, 6});
  auto* y = b.input("y", DType::F32, {6});
  auto* sum = b.op("aten.add.Tensor", {x, y}, {{"alpha", 2}});
  EXPECT_EQ(lowered({b.op("aten.relu.default", {sum})}),
            "op0: buf2 = pointwise[i0 < 4, i1 < 6] max(0.0, add(load(buf0, [i0, i1]), mul(load(buf1, [i1]), 2.0)))\n"
            "return output=buf2 as f32[4, 6]\n");
  EXPECT_EQ(graph->operations()[0].origins, (std::set<std::string>{"add", "relu"}));
}

TEST_F(LoweringTest, ViewsAreIndexMaps) {
  auto s = b.size("s0", 3);
  auto* x = b.input("x", DType::F32, {s, 4, 6});
  auto* flat = b.op("aten.view.default", {x, Values{s, 24}});
  auto* back = b.op("aten.view.default", {flat, Values{s, 6, 4}});
  auto* t = b.op("aten.permute.default", {back, Values{0, 2, 1}});
  EXPECT_EQ(lowered({b.op("aten.neg.default", {t})}),
            "op0: buf1 = pointwise[i0 < s0, i1 < 4, i2 < 6] neg(load(buf0, [i0, FloorDiv(i1 + 4*i2, 6), Mod(i1 + 4*i2, "
            "6)]))\n"
            "return output=buf1 as f32[s0, 4, 6]{24, 1, 4}\n");
}

TEST_F(LoweringTest, ComparisonsPromote) {
  auto* x = b.input("x", DType::I32, {4});
  EXPECT_EQ(lowered({b.op("aten.gt.Scalar", {x, 1.5})}),
            "op0: buf1 = pointwise[i0 < 4] gt(cast(load(buf0, [i0]), f32), 1.5)\nreturn output=buf1 as b8[4]\n");
}

TEST_F(LoweringTest, NarrowFloatsAreRoundedOnlyWhereStoredOrAsked) {
  auto* x = b.input("x", DType::BF16, {4});
  auto* sum = b.op("aten.add.Tensor", {x, x});
  auto* half = b.op("aten._to_copy.default", {sum}, {{"dtype", DType::F16}});
  EXPECT_EQ(lowered({b.op("aten._to_copy.default", {half}, {{"dtype", DType::F32}})}),
            "op0: buf1 = pointwise[i0 < 4] round(add(load(buf0, [i0]), load(buf0, [i0])), f16)\nreturn output=buf1 as "
            "f32[4]\n");
}

TEST_F(LoweringTest, OutputsAliasAsInEager) {
  auto* x = b.input("x", DType::F32, {4, 6});
  auto* t = b.op("aten.permute.default", {x, Values{1, 0}});
  auto* e = b.op("aten.exp.default", {x});
  auto* part = b.op("aten.select.int", {e, 0, 2});
  EXPECT_EQ(
      lowered({x, t, e, e, part}),
      "op0: buf1 = pointwise[i0 < 4, i1 < 6] exp(load(buf0, [i0, i1]))\n"
      "return 0=buf0 as f32[4, 6], 1=buf0 as f32[6, 4]{1, 6}, 2=buf1 as f32[4, 6], 3=buf1 as f32[4, 6], 4=buf1 as "
      "f32[6]{1}+12\n");
}

TEST_F(LoweringTest, ExchangedInputsSeeOldValues) {
  auto* x = b.input("x", DType::F32, {4});
  auto* y = b.input("y", DType::F32, {4});
  auto* doubled = b.op("aten.mul.Tensor", {x, 2.0});
  auto* shifted = b.op("aten.add.Tensor", {y, 1.0});
  module = b.build({doubled, shifted});
  module->outputs.clear();
  module->mutations = {{fx::Mutation::Target::Input, "y", 0}, {fx::Mutation::Target::Input, "x", 1}};
  EXPECT_EQ(relowered(),
            "op0: buf2 = pointwise[i0 < 4] mul(load(buf0, [i0]), 2.0)\n"
            "op1: buf3 = pointwise[i0 < 4] add(load(buf1, [i0]), 1.0)\n"
            "op2: buf1 = pointwise[i0 < 4] load(buf2, [i0])\n"
            "op3: buf0 = pointwise[i0 < 4] load(buf3, [i0])\n"
            "return\n");
}

TEST_F(LoweringTest, ReturnedMutationIsTheInput) {
  auto* x = b.input("x", DType::F32, {4});
  module = b.build({b.op("aten.add.Tensor", {x, 1.0})});
  module->graph.output()->set_args({module->graph.output()->args[0], module->graph.output()->args[0]});
  module->mutations = {{fx::Mutation::Target::Input, "x", 1}};
  EXPECT_EQ(relowered(), "op0: buf0 = pointwise[i0 < 4] add(load(buf0, [i0]), 1.0)\nreturn output=buf0 as f32[4]\n");
}

TEST_F(LoweringTest, SoftmaxKeepsExponentials) {
  auto* x = b.input("x", DType::F32, {4, 6});
  EXPECT_EQ(lowered({b.op("aten._softmax.default", {x, -1, false})}),
            "op0: buf1 = reduce.max[i0 < 4, i1 < 1; r0 < 6] load(buf0, [i0, r0])\n"
            "op1: buf2 = pointwise[i0 < 4, i1 < 6] exp(sub(load(buf0, [i0, i1]), load(buf1, [i0, 0])))\n"
            "op2: buf3 = reduce.sum[i0 < 4, i1 < 1; r0 < 6] load(buf2, [i0, r0])\n"
            "op3: buf4 = pointwise[i0 < 4, i1 < 1] recip(load(buf3, [i0, i1]))\n"
            "op4: buf5 = pointwise[i0 < 4, i1 < 6] mul(load(buf2, [i0, i1]), load(buf4, [i0, 0]))\n"
            "return output=buf5 as f32[4, 6]\n");
}

TEST_F(LoweringTest, ConcatenationWritesParts) {
  auto* x = b.input("x", DType::F32, {2, 3});
  auto* y = b.input("y", DType::F32, {2, 5});
  EXPECT_EQ(lowered({b.op("aten.cat.default", {Values{x, b.op("aten.neg.default", {y})}, 1})}),
            "op0: buf2 at [i0, i1] = pointwise[i0 < 2, i1 < 3] load(buf0, [i0, i1])\n"
            "op1: buf2 at [i0, i1 + 3] = pointwise[i0 < 2, i1 < 5] neg(load(buf1, [i0, i1]))\n"
            "return output=buf2 as f32[2, 8]\n");
}

TEST_F(LoweringTest, IndicesThatAreKnownNeedNoCheck) {
  auto* table = weight("table", {10, 4});
  auto* ids = b.input("ids", DType::I64, {3});
  auto* positions = b.op("aten.arange.start_step", {0, 3}, {{"dtype", DType::I64}});
  auto* sum = b.op("aten.add.Tensor",
                   {b.op("aten.embedding.default", {table, ids}), b.op("aten.embedding.default", {table, positions})});
  EXPECT_EQ(lowered({sum}),
            "op0: buf2 = pointwise[i0 < 3, i1 < 4] add(load(buf1, [x0, i1], x0 = check_index(load(buf0, [i0]), 10)), "
            "load(buf1, [i0, i1]))\n"
            "return output=buf2 as f32[3, 4]\n");
}

TEST_F(LoweringTest, ActivationsAndResidualsJoinTheProductBefore) {
  auto* x = b.input("x", DType::F32, {2, 5, 8});
  auto* h = b.op("aten.gelu.default", {b.op("aten.linear.default", {x, weight("w", {16, 8}), weight("b", {16})})});
  auto* y = b.op("aten.add.Tensor", {b.op("aten.linear.default", {h, weight("v", {8, 16})}), x});
  lowered({y});
  ir::fuse_post_ops(*graph);
  EXPECT_EQ(operations(),
            "op0: buf5 = extern linear(buf0 as f32[2, 5, 8], buf1 as f32[16, 8], buf2 as f32[16]) has_bias=1 k=8 n=16 "
            "post=[\"gelu_erf\"] weight_transposed=0 -> buf5 as f32[2, 5, 16]\n"
            "op1: buf7 = extern linear(buf5 as f32[2, 5, 16], buf4 as f32[8, 16], buf0 as f32[2, 5, 8]) has_bias=0 "
            "k=16 n=8 post=[\"add\"] weight_transposed=0 -> buf7 as f32[2, 5, 8]\n"
            "return output=buf7 as f32[2, 5, 8]\n");
}

TEST_F(LoweringTest, GeluWrittenOutIsRecognised) {
  auto* x = b.input("x", DType::F32, {4, 8});
  auto* h = b.op("aten.mm.default", {x, weight("w", {8, 8})});
  auto* inner =
      b.op("aten.mul.Tensor",
           {b.op("aten.add.Tensor", {h, b.op("aten.mul.Tensor", {b.op("aten.pow.Tensor_Scalar", {h, 3.0}), 0.044715})}),
            0.7978845608028654});
  auto* y = b.op("aten.mul.Tensor", {b.op("aten.mul.Tensor", {h, 0.5}),
                                     b.op("aten.add.Tensor", {b.op("aten.tanh.default", {inner}), 1.0})});
  lowered({y});
  ir::fuse_post_ops(*graph);
  ASSERT_EQ(graph->operations().size(), 1u);
  EXPECT_EQ(std::get<std::vector<std::string>>(std::get<ir::Extern>(graph->operations()[0].node).attributes.at("post")),
            std::vector<std::string>{"gelu_tanh"});
}

TEST_F(LoweringTest, GatedProductFusesBehindItsGate) {
  auto* x = b.input("x", DType::F32, {4, 8});
  auto* gate = b.op("aten.silu.default", {b.op("aten.linear.default", {x, weight("g", {8, 8})})});
  lowered({b.op("aten.mul.Tensor", {gate, b.op("aten.linear.default", {x, weight("u", {8, 8})})})});
  ir::fuse_post_ops(*graph);
  ASSERT_EQ(graph->operations().size(), 2u);
  EXPECT_EQ(std::get<std::vector<std::string>>(std::get<ir::Extern>(graph->operations()[1].node).attributes.at("post")),
            (std::vector<std::string>{"silu", "mul"}));
}

TEST_F(LoweringTest, ConvolutionalNetIsChannelsLastBetweenItsBorders) {
  auto conv = [&](fx::Node* x, std::string_view name, Sizes sizes) {
    return b.op("aten.convolution.default", {x, weight(name, std::move(sizes)), None{}, Values{1, 1}, Values{1, 1},
                                             Values{1, 1}, false, Values{0, 0}, 1});
  };
  auto* x = b.input("x", DType::F32, {2, 4, 8, 8});
  auto* h = b.op("aten.relu.default", {conv(x, "w1", {4, 4, 3, 3})});
  auto* y = b.op("aten.relu.default", {b.op("aten.add.Tensor", {conv(h, "w2", {4, 4, 3, 3}), h})});
  lowered({y});
  ir::fuse_post_ops(*graph);
  ir::choose_layouts(*graph);
  std::vector<std::string> posts;
  std::size_t copies = 0;
  for (auto& op : graph->operations()) {
    if (auto* call = std::get_if<ir::Extern>(&op.node)) {
      EXPECT_EQ(call->inputs[0].strides, (Exprs{256, 1, 32, 4}));
      EXPECT_EQ(call->outputs[0].strides, (Exprs{256, 1, 32, 4}));
      for (auto& p : std::get<std::vector<std::string>>(call->attributes.at("post"))) posts.push_back(p);
    } else {
      ++copies;
    }
  }
  EXPECT_EQ(posts, (std::vector<std::string>{"relu", "add", "relu"}));
  EXPECT_EQ(copies, 2u) << "the input's conversion and the output's";
}

TEST_F(LoweringTest, PaddingJoinsTheConvolution) {
  auto* x = b.input("x", DType::F32, {1, 2, 8, 8});
  auto* padded = b.op("aten.constant_pad_nd.default", {x, Values{0, 1, 0, 1}, 0.0});
  auto* y = b.op("aten.convolution.default", {padded, weight("w", {2, 2, 3, 3}), None{}, Values{2, 2}, Values{0, 0},
                                              Values{1, 1}, false, Values{0, 0}, 1});
  lowered({y});
  ASSERT_EQ(graph->operations().size(), 1u);
  auto& attributes = std::get<ir::Extern>(graph->operations()[0].node).attributes;
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes.at("padding")), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(attributes.at("padding_end")), (std::vector<std::int64_t>{1, 1}));
}

TEST_F(LoweringTest, NoEngineIsMeasuredWhereBitsAreToBeTheSame) {
  auto* x = b.input("x", DType::F32, {1, 2, 8, 8});
  module = b.build({b.op("aten.convolution.default", {x, weight("w", {2, 2, 3, 3}), None{}, Values{1, 1}, Values{1, 1},
                                                      Values{1, 1}, false, Values{0, 0}, 1})});
  for (const bool same : {false, true}) {
    graph = lower(*module, {.orders_writes = same});
    EXPECT_EQ(std::get<ir::Extern>(graph->operations()[0].node).attributes.contains("fixed_engine"), same);
  }
}

TEST_F(LoweringTest, AttentionTakesViews) {
  auto* x = b.input("x", DType::F32, {2, 5, 8});
  auto heads = [&](fx::Node* t) {
    return b.op("aten.permute.default", {b.op("aten.view.default", {t, Values{2, 5, 2, 4}}), Values{0, 2, 1, 3}});
  };
  auto* y = b.op("aten.scaled_dot_product_attention.default", {heads(x), heads(x), heads(x)}, {{"is_causal", true}});
  lowered({y});
  ASSERT_EQ(graph->operations().size(), 1u);
  auto& call = std::get<ir::Extern>(graph->operations()[0].node);
  EXPECT_EQ(call.inputs[0].strides, (Exprs{40, 4, 8, 1}));
  EXPECT_EQ(std::get<double>(call.attributes.at("scale")), 0.5);
  EXPECT_EQ(std::get<std::int64_t>(call.attributes.at("causal")), 1);
}

TEST_F(LoweringTest, UnsupportedOperatorsAreListedTogether) {
  auto* x = b.input("x", DType::F32, {4});
  module = b.build({x});
  {
    fx::InsertBefore before(module->graph.output());
    for (const char* target : {"my.first.default", "my.second.default"}) {
      fx::Node* n = module->graph.call(target, {module->graph.find("x")});
      n->meta.value = sym::contiguous(DType::F32, {}, {4});
      n->meta.stack_trace = "  File \"/home/user/model.py\", line 7, in forward\n";
    }
  }
  EXPECT_EQ(unsupported(*module),
            "my.first.default has no lowering on cpu (called at model.py:7); my.second.default has no lowering on cpu "
            "(called at model.py:7)");
  EXPECT_THROW(lower(*module), std::runtime_error);
}

}  // namespace
}  // namespace coil::lowering
