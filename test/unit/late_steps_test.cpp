// Plans with numbers that steps give: sizes read from memory, loops, branches.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "coil/runtime.h"
#include "error_of.h"
#include "runtime/plan/package.h"
#include "runtime/plan/plan_check.h"
#include "runtime/plan/plan_json.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

constexpr const char* kKernels = R"(
#include <cstdint>
// b[1] = how many of b[0][s[0]] are positive
extern "C" void count(void* const* b, const int64_t* s, int64_t, int64_t) {
  int64_t n = 0;
  for (int64_t i = 0; i < s[0]; ++i) n += ((const float*)b[0])[i] > 0;
  *(int64_t*)b[1] = n;
}
extern "C" void fill(void* const* b, const int64_t* s, int64_t begin, int64_t end) {  // b[0] = s[0]
  for (int64_t i = begin; i < end; ++i) ((float*)b[0])[i] = (float)s[0];
}
extern "C" void take(void* const* b, const int64_t* s, int64_t, int64_t) {  // b[1][0] += sum of b[0][s[0]]
  for (int64_t i = 0; i < s[0]; ++i) ((float*)b[1])[0] += ((const float*)b[0])[i];
}
)";

/// In each of `turns` turns: n = count of positive x; t = n values of the turn's number; total += sum of t. Returns t's
/// like, n values of 7, and the total.
StoredProgram counted(std::int64_t turns) {
  PlanBuilder b;
  const Slot size = b.add(ShapeOp::InputSize, 0, 0), one = b.constant(1), zero = b.constant(0), four = b.constant(4),
             eight = b.constant(8), seven = b.constant(7);
  const Slot end = b.constant(turns), turn = b.add(ShapeOp::RunTime, 0), n = b.add(ShapeOp::RunTime, 1),
             bytes = b.add(ShapeOp::Mul, n, four);
  const Slot last = b.add(ShapeOp::RunTime, 2), last_bytes = b.add(ShapeOp::Mul, last, four),
             share = b.add(ShapeOp::FloorDiv, seven, n), small = b.add(ShapeOp::Le, n, seven);
  (void)share;  // has no value when n is 0, and nothing asks for it
  b.plan.inputs.push_back({"x", DType::F32, {size}, {one}});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .index = 0, .name = "x"});
  const BufferId number =
      b.buffer({.kind = BufferKind::Temporary, .name = "number", .bytes = eight, .first = 0, .last = 13});
  const BufferId t = b.buffer({.kind = BufferKind::Temporary, .name = "t", .bytes = bytes, .first = 5, .last = 8});
  const BufferId total = b.buffer({.kind = BufferKind::Output, .name = "total", .bytes = four});
  const BufferId out = b.buffer({.kind = BufferKind::Output, .name = "out", .bytes = last_bytes});
  const std::uint32_t count = b.kernel("count"), fill = b.kernel("fill"), take = b.kernel("take");
  b.plan.steps = {KernelCall{fill, {total}, {zero}, one, one},       // 0
                  Control{Control::Kind::Loop, end, turn, 10},       // 1
                  KernelCall{count, {x, number}, {size}, one, one},  // 2
                  ReadSymbol{number, n},                             // 3
                  AssertCall{small, "at most 7 positive values"},    // 4
                  AllocateBuffer{t},                                 // 5
                  KernelCall{fill, {t}, {turn}, n, one},             // 6
                  KernelCall{take, {t, total}, {n}, one, one},       // 7
                  FreeBuffer{t},                                     // 8
                  Control{Control::Kind::EndLoop, zero, zero, 1},    // 9
                  KernelCall{count, {x, number}, {size}, one, one},  // 10
                  ReadSymbol{number, last},                          // 11
                  AllocateBuffer{out},                               // 12
                  KernelCall{fill, {out}, {seven}, last, one}};      // 13
  b.output("total", {total, DType::F32, {one}, {one}, zero});
  b.output("out", {out, DType::F32, {last}, {one}, zero});
  b.plan.outputs.push_back({"count", Output::Kind::Int, {}, last});
  return {b.plan, {}, {compile_kernels(kKernels)}, "", {}};
}

TEST(LateSteps, SizesReadFromMemoryInALoop) {
  Context context(Model::load(counted(5)));
  for (const std::vector<float>& x : {std::vector<float>{1, -1, 2}, {-1}, {1, 1, 1, 1, 1, 1, 1}, {}, {3, -1, 2}}) {
    const auto n = static_cast<std::int64_t>(std::count_if(x.begin(), x.end(), [](float v) { return v > 0; }));
    const RunResult result = context.run({{tensor_of(x, {static_cast<std::int64_t>(x.size())})}});
    EXPECT_EQ(values_of(result.outputs[0]), std::vector<float>{static_cast<float>(10 * n)});
    EXPECT_EQ(result.outputs[1].sizes, Sizes{n});
    EXPECT_EQ(values_of(result.outputs[1]), std::vector<float>(static_cast<std::size_t>(n), 7));
    EXPECT_EQ(*result.outputs[2].data<std::int64_t>(), n);
  }
}

TEST(LateSteps, EachSideOfABranchSetsANumberAndAllocatesByIt) {
  PlanBuilder b;
  const Slot size = b.add(ShapeOp::InputSize, 0, 0), one = b.constant(1), zero = b.constant(0), four = b.constant(4),
             few = b.constant(3), seven = b.constant(7);
  const Slot n = b.add(ShapeOp::RunTime, 0), bytes = b.add(ShapeOp::Mul, n, four),
             small = b.add(ShapeOp::Lt, size, few);
  b.plan.inputs.push_back({"x", DType::F32, {size}, {one}});
  b.buffer({.kind = BufferKind::Input, .index = 0, .name = "x"});
  const BufferId out = b.buffer({.kind = BufferKind::Output, .name = "out", .bytes = bytes});
  const std::uint32_t fill = b.kernel("fill");
  b.plan.steps = {Control{Control::Kind::If, small, zero, 5},     // 0
                  SetNumber{n, few},                              // 1
                  AllocateBuffer{out},                            // 2
                  KernelCall{fill, {out}, {seven}, n, one},       // 3
                  Control{Control::Kind::Else, zero, zero, 9},    // 4
                  SetNumber{n, size},                             // 5
                  AllocateBuffer{out},                            // 6
                  KernelCall{fill, {out}, {four}, n, one},        // 7
                  Control{Control::Kind::EndIf, zero, zero, 9}};  // 8
  b.output("out", {out, DType::F32, {n}, {one}, zero});
  const std::string text = plan_to_json(b.plan);
  EXPECT_NE(text.find("\"version\":8"), std::string::npos);
  EXPECT_EQ(plan_to_json(plan_from_json(text)), text);
  Context context(Model::load({b.plan, {}, {compile_kernels(kKernels)}, "", {}}));
  for (std::size_t count : {0u, 2u, 3u, 17u, 1u}) {
    const RunResult result =
        context.run({{tensor_of(std::vector<float>(count, 1), {static_cast<std::int64_t>(count)})}});
    EXPECT_EQ(values_of(result.outputs[0]), count < 3 ? std::vector<float>(3, 7) : std::vector<float>(count, 4));
  }
  b.plan.steps[1] = SetNumber{small, few};
  EXPECT_THROW(check_plan(b.plan), Error);
}

TEST(LateSteps, AFailedAssertionLeavesTheContextUsable) {
  Context context(Model::load(counted(2)));
  EXPECT_THROW(context.run({{tensor_of(std::vector<float>(8, 1), {8})}}), Error);
  EXPECT_EQ(values_of(context.run({{tensor_of({1, 1}, {2})}}).outputs[0]), std::vector<float>{2});
}

TEST(LateSteps, MemoryIsFlatOverManyTurns) {
  Context few(Model::load(counted(10))), many(Model::load(counted(10000)));
  const Tensor x = tensor_of({1, 2, -3, 4}, {4});
  few.run({{x}});
  many.run({{x}});
  EXPECT_EQ(few.memory().arena_bytes, many.memory().arena_bytes);
}

TEST(LateSteps, ALoopWithoutEndIsStopped) {
  Context context(Model::load(counted(std::numeric_limits<std::int64_t>::max())));
  for (int again = 0; again < 2; ++again) {
    int asked = 0;
    context.set_stop([&] { return ++asked == 100; });
    EXPECT_EQ(error_of([&] { context.run({{tensor_of({1, -1}, {2})}}); }),
              "the run was interrupted in a loop, after 100 turns");
    EXPECT_EQ(asked, 100);
  }
}

TEST(LateSteps, CInterfaceInterruptsALoop) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("coil_late_steps_{}.coil", ::getpid());
  save_package(counted(std::numeric_limits<std::int64_t>::max()), path);
  coil_model* model = coil_model_load(path.c_str());
  ASSERT_TRUE(model) << coil_last_error();
  coil_context* context = coil_context_create(model);
  float data[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  auto run = [&](std::int64_t size) -> std::string {
    const coil_tensor input{data, COIL_F32, 1, 0, {size}, {1}, nullptr};
    coil_tensor outputs[3] = {};
    const int error = coil_context_run(context, &input, 1, outputs, 3);
    for (const coil_tensor& t : outputs) EXPECT_EQ(t.data, nullptr) << "on failure no output is set";
    return error ? coil_last_error() : "";
  };
  for (int round = 0; round < 2; ++round) {
    std::atomic<bool> ended = false;
    std::string message;
    std::thread runner([&] {
      message = run(2);
      ended = true;
    });
    // One that comes before the run begins is for nobody.
    while (!ended) {
      coil_context_interrupt(context);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    runner.join();
    EXPECT_TRUE(message.starts_with("the run was interrupted in a loop")) << message;
    coil_context_interrupt(context);
    EXPECT_EQ(run(8), "at most 7 positive values") << "the next run is not the one that was interrupted";
  }
  coil_context_interrupt(nullptr);
  coil_context_free(context);
  coil_model_free(model);
  std::filesystem::remove(path);
}

TEST(LateSteps, PlansTravelAsText) {
  const Plan plan = counted(3).plan;
  EXPECT_EQ(plan_to_json(plan_from_json(plan_to_json(plan))), plan_to_json(plan));
}

TEST(LateSteps, BranchesThatGoElsewhereAreRefused) {
  StoredProgram good = counted(3);
  EXPECT_NO_THROW(check_plan(good.plan));
  for (std::size_t step : {std::size_t{1}, std::size_t{9}}) {
    Plan bad = good.plan;
    std::get<Control>(bad.steps[step]).target = 5;
    EXPECT_THROW(check_plan(bad), Error) << step;
  }
  Plan open = good.plan;
  open.steps.erase(open.steps.begin() + 9);
  EXPECT_THROW(check_plan(open), Error);
}

}  // namespace
}  // namespace coil::runtime
