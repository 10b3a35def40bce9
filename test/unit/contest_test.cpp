// The fastest of several ways to carry out a call, on the driver of test/fake_cuda, whose clock calls advance.
#include <gtest/gtest.h>

#include "fake_gpu.h"
#include "runtime/cuda/ops/contest.h"

namespace coil::runtime::cuda {
namespace {

/// Takes as long as it is told, and counts its runs.
class Timed : public PreparedCall {
 public:
  Timed(fake_cuda::Machine& machine, std::string name, double milliseconds, std::size_t workspace = 0)
      : machine_(machine), name_(std::move(name)), milliseconds_(milliseconds), workspace_(workspace) {}
  std::size_t workspace_bytes() const override { return workspace_; }
  void run(std::span<const void* const>, std::span<void* const>, void*) override {
    machine_.clock += milliseconds_;
    ++runs;
  }
  const std::string& name() const { return name_; }
  int runs = 0;

 private:
  fake_cuda::Machine& machine_;
  std::string name_;
  double milliseconds_;
  std::size_t workspace_;
};

struct Contests : FakeCuda {
  Contests() : runtime(open()), queue(runtime->make_queue()), scope(*queue) {}
  CudaQueue& cuda() { return static_cast<CudaQueue&>(*queue); }
  /// Work that takes a millisecond at least.
  Work a_millisecond() { return {.bytes = cuda().cuda().bytes_per_second() / 1e3, .dtype = DType::BF16}; }
  std::unique_ptr<Timed> call(std::string name, double milliseconds, std::size_t workspace = 0) {
    return std::make_unique<Timed>(*machine, std::move(name), milliseconds, workspace);
  }
  static std::string name_of(std::unique_ptr<PreparedCall> call) { return static_cast<Timed&>(*call).name(); }

  std::shared_ptr<DeviceRuntime> runtime;
  std::unique_ptr<Queue> queue;
  QueueScope scope;
  const std::vector<BoundView> views{{DType::BF16, {16, 16}, {16, 1}}};
};

TEST_F(Contests, ACallThatIsNearTheLeastIsTakenAtOnce) {
  Contest contest(cuda(), views, views, a_millisecond());
  contest.enter(call("first", 3));
  EXPECT_FALSE(contest.is_open());
  EXPECT_DOUBLE_EQ(contest.best(), 3);
  EXPECT_EQ(name_of(contest.take()), "first");
}

TEST_F(Contests, OfSlowOnesTheFastestIsTakenWhereItIsClearlyFaster) {
  Contest contest(cuda(), views, views, a_millisecond());
  contest.enter(call("first", 40));
  EXPECT_TRUE(contest.is_open());
  contest.enter(call("little faster", 38));
  EXPECT_DOUBLE_EQ(contest.best(), 40);
  contest.enter(nullptr);
  contest.enter(call("much faster", 3.5));
  EXPECT_FALSE(contest.is_open());
  EXPECT_EQ(name_of(contest.take()), "much faster");
}

TEST_F(Contests, ACallThatSeemsSlowIsTimedMoreOften) {
  Contest contest(cuda(), views, views, a_millisecond());
  auto fast = call("fast", 2), slow = call("slow", 20);
  contest.milliseconds(*fast);
  contest.milliseconds(*slow);
  EXPECT_GT(slow->runs, fast->runs);
}

TEST_F(Contests, WithoutMemoryTheFirstCallIsTaken) {
  machine->memory = 1 << 10;
  const std::vector<BoundView> large{{DType::BF16, {1 << 20}, {1}}};
  Contest contest(cuda(), large, large, a_millisecond());
  contest.enter(call("first", 40));
  EXPECT_FALSE(contest.is_open());
  EXPECT_EQ(name_of(contest.take()), "first");
}

TEST_F(Contests, ItsMemoryGoesBack) {
  const std::size_t before = machine->used[0];
  {
    Contest contest(cuda(), views, views, a_millisecond());
    contest.enter(call("first", 3, 1 << 20));
    EXPECT_GT(machine->used[0], before);
  }
  EXPECT_EQ(machine->used[0], before);
}

TEST_F(Contests, ACallWhoseWorkspaceDoesNotFitLosesToOneThatDoes) {
  Contest contest(cuda(), views, views, a_millisecond());
  contest.enter(call("large", 2, std::size_t{1} << 40));
  contest.enter(call("small", 3));
  EXPECT_EQ(name_of(contest.take()), "small");
}

TEST_F(Contests, NoneIsHeldWhileWorkIsRecorded) {
  EXPECT_TRUE(Contest::may_be_held(cuda()));
  ASSERT_TRUE(queue->begin_recording());
  EXPECT_FALSE(Contest::may_be_held(cuda()));
  queue->end_recording();
  EXPECT_TRUE(Contest::may_be_held(cuda()));
}

}  // namespace
}  // namespace coil::runtime::cuda
