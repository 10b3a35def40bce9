// Plans with a fault in the lives of their buffers: they run, with wrong values at most, unless lifetimes are checked.
#include <unistd.h>

#include "error_of.h"
#include "runtime/plan/plan_json.h"
#include "runtime_plans.h"

namespace coil::runtime {
namespace {

constexpr const char* kFaulty = R"(
#include <cstdint>
extern "C" void scale(void* const* b, const int64_t* s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ((float*)b[1])[i] = ((const float*)b[0])[i] * (float)s[0];
}
extern "C" void add(void* const* b, const int64_t*, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ((float*)b[2])[i] = ((const float*)b[0])[i] + ((const float*)b[1])[i];
}
extern "C" void too_far(void* const* b, const int64_t* s, int64_t begin, int64_t end) {  // one element behind the end
  scale(b, s, begin, end + 1);
}
extern "C" void too_early(void* const* b, const int64_t*, int64_t, int64_t) { ((float*)b[1])[-1] = 5; }
extern "C" void writes_its_operand(void* const* b, const int64_t*, int64_t begin, int64_t end) {
  add(b, nullptr, begin, end);
  for (int64_t i = begin; i < end; ++i) ((float*)b[0])[i] = 0;
}
)";

const std::vector<std::byte>& kernels() {
  static const std::vector<std::byte> built = compile_kernels(kFaulty);
  return built;
}

/// scaled_sum: t0 = x*2 (step 0), t1 = x*3 (step 1), y = t0 + t1 (step 2), watched or not.
StoredProgram program(bool watched) {
  StoredProgram p = scaled_sum();
  p.libraries = {kernels()};
  p.plan.check_lifetimes = watched;
  for (Step& step : p.plan.steps) {
    auto& call = std::get<KernelCall>(step);
    call.written = {static_cast<std::uint32_t>(call.buffers.size() - 1)};
  }
  return p;
}

std::vector<float> run(StoredProgram p) {
  Context context(Model::load(std::move(p)));
  context.run({{tensor_of(std::vector<float>(12, 1), {3, 4})}});
  return values_of(context.run({{tensor_of({1, 2, 3, 4}, {1, 4})}}).outputs[0]);  // a second size, and a second run
}

void call_instead(StoredProgram& p, std::size_t step, const std::string& symbol) {
  auto& call = std::get<KernelCall>(p.plan.steps[step]);
  call.kernel = static_cast<std::uint32_t>(p.plan.kernels.size());
  p.plan.kernels.push_back({symbol, "at model.py:7", ""});
}

/// Runs without the check, and fails with it, saying this.
void expect_found(const std::function<void(StoredProgram&)>& break_it, const std::string& message) {
  StoredProgram unwatched = program(false), watched = program(true);
  break_it(unwatched), break_it(watched);
  EXPECT_NO_THROW(run(std::move(unwatched)));
  const std::string error = error_of([&] { run(std::move(watched)); });
  EXPECT_NE(error.find(message), std::string::npos) << error;
}

BufferId named(const StoredProgram& p, const std::string& name) {
  for (BufferId b = 0; b < p.plan.buffers.size(); ++b)
    if (p.plan.buffers[b].name == name) return b;
  return 0;
}

TEST(LifetimeChecker, SoundProgramsRunAsTheyDoUnwatched) {
  EXPECT_EQ(run(program(true)), (std::vector<float>{5, 10, 15, 20}));
  EXPECT_EQ(run(program(true)), run(program(false)));
}

TEST(LifetimeChecker, ReadsOfWhatWasFreed) {
  expect_found([](StoredProgram& p) { p.plan.buffers[named(p, "t0")].last = 1; },
               "step 2 (add: a test's kernel) uses t0, which was freed after step 1");
}

TEST(LifetimeChecker, UsesOfWhatIsNotAllocated) {
  expect_found([](StoredProgram& p) { p.plan.buffers[named(p, "t1")].first = 2; },
               "step 1 (scale: a test's kernel) uses t1, which is allocated at step 2 only");
}

TEST(LifetimeChecker, ReadsBeforeAnythingWasWritten) {
  expect_found([](StoredProgram& p) { std::get<KernelCall>(p.plan.steps[0]).buffers[0] = named(p, "y"); },
               "step 0 (scale: a test's kernel) reads y before anything was written to it");
}

TEST(LifetimeChecker, WritesBehindTheEnd) {
  // Unwatched, the temporaries have room behind them: blocks lie on cache lines.
  expect_found([](StoredProgram& p) { call_instead(p, 1, "too_far"); },
               "step 1 (too_far: at model.py:7) wrote behind the end of t1");
}

TEST(LifetimeChecker, WritesBeforeTheStart) {
  expect_found(
      [](StoredProgram& p) {
        call_instead(p, 1, "too_early"), std::get<KernelCall>(p.plan.steps[1]).buffers[1] = named(p, "t1");
      },
      "wrote before the start of t1");
}

TEST(LifetimeChecker, WritesToWhatIsOnlyRead) {
  expect_found(
      [](StoredProgram& p) { call_instead(p, 2, "writes_its_operand"); },
      "step 2 (writes_its_operand: at model.py:7) wrote to the memory of t0, which it was not given to write to");
}

TEST(LifetimeChecker, WritesToAnInputThatIsOnlyRead) {
  expect_found(
      [](StoredProgram& p) {
        call_instead(p, 2, "writes_its_operand"), std::get<KernelCall>(p.plan.steps[2]).buffers[0] = named(p, "x");
      },
      "something wrote to x, which no step was given to write to");
}

TEST(LifetimeChecker, ReadsOfMemoryThatAnotherHasTakenOver) {
  expect_found([](StoredProgram& p) { p.plan.buffers[named(p, "t1")].shares = named(p, "t0"); },
               "step 2 (add: a test's kernel) reads t0, whose memory t1 has taken over");
}

TEST(LifetimeChecker, TemporariesOverEachOther) {
  expect_found(
      [](StoredProgram& p) {
        for (const char* name : {"t0", "t1"}) p.plan.buffers[named(p, name)].arena_offset = 0;
        p.plan.static_arena_bytes = 4096;
      },
      "t0 and t1 lie over each other in the arena, and both live at step 1");
}

TEST(LifetimeChecker, WatchedPlansTravelAsTextOfANewerVersion) {
  const Plan plan = program(true).plan;
  const std::string text = plan_to_json(plan);
  EXPECT_NE(text.find("\"version\":4"), std::string::npos);
  const Plan again = plan_from_json(text);
  EXPECT_TRUE(again.check_lifetimes);
  EXPECT_EQ(std::get<KernelCall>(again.steps[2]).written, (std::vector<std::uint32_t>{2}));
  EXPECT_NE(plan_to_json(scaled_sum().plan).find("\"version\":3"), std::string::npos);
}

}  // namespace
}  // namespace coil::runtime
