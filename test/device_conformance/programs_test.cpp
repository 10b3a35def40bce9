// Programs on a device: every form of kernel on small shapes, library calls, states, failures, contexts and threads.
// The oracle is the same program on the CPU, operator by operator.
#include <thread>

#include "compiler/pipeline.h"
#include "error_of.h"
#include "frontend/graph_builder.h"
#include "place.h"

namespace coil::conformance {
namespace {

using frontend::GraphBuilder;
using ops::Values;

/// A program and inputs for it.
struct Case {
  std::string name;
  std::vector<Sizes> sizes;  ///< of its inputs x0, x1, …
  std::vector<DType> types;
  std::function<fx::Node*(GraphBuilder&, const std::vector<fx::Node*>&)> build;
};

ops::Value integers(std::initializer_list<int> list) {
  Values out;
  for (int i : list) out.emplace_back(i);
  return out;
}

const std::vector<Case>& cases() {
  using B = GraphBuilder;
  using In = const std::vector<fx::Node*>&;
  constexpr DType F = DType::F32, I = DType::I64;
  static const std::vector<Case> all = {
      {"points",
       {{4, 5}, {5}},
       {F, F},
       [](B& b, In x) {
         return b.op("aten.exp.default", {b.op("aten.mul.Tensor", {b.op("aten.add.Tensor", {x[0], x[1]}), x[0]})});
       }},
      {"integers",
       {{7}, {7}},
       {I, I},
       [](B& b, In x) { return b.op("aten.sub.Tensor", {b.op("aten.mul.Tensor", {x[0], x[1]}), x[0]}); }},
      {"choices",
       {{3, 4}, {3, 4}},
       {F, F},
       [](B& b, In x) {
         return b.op("aten.where.self", {b.op("aten.gt.Tensor", {x[0], x[1]}), x[0], b.op("aten.neg.default", {x[1]})});
       }},
      {"transposed",
       {{33, 17}, {17, 33}},
       {F, F},
       [](B& b, In x) {
         return b.op("aten.add.Tensor", {b.op("aten.permute.default", {x[0], integers({1, 0})}), x[1]});
       }},
      {"rows", {{6, 37}}, {F}, [](B& b, In x) { return b.op("aten.sum.dim_IntList", {x[0], integers({1})}); }},
      {"columns", {{37, 6}}, {F}, [](B& b, In x) { return b.op("aten.amax.default", {x[0], integers({0})}); }},
      {"whole", {{5, 7, 3}}, {F}, [](B& b, In x) { return b.op("aten.mean.default", {x[0]}); }},
      {"places of extremes", {{5, 19}}, {F}, [](B& b, In x) { return b.op("aten.argmax.default", {x[0], 1}); }},
      {"softmax", {{5, 40}}, {F}, [](B& b, In x) { return b.op("aten._softmax.default", {x[0], 1, false}); }},
      {"layer norm",
       {{4, 24}, {24}, {24}},
       {F, F, F},
       [](B& b, In x) {
         return b.item(b.op("aten.native_layer_norm.default", {x[0], integers({24}), x[1], x[2], 1e-5}), 0);
       }},
      {"scan", {{3, 50}}, {F}, [](B& b, In x) { return b.op("aten.cumsum.default", {x[0], 1}); }},
      {"gather", {{5, 3}, {7}}, {F, I}, [](B& b, In x) { return b.op("aten.index_select.default", {x[0], 0, x[1]}); }},
      {"scatter",
       {{5, 3}, {7}, {7, 3}},
       {F, I, F},
       [](B& b, In x) { return b.op("aten.index_add.default", {x[0], 0, x[1], x[2]}); }},
      {"joined",
       {{2, 3}, {2, 5}},
       {F, F},
       [](B& b, In x) { return b.op("aten.cat.default", {Values{x[0], x[1]}, 1}); }},
      {"windows",
       {{1, 2, 8, 8}},
       {F},
       [](B& b, In x) { return b.op("aten.avg_pool2d.default", {x[0], integers({2, 2}), integers({2, 2})}); }},
      {"product",
       {{5, 7}, {7, 3}},
       {F, F},
       [](B& b, In x) { return b.op("aten.relu.default", {b.op("aten.mm.default", {x[0], x[1]})}); }},
      {"batched product",
       {{2, 5, 7}, {2, 7, 3}},
       {F, F},
       [](B& b, In x) { return b.op("aten.bmm.default", {x[0], x[1]}); }},
      {"linear",
       {{2, 5, 7}, {3, 7}, {3}},
       {F, F, F},
       [](B& b, In x) { return b.op("aten.linear.default", {x[0], x[1], x[2]}); }},
      {"sorted", {{4, 9}}, {F}, [](B& b, In x) { return b.item(b.op("aten.sort.default", {x[0], 1}), 0); }},
      {"left to the host", {{4, 4}}, {F}, [](B& b, In x) { return b.op("aten.linalg_inv_ex.default", {x[0]}); }},
      {"nothing", {{0, 4}}, {F}, [](B& b, In x) { return b.op("aten.exp.default", {x[0]}); }},
  };
  return all;
}

frontend::ExportedProgram program_of(const Case& c) {
  GraphBuilder b;
  std::vector<fx::Node*> inputs;
  for (std::size_t i = 0; i < c.sizes.size(); ++i)
    inputs.push_back(b.input(fmt::format("x{}", i), c.types[i], sym::Exprs(c.sizes[i].begin(), c.sizes[i].end())));
  fx::Node* result = c.build(b, inputs);
  if (result->meta.value.is<Values>()) result = b.item(result, 0);
  frontend::ExportedProgram program;
  program.module = b.build({result});
  return program;
}

std::vector<Tensor> inputs_of(const Case& c) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.sizes.size(); ++i)
    inputs.push_back(random_on_host(c.types[i], c.sizes[i], static_cast<unsigned>(i)));
  return inputs;
}

std::shared_ptr<const runtime::Model> model_of(const Case& c, const std::string& device,
                                               std::map<std::string, std::string> settings) {
  Compiled compiled = compile_program(program_of(c), {.device = device, .settings = std::move(settings), .threads = 2});
  return runtime::Model::load(std::move(*compiled.program));
}

std::shared_ptr<const runtime::Model> model_on(const Place& place, const Case& c) {
  return model_of(c, to_string(place.device), place.settings);
}

Tensor run(runtime::Context& context, const std::vector<Tensor>& inputs) {
  return context.to_host(context.run(inputs).outputs.at(0));
}

Tensor expected_of(const Case& c) {
  runtime::Context context(model_of(c, "cpu", {{"fuse", "false"}, {"fuse_epilogues", "false"}}));
  return run(context, inputs_of(c));
}

const Case& named(std::string_view name) {
  for (const Case& c : cases())
    if (c.name == name) return c;
  fail("there is no case {}", name);
}

class DevicePrograms : public DeviceTest {
 protected:
  void SetUp() override {
    if (!place().compiles) GTEST_SKIP() << "nothing compiles for " << place().name;
  }
};

/// What a device has no kernels for it may refuse, by its own name.
TEST_P(DevicePrograms, EveryFormOfKernelGivesWhatTheCpuGives) {
  std::size_t refused = 0;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::shared_ptr<const runtime::Model> model;
    try {
      model = model_on(place(), c);
    } catch (const Error& e) {
      EXPECT_TRUE(has(e.what(), place().device.type.name()));
      ++refused;
      continue;
    }
    runtime::Context context(model);
    for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(close(run(context, inputs_of(c)), expected_of(c)));
  }
  EXPECT_LE(refused, 3u) << "of " << cases().size();
}

TEST_P(DevicePrograms, FreeSizesAreBoundAnew) {
  GraphBuilder b;
  const sym::Expr rows = b.size("s0", 3);
  fx::Node* x = b.input("x", DType::F32, {rows, 4});
  frontend::ExportedProgram program;
  program.module = b.build({b.op("aten.sum.dim_IntList", {b.op("aten.mul.Tensor", {x, x}), integers({1})})});
  Compiled compiled =
      compile_program(std::move(program), {.device = to_string(place().device), .settings = place().settings});
  runtime::Context context(runtime::Model::load(std::move(*compiled.program)));
  for (const std::int64_t n : {3, 1, 1000, 0, 3}) {
    const Tensor x = random_on_host(DType::F32, {n, 4}, 9), got = run(context, {x});
    Tensor expected = Tensor::empty(DType::F32, {n});
    for (std::int64_t i = 0; i < 4 * n; ++i) expected.data<float>()[i / 4] += x.data<float>()[i] * x.data<float>()[i];
    EXPECT_TRUE(close(got, expected)) << n;
  }
}

TEST_P(DevicePrograms, InputsMayLieOnTheDeviceInAnyLayout) {
  const Case& c = named("points");
  runtime::Context context(model_on(place(), c));
  const auto queue = make_queue();
  std::vector<Tensor> there;
  {
    const runtime::QueueScope scope(*queue);
    for (const Tensor& t : inputs_of(c)) {
      Sizes strides;
      std::int64_t span = 1;
      for (const std::int64_t size : t.sizes) strides.push_back(span), span *= size;  // the first dimension innermost
      there.push_back(empty_on(*queue, t.dtype, t.sizes, strides, span));
      queue->copy(there.back(), t);
    }
    queue->wait();
  }
  EXPECT_TRUE(close(run(context, there), expected_of(c)));
}

TEST_P(DevicePrograms, AnIndexOutOfRangeFailsThatRunAlone) {
  const Case& c = named("gather");
  runtime::Context context(model_on(place(), c));
  std::vector<Tensor> inputs = inputs_of(c);
  inputs[1].data<std::int64_t>()[3] = 5;
  EXPECT_TRUE(has(error_of([&] {
                    context.run(inputs);
                    context.wait();
                  }),
                  "an index read from a tensor is out of range"));
  EXPECT_TRUE(close(run(context, inputs_of(c)), expected_of(c)));
}

TEST_P(DevicePrograms, TwoContextsOfOneModelTakeTurns) {
  const Case& c = named("softmax");
  const auto model = model_on(place(), c);
  runtime::Context one(model), two(model);
  const Tensor expected = expected_of(c);
  for (int turn = 0; turn < 5; ++turn)
    for (runtime::Context* context : {&one, &two}) EXPECT_TRUE(close(run(*context, inputs_of(c)), expected));
}

TEST_P(DevicePrograms, TwoThreadsHaveAContextEach) {
  const Case& c = named("layer norm");
  const auto model = model_on(place(), c);
  const Tensor expected = expected_of(c);
  bool good[2] = {true, true};
  auto work = [&](bool* all) {
    runtime::Context context(model);
    for (int turn = 0; turn < 30; ++turn) *all = *all && close(run(context, inputs_of(c)), expected);
  };
  std::thread first([&] { work(&good[0]); }), second([&] { work(&good[1]); });
  first.join();
  second.join();
  EXPECT_TRUE(good[0] && good[1]);
}

TEST_P(DevicePrograms, ResultsOutliveTheirContextAndModel) {
  const Case& c = named("points");
  Tensor result;
  {
    runtime::Context context(model_on(place(), c));
    result = context.run(inputs_of(c)).outputs.at(0);
    context.wait();
  }
  const auto queue = make_queue();
  const runtime::QueueScope scope(*queue);
  EXPECT_TRUE(close(to_host(*queue, result), expected_of(c)));
}

INSTANTIATE_TEST_SUITE_P(On, DevicePrograms, testing::ValuesIn(places()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace coil::conformance
