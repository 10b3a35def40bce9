// Operators without lowering, from the graph to a run that a host takes part in.
#include <gtest/gtest.h>

#include "error_of.h"
#include "frontend/graph_builder.h"
#include "lowering/lowering.h"
#include "runtime/executor.h"
#include "runtime/plan_json.h"
#include "wrapper/build.h"
#include "wrapper/plan.h"
#include "wrapper/program.h"
#include "wrapper/text.h"

namespace coil {
namespace {

/// One call of `op` as wrapper lines: x f32[s0, 2] in, its result f32[s0, 2] out.
wrapper::Program one_call(std::shared_ptr<sym::ShapeEnv> env) {
  wrapper::Program p;
  p.env = std::move(env);
  const sym::Expr rows = p.env->add_size("s0", 3);
  const sym::Exprs sizes{rows, 2}, strides{2, 1};
  p.buffers.push_back({"x", wrapper::BufferKind::Input, DType::F32, {}, sizes, strides, rows * 8, 0});
  p.buffers.push_back({"buf1", wrapper::BufferKind::Output, DType::F32, {}, sizes, strides, rows * 8, 0});
  p.inputs.push_back({"x", 0});
  wrapper::CallFallback call{"test.twist.default", {}, {}, {}, true, {"twist"}, {"twist"}, "model.py:3"};
  call.arguments = {{"", ops::Operand{0}}, {"", ops::CallArgument(rows + 1)}, {"mode", ops::CallArgument(std::string("wide"))}};
  call.inputs = {{0, DType::F32, sizes, strides, 0}};
  call.outputs = {std::nullopt, wrapper::View{1, DType::F32, sizes, strides, 0}};
  p.lines = {wrapper::DefineSymbol{rows, 0, wrapper::DefineSymbol::From::Size, 0}, wrapper::Allocate{1}, std::move(call)};
  p.outputs.push_back({"y", wrapper::View{1, DType::F32, sizes, strides, 0}});
  return p;
}

/// Adds the integer argument to every element.
class Twist : public runtime::HostOp {
 public:
  explicit Twist(const runtime::HostCall& call) : call_(call) {}
  void prepare(std::span<const runtime::BoundView> inputs, std::span<const runtime::BoundView> outputs, std::span<const std::int64_t> slots) override {
    ASSERT_EQ(inputs.size(), 1u);
    ASSERT_EQ(outputs.size(), 1u);
    count_ = numel(outputs[0].sizes);
    by_ = static_cast<float>(slots[std::get<runtime::HostInteger>(call_.arguments[1].value).slot]);
  }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    for (std::int64_t i = 0; i < count_; ++i) static_cast<float*>(outputs[0])[i] = static_cast<const float*>(inputs[0])[i] + by_;
  }

 private:
  const runtime::HostCall call_;
  std::int64_t count_ = 0;
  float by_ = 0;
};

std::unique_ptr<runtime::HostOp> host(const runtime::HostCall& call) { return call.op == "test.twist.default" ? std::make_unique<Twist>(call) : nullptr; }

TEST(HostCall, PrintsAndIsVerified) {
  const wrapper::Program p = one_call(std::make_shared<sym::ShapeEnv>());
  wrapper::verify(p);
  EXPECT_NE(wrapper::to_string(p).find("fallback [None, buf1] = test.twist.default(%0, s0 + 1, mode=\"wide\") where %0 = x"), std::string::npos) << wrapper::to_string(p);
}

TEST(HostCall, RunsForEachSizeAndThroughTheFileForm) {
  runtime::Plan plan = wrapper::make_plan(one_call(std::make_shared<sym::ShapeEnv>()));
  plan = runtime::plan_from_json(runtime::plan_to_json(plan));
  runtime::Context context(runtime::Model::load({.plan = plan}, host));
  for (std::int64_t rows : {3, 1, 5}) {
    Tensor x = Tensor::empty(DType::F32, {rows, 2});
    for (std::int64_t i = 0; i < 2 * rows; ++i) x.data<float>()[i] = static_cast<float>(i);
    const auto result = context.run({&x, 1});
    for (std::int64_t i = 0; i < 2 * rows; ++i) EXPECT_EQ(result.outputs[0].data<float>()[i], static_cast<float>(i + rows + 1));
  }
}

TEST(HostCall, IsRefusedAtLoadWhereTheHostHasNone) {
  const runtime::Plan plan = wrapper::make_plan(one_call(std::make_shared<sym::ShapeEnv>()));
  EXPECT_NE(error_of([&] { runtime::Model::load({.plan = plan}); }).find("test.twist.default"), std::string::npos);
}

TEST(HostCall, LoweringLeavesToTheHostOnlyWhenAllowed) {
  frontend::GraphBuilder b;
  fx::Node* x = b.input("x", DType::F32, {4, 3});
  auto module = b.build({x});
  fx::Graph& graph = module->graph;
  {
    fx::InsertBefore here(graph.output());
    fx::Node* made = graph.call("test.unknown.default", {x, ops::Values{1, 2.5}, ops::None{}});
    made->meta.value = sym::TensorMeta{DType::F32, {}, {3, 4}, {1, 3}, 0};
    graph.output()->set_arg(0, made);
  }
  EXPECT_NE(error_of([&] { lowering::lower(*module); }).find("test.unknown.default has no lowering"), std::string::npos);
  const std::string text = ir::to_string(*lowering::lower(*module, {.fallback = true}));
  EXPECT_NE(text.find("fallback test.unknown.default(%0, [1, 2.5], None)"), std::string::npos) << text;
}

}  // namespace
}  // namespace coil
