#include <unistd.h>

#include <cstdlib>
#include <set>

#include "coil/runtime.h"
#include "runtime/plan/package.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

struct CModel : testing::Test {
  std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("coil_c_model_{}.coil", ::getpid());
  coil_model* model = nullptr;
  coil_context* context = nullptr;
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  coil_tensor input{data, COIL_F32, 2, 0, {2, 4}, {4, 1}, nullptr}, output{};

  void SetUp() override {
    save_package(scaled_sum(), path);
    model = coil_model_load(path.c_str());
    ASSERT_TRUE(model) << coil_last_error();
    context = coil_context_create(model);
    ASSERT_TRUE(context);
  }
  void TearDown() override {
    coil_context_free(context);
    coil_model_free(model);
    std::filesystem::remove(path);
  }
};

TEST_F(CModel, TellsItsInputsAndOutputs) {
  std::size_t count = 0;
  const coil_port* in = coil_model_inputs(model, &count);
  ASSERT_EQ(count, 1u);
  EXPECT_STREQ(in->name, "x");
  EXPECT_EQ(in->dtype, COIL_F32);
  std::int64_t sizes[2] = {};
  EXPECT_EQ(coil_model_input_sizes(model, 0, sizes), 0);
  EXPECT_EQ(sizes[0], -1);
  EXPECT_EQ(sizes[1], 4);
  EXPECT_STREQ(coil_model_outputs(model, &count)->name, "y");
  EXPECT_EQ(coil_model_output_sizes(model, 0, sizes), 0);
  EXPECT_EQ(coil_model_output_sizes(model, 1, sizes), 1);
  EXPECT_STREQ(coil_last_error(), "the program has no output 1");
}

TEST_F(CModel, RunsAndOwnsItsOutputs) {
  coil_tensor second{};
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0) << coil_last_error();
  data[0] = 10;
  ASSERT_EQ(coil_context_run(context, &input, 1, &second, 1), 0);
  EXPECT_EQ(static_cast<float*>(output.data)[0], 5);
  EXPECT_EQ(static_cast<float*>(second.data)[0], 50);
  EXPECT_EQ(output.sizes[0], 2);
  EXPECT_EQ(coil_context_memory(context).output_bytes, 32u);
  coil_tensor_release(&output);
  coil_tensor_release(&second);
}

TEST_F(CModel, ReportsErrors) {
  input.sizes[1] = 5;
  EXPECT_EQ(coil_context_run(context, &input, 1, &output, 1), 1);
  EXPECT_STREQ(coil_last_error(), "input 'x' has size 5 in dimension 1, but the program takes 4 (f32[2, 5] was given)");
  input.sizes[1] = 4;
  EXPECT_EQ(coil_context_run(context, &input, 1, &output, 2), 1);
  EXPECT_STREQ(coil_last_error(), "the program gives 1 outputs, but there is room for 2");
  EXPECT_EQ(coil_model_load("/absent.coil"), nullptr);
  EXPECT_NE(std::string(coil_last_error()).find("/absent.coil"), std::string::npos);
}

TEST_F(CModel, TakesTheCallersMemory) {
  static int taken, returned;
  taken = returned = 0;
  auto allocate = [](std::size_t bytes, void*) -> void* {
    return ++taken, std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  };
  auto release = [](void* p, void*) { ++returned, std::free(p); };
  ASSERT_EQ(coil_context_set_allocator(context, allocate, release, nullptr), 0);
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0);
  EXPECT_EQ(output.owner, nullptr);
  EXPECT_EQ(static_cast<float*>(output.data)[1], 10);
  std::free(output.data);
  EXPECT_EQ(coil_context_run(context, &input, 1, &output, 2), 1);
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(coil_context_set_allocator(context, allocate, nullptr, nullptr), 1);
}

TEST_F(CModel, RefusesNothingWhereSomethingBelongs) {
  std::size_t count = 7;
  EXPECT_EQ(coil_model_inputs(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(coil_context_create(nullptr), nullptr);
  EXPECT_STREQ(coil_last_error(), "no model was given");
  EXPECT_EQ(coil_context_run(nullptr, &input, 1, &output, 1), 1);
  EXPECT_EQ(coil_context_run(context, nullptr, 1, &output, 1), 1);
  EXPECT_EQ(coil_context_run(context, &input, 1, nullptr, 1), 1);
  EXPECT_EQ(coil_context_run(context, &input, 0, &output, 1), 1);
  EXPECT_NE(std::string(coil_last_error()).find("takes 1 inputs (x), but 0 were given"), std::string::npos);
  input.data = nullptr;
  EXPECT_EQ(coil_context_run(context, &input, 1, &output, 1), 1);
  EXPECT_STREQ(coil_last_error(), "a tensor has no memory");
  EXPECT_EQ(coil_model_with_weights(nullptr, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(output.data, nullptr);
}

TEST_F(CModel, TellsItsListener) {
  std::vector<std::string> lines;
  coil_set_log(
      [](int level, const char* message, void* user) {
        static_cast<std::vector<std::string>*>(user)->push_back(fmt::format("{} {}", level, message));
      },
      &lines);
  coil_model* second = coil_model_load(path.c_str());
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0);
  coil_tensor_release(&output);
  coil_set_log(nullptr, nullptr);
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0);
  coil_tensor_release(&output);
  coil_model_free(second);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].rfind("1 loaded a program: 2 kernels, 3 steps, 0 bytes of weights, for cpu", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1].rfind("0 bound for (f32[2, 4]): ", 0), 0u) << lines[1];
}

/// y = x + w, w f32[4] among the constants, seen by a second constant of its last two elements; the sum of y and that
/// one twice is the second output's matter.
StoredProgram with_weights() {
  PlanBuilder b;
  const Slot four = b.constant(4), two = b.constant(2), one = b.constant(1), zero = b.constant(0),
             bytes = b.constant(16);
  b.plan.inputs.push_back({"x", DType::F32, {four}, {one}});
  b.plan.constants.push_back({"w", DType::F32, {4}, {1}, 16, 0, false});
  b.plan.constants.push_back({"tail", DType::F32, {2}, {1}, 8, 8, false});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId w = b.buffer({.kind = BufferKind::Constant, .index = 0, .name = "w"});
  const BufferId tail = b.buffer({.kind = BufferKind::Constant, .index = 1, .name = "tail"});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes});
  b.plan.steps.push_back(KernelCall{b.kernel("add"), {x, w, y}, {}, four, four});
  b.output("y", {y, DType::F32, {four}, {one}, zero});
  b.output("tail", {tail, DType::F32, {two}, {one}, zero});
  Tensor whole = tensor_of({1, 2, 3, 4}, {4}), part = whole;
  part.sizes = {2}, part.offset = 2;
  static const std::vector<std::byte> kernels = compile_kernels(kTestKernels);
  return {std::move(b.plan), {whole, part}, {kernels}, kTestKernels};
}

TEST(CModelWeights, AreSwappedInAModelOfTheirOwn) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("coil_c_weights_{}.coil", ::getpid());
  save_package(with_weights(), path);
  coil_model* first = coil_model_load(path.c_str());
  std::filesystem::remove(path);
  ASSERT_TRUE(first) << coil_last_error();
  std::size_t count = 0;
  const coil_port* weights = coil_model_weights(first, &count);
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(weights[0].name, "w");
  std::int64_t size = 0;
  EXPECT_EQ(coil_model_weight_sizes(first, 0, &size), 0);
  EXPECT_EQ(size, 4);

  float spread[8] = {10, 0, 20, 0, 30, 0, 40, 0}, x[4] = {};
  const char* name = "w";
  coil_tensor value{spread, COIL_F32, 1, 0, {4}, {2}, nullptr}, input{x, COIL_F32, 1, 0, {4}, {1}, nullptr},
      output[2] = {};
  coil_model* second = coil_model_with_weights(first, &name, &value, 1);
  ASSERT_TRUE(second) << coil_last_error();
  for (auto [model, factor] : {std::pair{second, 10.f}, {first, 1.f}}) {
    coil_context* context = coil_context_create(model);
    ASSERT_EQ(coil_context_run(context, &input, 1, output, 2), 0) << coil_last_error();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(static_cast<float*>(output[0].data)[i], factor * static_cast<float>(i + 1));
    EXPECT_EQ(static_cast<float*>(output[1].data)[0], factor * 3);  // shares memory with w
    coil_tensor_release(&output[0]), coil_tensor_release(&output[1]);
    coil_context_free(context);
  }
  value.sizes[0] = 3;
  EXPECT_EQ(coil_model_with_weights(first, &name, &value, 1), nullptr);
  EXPECT_STREQ(coil_last_error(), "weight 'w' is float32[4], but float32[3] was given");
  name = "v";
  EXPECT_EQ(coil_model_with_weights(first, &name, &value, 1), nullptr);
  EXPECT_STREQ(coil_last_error(), "the program has no weight 'v'");
  coil_model_free(first);
  coil_model_free(second);
}

/// A program whose output is the seed that its random operators would draw from.
StoredProgram seed_of_a_run() {
  PlanBuilder b;
  const Slot one = b.constant(1), zero = b.constant(0);
  b.plan.constants.push_back({"random.seed", DType::I64, {1}, {1}, 8, 0, true, true});
  b.plan.constants.push_back({"w", DType::I64, {1}, {1}, 8, 0, false, false});
  const BufferId seed = b.buffer({BufferKind::Constant, 0, "random.seed"});
  b.output("seed", {seed, DType::I64, {one}, {one}, zero});
  StoredProgram program;
  program.plan = std::move(b.plan);
  for (int i = 0; i < 2; ++i) program.constants.push_back(Tensor::empty(DType::I64, {1}));
  *program.constants[0].data<std::int64_t>() = *program.constants[1].data<std::int64_t>() = 0;
  return program;
}

TEST(CModelSeed, IsNewInEachRunAndFollowsFromANumber) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("coil_c_seed_{}.coil", ::getpid());
  save_package(seed_of_a_run(), path);
  coil_model* model = coil_model_load(path.c_str());
  ASSERT_TRUE(model) << coil_last_error();
  coil_context* contexts[] = {coil_context_create(model), coil_context_create(model)};
  auto draw = [&](int which) {
    coil_tensor out{};
    EXPECT_EQ(coil_context_run(contexts[which], nullptr, 0, &out, 1), 0) << coil_last_error();
    const std::int64_t seed = *static_cast<std::int64_t*>(out.data);
    coil_tensor_release(&out);
    return seed;
  };
  std::vector<std::int64_t> drawn;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(coil_model_seed(model, 7), 0);
    for (int which : {0, 1, 0}) drawn.push_back(draw(which));
  }
  EXPECT_EQ(std::set<std::int64_t>(drawn.begin(), drawn.end()).size(), 3u) << "one sequence for all contexts";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(drawn[i], drawn[i + 3]);
  std::size_t weights = 0;
  EXPECT_STREQ(coil_model_weights(model, &weights)->name, "w");
  EXPECT_EQ(weights, 1u) << "the seed is no weight";
  EXPECT_EQ(coil_model_seed(nullptr, 7), 1);
  for (coil_context* c : contexts) coil_context_free(c);
  coil_model_free(model);
  std::filesystem::remove(path);
}

TEST_F(CModel, ContextsOutliveTheirModel) {
  coil_model_free(model);
  model = nullptr;
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0);
  coil_tensor_release(&output);
}

}  // namespace
}  // namespace coil::runtime
