// One loaded package used through the C interface by several threads at once, each with a context of its own.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "at_once.h"
#include "coil/runtime.h"
#include "runtime/plan/package.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

constexpr int kThreads = 4, kRuns = 100;

/// y = x + w over f32[4].
StoredProgram sum_with_weight() {
  PlanBuilder b;
  const Slot four = b.constant(4), one = b.constant(1), zero = b.constant(0), bytes = b.constant(16);
  b.plan.inputs.push_back({"x", DType::F32, {four}, {one}});
  b.plan.constants.push_back({"w", DType::F32, {4}, {1}, 16, 0, false});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId w = b.buffer({.kind = BufferKind::Constant, .index = 0, .name = "w"});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes});
  b.plan.steps.push_back(KernelCall{b.kernel("add"), {x, w, y}, {}, four, four});
  b.output("y", {y, DType::F32, {four}, {one}, zero});
  static const std::vector<std::byte> kernels = compile_kernels(kTestKernels);
  return {std::move(b.plan), {tensor_of({1, 1, 1, 1}, {4})}, {kernels}, kTestKernels};
}

struct CThreads : testing::Test {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("coil_c_threads_{}.coil", ::getpid());

  coil_model* load(const StoredProgram& program) {
    save_package(program, path);
    coil_model* model = coil_model_load(path.c_str());
    EXPECT_TRUE(model) << coil_last_error();
    return model;
  }
  void TearDown() override { std::filesystem::remove(path); }

  static void at_once(const std::function<int(int)>& work) { test::at_once(kThreads, work); }
};

/// A call on `rows` rows of `value`; whether every element came out five times as large.
bool run_once(coil_context* context, std::int64_t rows, float value, void (*take_back)(coil_tensor*)) {
  std::vector<float> data(static_cast<std::size_t>(rows) * 4, value);
  coil_tensor input{data.data(), COIL_F32, 2, 0, {rows, 4}, {4, 1}, nullptr}, output{};
  if (coil_context_run(context, &input, 1, &output, 1) != 0) return false;
  bool right = output.sizes[0] == rows;
  for (std::int64_t i = 0; i < 4 * rows; ++i) right = right && static_cast<float*>(output.data)[i] == 5 * value;
  take_back(&output);
  return right;
}

TEST_F(CThreads, RunAtOnce) {
  coil_model* model = load(scaled_sum());
  at_once([&](int t) {
    int wrong = 0;
    coil_context* context = coil_context_create(model);
    for (int i = 0; i < kRuns; ++i)
      wrong += !run_once(context, 1 + (i * (t + 1)) % 8, static_cast<float>(i + 1000 * t), coil_tensor_release);
    coil_context_free(context);
    return wrong;
  });
  coil_model_free(model);
}

TEST_F(CThreads, FailAtOnceEachWithItsOwnMessage) {
  coil_model* model = load(scaled_sum());
  at_once([&](int t) {
    int wrong = 0;
    coil_context* context = coil_context_create(model);
    const std::string expected[] = {"the program takes 4 (f32[2, 5] was given)", "the program takes float32",
                                    "takes 1 inputs (x), but 0 were given", "a tensor has no memory"};
    for (int i = 0; i < kRuns; ++i) {
      float data[10] = {};
      coil_tensor input{
          t == 3 ? nullptr : data, t == 1 ? COIL_F64 : COIL_F32, 2, 0, {2, t == 0 ? 5 : 4}, {4, 1}, nullptr},
          output{};
      const int failed = coil_context_run(context, &input, t == 2 ? 0 : 1, &output, 1);
      wrong += failed != 1 || output.data || std::string(coil_last_error()).find(expected[t]) == std::string::npos;
      wrong += !run_once(context, 2, 1, coil_tensor_release);  // and goes on
    }
    coil_context_free(context);
    return wrong;
  });
  coil_model_free(model);
}

struct Memory {
  int taken = 0, returned = 0;
};

TEST_F(CThreads, AllocateByThemselves) {
  coil_model* model = load(scaled_sum());
  at_once([&](int t) {
    Memory memory;
    int wrong = 0;
    coil_context* context = coil_context_create(model);
    auto allocate = [](std::size_t bytes, void* user) {
      return ++static_cast<Memory*>(user)->taken, std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    };
    auto release = [](void* p, void* user) { ++static_cast<Memory*>(user)->returned, std::free(p); };
    wrong += coil_context_set_allocator(context, allocate, release, &memory);
    for (int i = 0; i < kRuns; ++i)
      wrong += !run_once(context, 1 + i % 8, static_cast<float>(t), [](coil_tensor* out) { std::free(out->data); });
    wrong += memory.taken != kRuns || memory.returned != 0;
    // A failing allocator fails the run, and the next one does again.
    wrong += coil_context_set_allocator(context, [](std::size_t, void*) -> void* { return nullptr; }, release, &memory);
    for (int i = 0; i < 2; ++i)
      wrong += run_once(context, 3, 1, coil_tensor_release) ||
               std::string(coil_last_error()).find("out of memory") == std::string::npos;
    coil_context_free(context);
    return wrong;
  });
  coil_model_free(model);
}

TEST_F(CThreads, SwapWeightsWhileOthersRun) {
  coil_model* first = load(sum_with_weight());
  at_once([&](int t) {
    int wrong = 0;
    auto check = [&](coil_model* model, float weight) {
      coil_context* context = coil_context_create(model);
      float x[4] = {1, 2, 3, 4};
      coil_tensor input{x, COIL_F32, 1, 0, {4}, {1}, nullptr}, output{};
      wrong += coil_context_run(context, &input, 1, &output, 1);
      for (int i = 0; i < 4 && output.data; ++i)
        wrong += static_cast<float*>(output.data)[i] != static_cast<float>(i + 1) + weight;
      coil_tensor_release(&output);
      coil_context_free(context);
    };
    for (int i = 0; i < kRuns; ++i) {
      float w[4];
      std::fill(w, w + 4, static_cast<float>(10 * i + t));
      const char* name = "w";
      coil_tensor value{w, COIL_F32, 1, 0, {4}, {1}, nullptr};
      coil_model* second = coil_model_with_weights(first, &name, &value, 1);
      std::fill(w, w + 4, -1.f);  // it has a copy
      if (!second) return wrong + 1;
      check(second, static_cast<float>(10 * i + t));
      check(first, 1);
      coil_model_free(second);
    }
    return wrong;
  });
  coil_model_free(first);
}

TEST_F(CThreads, LoadAndTellWhileTheListenerChanges) {
  save_package(scaled_sum(), path);
  static std::atomic<int> lines;
  lines = 0;
  auto count = [](int, const char* message, void* user) {
    if (std::strlen(message) > 0 && user == &lines) ++lines;
  };
  at_once([&](int t) {
    int wrong = 0;
    for (int i = 0; i < kRuns / 5; ++i) {
      if (t == 0 && i % 4 != 3) coil_set_log(count, &lines);
      if (t == 0 && i % 4 == 3) coil_set_log(nullptr, nullptr);
      coil_model* model = coil_model_load(path.c_str());
      coil_context* context = model ? coil_context_create(model) : nullptr;
      coil_model_free(model);  // the context keeps what it needs
      wrong += !context || !run_once(context, 1 + i % 8, 2, coil_tensor_release);
      coil_context_free(context);
    }
    return wrong;
  });
  coil_set_log(nullptr, nullptr);
  EXPECT_GT(lines, 0);
}

/// Addresses that are no multiple of the element's size are copied; the answer is right, and so is what is written.
TEST_F(CThreads, OddAddresses) {
  coil_model* model = load(scaled_sum());
  at_once([&](int t) {
    int wrong = 0;
    coil_context* context = coil_context_create(model);
    for (int i = 0; i < kRuns; ++i) {
      std::vector<char> memory(4 * 4 * 2 + 8);
      float values[8];
      for (int k = 0; k < 8; ++k) values[k] = static_cast<float>(k + i + t);
      char* odd = memory.data() + 1 + (i + t) % 3;
      std::memcpy(odd, values, sizeof values);
      coil_tensor input{odd, COIL_F32, 2, 0, {2, 4}, {4, 1}, nullptr}, output{};
      wrong += coil_context_run(context, &input, 1, &output, 1);
      for (int k = 0; k < 8 && output.data; ++k) wrong += static_cast<float*>(output.data)[k] != 5 * values[k];
      coil_tensor_release(&output);
    }
    coil_context_free(context);
    return wrong;
  });
  coil_model_free(model);
}

}  // namespace
}  // namespace coil::runtime
