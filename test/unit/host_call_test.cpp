// Operators without lowering, from the graph to a run that a host takes part in.
#include <gtest/gtest.h>

#include <unistd.h>

#include "coil/runtime.h"
#include "compiler/library.h"
#include "compiler/pipeline.h"
#include "error_of.h"
#include "frontend/graph_builder.h"
#include "lowering/lowering.h"
#include "runtime/executor/executor.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_json.h"
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
  wrapper::CallFallback call{"test.twist.default", {}, {}, {}, {}, true, {"twist"}, {"twist"}, "model.py:3"};
  call.arguments = {
      {"", ops::Operand{0}}, {"", ops::CallArgument(rows + 1)}, {"mode", ops::CallArgument(std::string("wide"))}};
  call.inputs = {{0, DType::F32, sizes, strides, 0}};
  call.outputs = {std::nullopt, wrapper::View{1, DType::F32, sizes, strides, 0}};
  p.lines = {wrapper::DefineSymbol{rows, 0, wrapper::DefineSymbol::From::Size, 0}, wrapper::Allocate{1},
             std::move(call)};
  p.outputs.push_back({"y", wrapper::View{1, DType::F32, sizes, strides, 0}});
  return p;
}

/// Adds the integer argument to every element.
class Twist : public runtime::HostOp {
 public:
  explicit Twist(const runtime::HostCall& call) : call_(call) {}
  void prepare(std::span<const runtime::BoundView> inputs, std::span<const runtime::BoundView> outputs,
               std::span<const std::int64_t> slots) override {
    ASSERT_EQ(inputs.size(), 1u);
    ASSERT_EQ(outputs.size(), 1u);
    count_ = numel(outputs[0].sizes);
    by_ = static_cast<float>(slots[std::get<runtime::HostInteger>(call_.arguments[1].value).slot]);
  }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    for (std::int64_t i = 0; i < count_; ++i)
      static_cast<float*>(outputs[0])[i] = static_cast<const float*>(inputs[0])[i] + by_;
  }

 private:
  const runtime::HostCall call_;
  std::int64_t count_ = 0;
  float by_ = 0;
};

std::unique_ptr<runtime::HostOp> host(const runtime::HostCall& call) {
  return call.op == "test.twist.default" ? std::make_unique<Twist>(call) : nullptr;
}

TEST(HostCall, PrintsAndIsVerified) {
  const wrapper::Program p = one_call(std::make_shared<sym::ShapeEnv>());
  wrapper::verify(p);
  EXPECT_NE(
      wrapper::to_string(p).find("fallback [None, buf1] = test.twist.default(%0, s0 + 1, mode=\"wide\") where %0 = x"),
      std::string::npos)
      << wrapper::to_string(p);
}

TEST(HostCall, RunsForEachSizeAndThroughTheFileForm) {
  runtime::Plan plan = wrapper::make_plan(one_call(std::make_shared<sym::ShapeEnv>()));
  plan = runtime::plan_from_json(runtime::plan_to_json(plan));
  runtime::Context context(runtime::Model::load({.plan = plan}, host));
  for (std::int64_t rows : {3, 1, 5}) {
    Tensor x = Tensor::empty(DType::F32, {rows, 2});
    for (std::int64_t i = 0; i < 2 * rows; ++i) x.data<float>()[i] = static_cast<float>(i);
    const auto result = context.run({&x, 1});
    for (std::int64_t i = 0; i < 2 * rows; ++i)
      EXPECT_EQ(result.outputs[0].data<float>()[i], static_cast<float>(i + rows + 1));
  }
}

TEST(HostCall, IsRefusedAtLoadWhereTheHostHasNone) {
  const runtime::Plan plan = wrapper::make_plan(one_call(std::make_shared<sym::ShapeEnv>()));
  EXPECT_NE(error_of([&] { runtime::Model::load({.plan = plan}); }).find("test.twist.default"), std::string::npos);
}

TEST(HostCall, IsBoundToWhatTheProcessRegistered) {
  runtime::Plan plan = wrapper::make_plan(one_call(std::make_shared<sym::ShapeEnv>()));
  auto& call = std::get<runtime::HostCall>(plan.steps[0]);
  call.op = "test.turn.default";
  call.schema = "test::turn(Tensor x, SymInt by, *, str mode='wide') -> (Tensor, Tensor)";
  const auto load = [&] {
    return runtime::Model::load({.plan = runtime::plan_from_json(runtime::plan_to_json(plan))});
  };
  EXPECT_NE(error_of([&] { load(); }).find("leaves test.turn.default (`test::turn("), std::string::npos);
  static std::string seen;
  const auto turn = [](const coil_value* a, size_t count, const coil_tensor* out, size_t outs, void* user) {
    seen = fmt::format("{} {} {} {} {}", count, a[1].integer, a[2].text, outs, out[0].data == nullptr);
    if (user) return coil_set_error("it will not turn"), 1;
    for (std::int64_t i = 0; i < 2 * out[1].sizes[0]; ++i)
      static_cast<float*>(out[1].data)[i] = -static_cast<float*>(a[0].tensor->data)[i];
    return 0;
  };
  ASSERT_EQ(
      coil_operator_register("test::turn(Tensor x, int by, *, str mode=\"wide\") -> (Tensor, Tensor)", turn, nullptr),
      0)
      << coil_last_error();
  EXPECT_EQ(coil_operator_register("test::turn(Tensor x) -> Tensor", turn, nullptr), 1);
  EXPECT_STREQ(coil_last_error(), "operator test.turn.default is registered already");
  runtime::Context context(load());
  const Tensor x = Tensor::empty(DType::F32, {2, 2});
  std::fill_n(x.data<float>(), 4, 3.f);
  EXPECT_EQ(context.run({&x, 1}).outputs[0].data<float>()[3], -3.f);
  EXPECT_EQ(seen, "3 3 wide 2 true");
  call.schema = "test::turn(Tensor x, int by) -> Tensor";
  EXPECT_NE(error_of([&] { load(); }).find("test.turn.default is registered as `"), std::string::npos);

  int failing = 1;
  ASSERT_EQ(coil_operator_register("test::stay(Tensor x, int by, *, str mode) -> (Tensor, Tensor)", turn, &failing), 0);
  call.op = "test.stay.default", call.schema = "";
  runtime::Context refused(load());
  EXPECT_EQ(error_of([&] { refused.run({&x, 1}); }), "test.stay.default: it will not turn");

  const coil_operator* op = coil_operator_find("test.turn.default", nullptr);
  ASSERT_NE(op, nullptr);
  float two[2] = {1, 2}, back[2] = {};
  const coil_tensor in{two, COIL_F32, 2, 0, {1, 2}, {2, 1}, nullptr},
      out[2] = {{}, {back, COIL_F32, 2, 0, {1, 2}, {2, 1}, nullptr}};
  const coil_value values[] = {{COIL_VALUE_TENSOR, 0, 0, nullptr, &in, nullptr, 0},
                               {COIL_VALUE_INT, 4, 0, nullptr, nullptr, nullptr, 0},
                               {COIL_VALUE_TEXT, 0, 0, "narrow", nullptr, nullptr, 0}};
  ASSERT_EQ(coil_operator_call(op, values, 3, out, 2), 0) << coil_last_error();
  EXPECT_EQ(back[1], -2.f);
  EXPECT_EQ(coil_operator_find("test.absent.default", "test::absent() -> ()"), nullptr);
  EXPECT_NE(std::string(coil_last_error()).find("test.absent.default (test::absent() -> ())"), std::string::npos);
}

TEST(HostCall, OperatorsOfALibrary) {
  Library library("shop");
  const auto like_first = [](const ops::Call& c) -> ops::Value {
    return sym::contiguous(c.tensor(0).dtype, {}, c.tensor(0).sizes);
  };
  const auto triple = [](std::span<const runtime::OperatorArgument> arguments, std::span<const Tensor> outputs) {
    const Tensor& x = std::get<Tensor>(arguments[0]);
    for (std::int64_t i = 0; i < x.numel(); ++i)
      outputs[0].data<float>()[i] = 3 * x.data<float>()[i] + static_cast<float>(std::get<double>(arguments[1]));
  };
  library.define("triple(Tensor x, float plus=0.5) -> Tensor", {.shape = like_first, .implementation = triple});
  library.define(
      "shop::twice(Tensor x) -> Tensor",
      {.shape = like_first, .decomposition = [](passes::Rewriter& r) -> ops::Value { return r.add(r["x"], r["x"]); }});
  frontend::GraphBuilder b;
  const sym::Expr rows = b.size("s0", 3);
  fx::Node* x = b.input("x", DType::F32, {rows, 2});
  frontend::ExportedProgram program;
  program.module = b.build({b.op("shop.twice.default", {b.op("shop.triple.default", {x})})});
  const Compiled compiled = compile_program(std::move(program), {});
  const auto path = std::filesystem::temp_directory_path() / fmt::format("coil_library_{}.coil", ::getpid());
  runtime::save_package(*compiled.program, path);
  runtime::Context context(runtime::Model::load_package(path));
  std::filesystem::remove(path);
  for (std::int64_t n : {3, 5}) {
    const Tensor given = Tensor::empty(DType::F32, {n, 2});
    std::fill_n(given.data<float>(), 2 * n, 2.f);
    const Tensor got = context.run({&given, 1}).outputs[0];
    EXPECT_EQ(got.sizes, (Sizes{n, 2}));
    EXPECT_EQ(got.data<float>()[2 * n - 1], 13.f);
  }
  EXPECT_NE(error_of([&] { library.define("part(Tensor(a) x) -> Tensor(a)"); }).find("returns views of its arguments"),
            std::string::npos);
  EXPECT_NE(error_of([&] { library.define("twice(Tensor x) -> Tensor"); }).find("already defined"), std::string::npos);
  EXPECT_NE(error_of([&] { library.define("broken(Tensor x"); }).find("expected `)`"), std::string::npos);
  EXPECT_NE(error_of([] { Library("aten"); }).find("torch's own"), std::string::npos);
}

/// The positive elements of x, doubled: compiled with an operator of the given results.
Compiled positives_of(const std::string& name, runtime::ResultsFunction results) {
  Library library("market");
  const auto unknown_length = [](const ops::Call& c) -> ops::Value {
    return sym::contiguous(c.tensor(0).dtype, {}, {c.env.fresh_unbacked()});
  };
  library.define(name + "(Tensor x, float above=0.0) -> Tensor",
                 {.shape = unknown_length, .results = std::move(results)});
  frontend::GraphBuilder b;
  fx::Node* found = b.op("market." + name + ".default", {b.input("x", DType::F32, {b.size("s0", 3)})});
  frontend::ExportedProgram program;
  program.module = b.build({b.op("aten.add.Tensor", {found, found})});
  return compile_program(std::move(program), {});
}

std::vector<float> results_of(runtime::Context& context, const std::vector<float>& x) {
  const Tensor given = Tensor::empty(DType::F32, {static_cast<std::int64_t>(x.size())});
  std::copy(x.begin(), x.end(), given.data<float>());
  const Tensor got = context.run({&given, 1}).outputs[0];
  return {got.data<float>(), got.data<float>() + got.numel()};
}

TEST(HostCall, OperatorsOfALibraryThatTellTheSizesOfTheirResults) {
  const auto positive = [](std::span<const runtime::OperatorArgument> arguments) {
    const Tensor& x = std::get<Tensor>(arguments[0]);
    std::vector<float> kept;
    for (std::int64_t i = 0; i < x.numel(); ++i)
      if (x.data<float>()[i] > std::get<double>(arguments[1])) kept.push_back(x.data<float>()[i]);
    // In any layout: every second element of more memory.
    Tensor y = Tensor::empty(DType::F32, {static_cast<std::int64_t>(kept.size()), 1});
    y.storage = Tensor::empty(DType::F32, {2 * y.sizes[0] + 1}).storage;
    y.sizes = {y.sizes[0]}, y.strides = {2};
    for (std::size_t i = 0; i < kept.size(); ++i) y.data<float>()[2 * i] = kept[i];
    return std::vector<Tensor>{y};
  };
  const Compiled compiled = positives_of("positive", positive);
  const auto path = std::filesystem::temp_directory_path() / fmt::format("coil_results_{}.coil", ::getpid());
  runtime::save_package(*compiled.program, path);
  runtime::Context context(runtime::Model::load_package(path));
  std::filesystem::remove(path);
  EXPECT_EQ(results_of(context, {1, -2, 3}), (std::vector<float>{2, 6}));
  EXPECT_EQ(results_of(context, {-1, -2, -3, -4}), (std::vector<float>{}));
  EXPECT_EQ(results_of(context, {1, 2, 3, 4, 5}), (std::vector<float>{2, 4, 6, 8, 10}));
}

TEST(HostCall, ResultsThatAreNotWhatWasPromised) {
  const auto said = [](const std::string& name, runtime::ResultsFunction results) {
    const Compiled compiled = positives_of(name, std::move(results));
    runtime::Context context(runtime::Model::load(*compiled.program));
    const std::string first = error_of([&] { results_of(context, {1, 2, 3}); });
    // And it is as good for the next run as before.
    EXPECT_EQ(error_of([&] { results_of(context, {1, 2, 3}); }), first);
    return first;
  };
  EXPECT_TRUE(has(said("none", [](auto) { return std::vector<Tensor>{}; }),
                  "market.none.default gave 0 results where 1 were expected"));
  EXPECT_TRUE(has(said("two", [](auto) { return std::vector<Tensor>(2, Tensor::empty(DType::F32, {1})); }),
                  "market.two.default gave 2 results where 1 were expected"));
  EXPECT_TRUE(has(said("wide", [](auto) { return std::vector<Tensor>{Tensor::empty(DType::F64, {2})}; }),
                  "market.wide.default"));
  EXPECT_TRUE(has(said("deep", [](auto) { return std::vector<Tensor>{Tensor::empty(DType::F32, {2, 2})}; }),
                  "market.deep.default"));
  EXPECT_TRUE(has(said("rude", [](auto) -> std::vector<Tensor> { fail("not today"); }), "not today"));
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
  EXPECT_NE(error_of([&] { lowering::lower(*module); }).find("test.unknown.default has no lowering"),
            std::string::npos);
  const std::string text = ir::to_string(*lowering::lower(*module, {.fallback = true}));
  EXPECT_NE(text.find("fallback test.unknown.default(%0, [1, 2.5], None)"), std::string::npos) << text;
}

}  // namespace
}  // namespace coil
