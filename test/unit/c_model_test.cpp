#include <unistd.h>

#include <cstdlib>

#include "coil/runtime.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

struct CModel : testing::Test {
  std::filesystem::path path = std::filesystem::temp_directory_path() / fmt::format("coil_c_model_{}.coil", ::getpid());
  coil_model* model = nullptr;
  coil_context* context = nullptr;
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  coil_tensor input{data, COIL_F32, 2, {2, 4}, {4, 1}, nullptr}, output{};

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
  auto allocate = [](std::size_t bytes, void*) -> void* { return ++taken, std::aligned_alloc(64, (bytes + 63) / 64 * 64); };
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

TEST_F(CModel, ContextsOutliveTheirModel) {
  coil_model_free(model);
  model = nullptr;
  ASSERT_EQ(coil_context_run(context, &input, 1, &output, 1), 0);
  coil_tensor_release(&output);
}

}  // namespace
}  // namespace coil::runtime
