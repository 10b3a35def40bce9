// Plans over the CPU and a device that does nothing before somebody waits for it: what the executor queues where, when
// it waits, and what it records.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime/views/strided_copy.h"
#include "runtime_plans.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

constexpr Device kDevice{DeviceType::CUDA, 0};
using Log = std::vector<std::string>;

class LazyQueue : public Queue {
 public:
  explicit LazyQueue(Log& log, bool fails) : log_(log), fails_(fails) {}
  Device device() const override { return kDevice; }
  void begin() override {}
  void end() noexcept override {}
  Storage allocate(std::size_t bytes) override {
    Storage s = Storage::allocate(bytes);
    s.device = kDevice;
    return s;
  }
  Storage allocate_on_host(std::size_t bytes) override {
    log_.push_back("lock pages");
    return Storage::allocate(bytes);
  }
  std::span<std::int64_t> shared_words(std::size_t count) override {
    words_.assign(count, 0);
    return words_;
  }
  void copy(const Tensor& to, const Tensor& from) override {
    if (fails_ && to.device().is_host()) fail("the bus is gone");
    log_.push_back("copy");
    work_.emplace_back([to, from] { copy_strided(to, from); });
  }
  void copy_ahead(const Tensor& to, const Tensor& from) override {
    copy(to, from);
    log_.back() = "copy ahead";
  }
  void launch(const Launch&, void* const*) override { log_.push_back(recording_ ? "record" : "launch"); }
  std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes& a) override {
    return make_library_op(*this, op, a);
  }
  bool runs_ahead() const override { return true; }
  void wait() override {
    log_.push_back("wait");
    for (const auto& work : work_) work();
    work_.clear();
  }
  bool begin_recording() override { return recording_ = true; }
  std::unique_ptr<RecordedWork> end_recording() override {
    recording_ = false;
    return std::make_unique<RecordedWork>();
  }
  void run_recorded(const RecordedWork&) override { log_.push_back("run recorded"); }

 private:
  Log& log_;
  const bool fails_;
  bool recording_ = false;
  std::vector<std::int64_t> words_;
  std::vector<std::function<void()>> work_;
};

class LazyDevice : public DeviceRuntime {
 public:
  explicit LazyDevice(bool fails = false) : fails_(fails) {}
  Device device() const override { return kDevice; }
  std::unique_ptr<LoadedKernels> load(const std::string&, std::span<const std::vector<std::byte>>) override {
    struct Any : LoadedKernels {
      const void* find(const std::string&) const override { return this; }
    };
    return std::make_unique<Any>();
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<LazyQueue>(log, fails_); }
  Log log;

 private:
  const bool fails_;
};

/// y = copy of x + w * 3 on the CPU, x f32[4] on the device, w and y on the CPU. In front of the copy, and with
/// `launches` behind it, the device launches two kernels on a temporary of its own.
StoredProgram sum_beside(bool non_blocking, bool launches = false) {
  PlanBuilder b;
  b.plan.device = kDevice;
  b.plan.others = {{Device{}, "", 128}};
  const Slot four = b.constant(4), one = b.constant(1), zero = b.constant(0), three = b.constant(3);
  const Slot bytes = b.constant(16), grain = b.constant(8);
  b.plan.inputs = {{"x", DType::F32, {four}, {one}}, {"w", DType::F32, {four}, {one}}};
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  const BufferId w = b.buffer({.kind = BufferKind::Input, .index = 1, .name = "w", .place = 1});
  const BufferId there = b.buffer({.name = "there", .bytes = bytes, .last = 9, .arena_offset = 0});
  const BufferId a = b.buffer({.name = "a", .bytes = bytes, .last = 9, .arena_offset = 0, .place = 1});
  const BufferId t = b.buffer({.name = "t", .bytes = bytes, .last = 9, .arena_offset = 64, .place = 1});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes, .place = 1});
  b.plan.static_arena_bytes = 64;
  b.plan.kernels = {{"far", "", ""}, {"scale", "", "", 1}, {"add", "", "", 1}};
  const auto view = [&](BufferId id) { return View{id, DType::F32, {four}, {one}, zero}; };
  const KernelCall far{0, {there}, {}, zero, one, {one, one, one}, 32, zero};
  Attributes how;
  if (non_blocking) how.emplace("non_blocking", std::int64_t{1});
  if (launches) b.plan.steps = {far, far};
  b.plan.steps.emplace_back(ExternCall{"device_copy", how, {view(x)}, {view(a)}});
  b.plan.steps.emplace_back(KernelCall{1, {w, t}, {three}, four, grain});
  b.plan.steps.emplace_back(KernelCall{2, {a, t, y}, {}, four, grain});
  if (launches) b.plan.steps.insert(b.plan.steps.end(), {far, far});
  b.output("y", view(y));
  StoredProgram program{std::move(b.plan), {}, {}, ""};
  program.other_libraries = {{compile_kernels(kTestKernels)}};
  return program;
}

Tensor on_device(Tensor t) {
  t.storage.device = kDevice;
  return t;
}

std::vector<Tensor> inputs() { return {on_device(tensor_of({1, 2, 3, 4}, {4})), tensor_of({1, 0, 2, 0}, {4})}; }
const std::vector<float> kSum{4, 2, 9, 4};

TEST(SeveralDevices, ABlockingCopyIsDoneWhenItsStepEnds) {
  const auto device = std::make_shared<LazyDevice>();
  Context context(Model::load(sum_beside(false), device));
  device->log.clear();
  const RunResult got = context.run(inputs());
  EXPECT_TRUE(got.outputs[0].device().is_host());
  EXPECT_EQ(values_of(got.outputs[0]), kSum);
  EXPECT_EQ(device->log, (Log{"copy", "wait"}));
}

TEST(SeveralDevices, ANonBlockingCopyIsWaitedForByItsReader) {
  const auto device = std::make_shared<LazyDevice>();
  Context context(Model::load(sum_beside(true), device));
  device->log.clear();
  EXPECT_EQ(values_of(context.run(inputs()).outputs[0]), kSum);
  // Its memory, and that of results on the CPU, may be copied to while the host goes on; nobody waits twice.
  EXPECT_EQ(device->log, (Log{"lock pages", "copy ahead", "lock pages", "wait"}));
}

TEST(SeveralDevices, ACopyThatFailsSaysFromWhereToWhere) {
  Context context(Model::load(sum_beside(false), std::make_shared<LazyDevice>(true)));
  try {
    context.run(inputs());
    FAIL() << "it ran";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "a copy of 16 bytes from cuda:0 to cpu failed: the bus is gone");
  }
}

TEST(SeveralDevices, WhatLiesBetweenStepsOfTheHostIsRecorded) {
  const auto device = std::make_shared<LazyDevice>();
  Context context(Model::load(sum_beside(false, true), device));
  context.set_recording(true);
  const std::vector<Tensor> given = inputs();
  for (int run = 0; run < 3; ++run) {
    device->log.clear();
    EXPECT_EQ(values_of(context.run(given).outputs[0]), kSum);
  }
  EXPECT_EQ(device->log, (Log{"run recorded", "copy", "wait", "run recorded"}));
}

TEST(SeveralDevices, AnInputLiesWhereTheProgramTakesItOrOnTheCpu) {
  const auto device = std::make_shared<LazyDevice>();
  Context context(Model::load(sum_beside(false), device));
  std::vector<Tensor> given = inputs();
  given[0].storage.device = {};
  EXPECT_EQ(values_of(context.run(given).outputs[0]), kSum);
  given[1].storage.device = kDevice;
  try {
    context.run(given);
    FAIL() << "it ran";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "input 'w' is on cuda:0, but the program takes it on cpu; move it there");
  }
}

TEST(SeveralDevices, PlansAreHeldToTheirDevices) {
  const auto refused = [](const std::function<void(Plan&)>& change) -> std::string {
    StoredProgram program = sum_beside(false);
    change(program.plan);
    try {
      Model::load(std::move(program), std::make_shared<LazyDevice>());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refused([](Plan& p) { p.buffers[1].place = 0; }),
            "the plan is broken: kernel call scale on cpu touches buffer w, which lies on cuda:0");
  EXPECT_EQ(refused([](Plan& p) { p.buffers[5].place = 2; }),
            "the plan is broken: buffer y refers to something that is not there");
  EXPECT_EQ(refused([](Plan& p) { p.others.push_back(p.others[0]); }), "the plan is broken: it lies on cpu twice");
}

}  // namespace
}  // namespace coil::runtime
