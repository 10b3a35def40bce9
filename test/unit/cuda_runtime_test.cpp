// The runtime's CUDA side without a GPU: plans on the driver of test/fake_cuda, which runs queued work late and in any
// order that streams and events allow, and refuses what CUDA refuses.
#include <gtest/gtest.h>

#include "error_of.h"
#include "fake_gpu.h"

namespace coil::runtime {
namespace {

TEST_F(FakeCuda, RunsForEachSizeFromTheHost) {
  Context context(load(gpu_scaled_sum()));
  for (std::int64_t n : {5, 1, 1000, 0, 5, 100000}) {
    const std::vector<float> x = counting(static_cast<std::size_t>(n));
    const RunResult result = context.run({{tensor_of(x, {n})}});
    EXPECT_EQ(result.outputs.at(0).device(), kGpu);
    EXPECT_EQ(values_of(context.to_host(result.outputs[0])), times(x, 5));
  }
}

TEST_F(FakeCuda, KernelsThatWaitThemselvesAreLaunchedEarly) {
  for (bool early : {false, true}) {
    machine->calls.clear();
    StoredProgram program = gpu_scaled_sum();
    program.plan.dependent_launches = early;
    Context context(load(std::move(program)));
    EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
              times(counting(10), 5));
    EXPECT_EQ(machine->count("cuLaunchKernelEx"), early ? 2u : 0u);  // the first is behind nothing
  }
}

TEST_F(FakeCuda, EverythingHappensOnTheModelsOwnDevice) {
  void *first = nullptr, *current = nullptr;
  ASSERT_EQ(retain(&first, 0), 0);
  ASSERT_EQ(set_current(first), 0);
  {
    Context context(load(gpu_scaled_sum(), 1));
    machine->calls.clear();
    const RunResult result = context.run({{tensor_of(counting(9), {9})}});
    EXPECT_EQ(values_of(context.to_host(result.outputs.at(0))), times(counting(9), 5));
    for (const std::string& c : machine->calls) EXPECT_TRUE(c.ends_with("on device 1")) << c;
    EXPECT_EQ(result.outputs[0].device(), (Device{DeviceType::CUDA, 1}));
    get_current(&current);
    EXPECT_EQ(current, first) << "the caller's context is not current again";
  }
  get_current(&current);
  EXPECT_EQ(current, first);
  EXPECT_EQ(machine->used[0], 0u);
}

TEST_F(FakeCuda, InputsOfAnotherDeviceAreRefused) {
  Context context(load(gpu_scaled_sum(), 0));
  auto other = open(1)->make_queue();
  const Tensor x = on_device(*other, counting(4));
  EXPECT_EQ(error_of([&] { context.run({{x}}); }),
            "input 'x' is on cuda:1, but the program runs on cuda:0; move it there");
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(4), {4})}}).outputs.at(0))),
            times(counting(4), 5));
}

TEST_F(FakeCuda, WorkOnACallersStreamKeepsOrder) {
  Context context(load(gpu_scaled_sum()));
  auto queue = open()->make_queue();
  const Tensor x = on_device(*queue, counting(64));
  void *held = nullptr, *streams[2] = {};
  ASSERT_EQ(retain(&held, 0), 0);
  ASSERT_EQ(set_current(held), 0);
  for (void*& s : streams) ASSERT_EQ(create_stream(&s, 1), 0);
  std::vector<Tensor> outputs;
  for (int k = 0; k < 12; ++k) {
    context.set_stream(k % 3 == 2 ? nullptr : streams[k % 3]);
    machine->calls.clear();
    context.run_into({&x, 1}, outputs);
    EXPECT_EQ(machine->count("cuStreamSynchronize"), 0u) << "a call waits for the device";
  }
  EXPECT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(64), 5));
}

TEST_F(FakeCuda, RecordedRunsFollowInputsThatMove) {
  {
    Context context(load(gpu_scaled_sum()));
    context.set_recording(true);
    auto queue = open()->make_queue();
    std::vector<Tensor> given;
    for (int k = 0; k < 3; ++k) given.push_back(on_device(*queue, counting(256, static_cast<float>(100 * k))));
    std::vector<Tensor> outputs;
    for (int round = 0; round < 6; ++round)
      for (int k : {0, 0, 0, 1, 2, 1}) {
        context.run_into({&given[static_cast<std::size_t>(k)], 1}, outputs);
        ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(256, static_cast<float>(100 * k)), 5))
            << "round " << round << ", input " << k;
      }
    EXPECT_GE(machine->count("cuGraphLaunch 3"), 20u);
    EXPECT_GT(machine->overtaken, 0u) << "the two products never changed places";
    EXPECT_EQ(machine->live_events, 0u);
  }
  EXPECT_EQ(machine->live_graphs, 0u);
  EXPECT_EQ(machine->live_streams, 0u);
  EXPECT_EQ(machine->used[0], 0u);
}

/// Sizes come by in turn, each of them twice in a row, so that its second call is recorded.
TEST_F(FakeCuda, RecordingsOfManySizesAreAsManyAsTheyMayBe) {
  constexpr std::size_t kSizes = 64;
  for (const std::size_t most : {kRecordedRuns, std::size_t{3}, kSizes}) {
    Context context(load(gpu_scaled_sum()));
    context.set_recording(true, most);
    auto queue = open()->make_queue();
    std::vector<Tensor> given, outputs;
    for (std::size_t k = 0; k < kSizes; ++k) given.push_back(on_device(*queue, counting(4 * (kSizes - k))));
    for (int round = 0; round < 3; ++round) {
      machine->calls.clear();
      for (std::size_t k = 0; k < kSizes; ++k)
        for (int again = 0; again < 2; ++again) {
          context.run_into({&given[k], 1}, outputs);
          ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(4 * (kSizes - k)), 5))
              << "round " << round << ", size " << k;
          ASSERT_LE(machine->live_graphs, 2 * most) << "a recording is a graph and its executable";
        }
      // The last used stay: those that come again are launched whole where there is room for all.
      const std::size_t launches = machine->count("cuGraphLaunch");
      EXPECT_EQ(launches, round > 0 && most == kSizes ? 2 * kSizes : kSizes) << "round " << round;
    }
  }
  EXPECT_EQ(machine->live_graphs, 0u);
}

TEST_F(FakeCuda, AFailedCaptureIsToldAndTheRunGoesStepByStep) {
  std::vector<std::string> told;
  set_listener([&](MessageLevel level, const std::string& text) {
    if (level == MessageLevel::Warning) told.push_back(text);
  });
  for (const char* symbol : {"cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuStreamBeginCapture_v2"}) {
    told.clear();
    machine->calls.clear();
    Context context(load(gpu_scaled_sum()));
    context.set_recording(true);
    auto queue = open()->make_queue();
    const Tensor x = on_device(*queue, counting(32));
    std::vector<Tensor> outputs;
    for (int k = 0; k < 4; ++k) {
      if (k == 1) machine->faults[symbol] = {900};
      context.run_into({&x, 1}, outputs);
      ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(32), 5)) << symbol << ", call " << k;
    }
    EXPECT_EQ(machine->count("cuGraphLaunch"), 0u) << symbol;
    EXPECT_EQ(machine->live_events, 0u) << symbol;
    if (std::string_view(symbol) != "cuStreamBeginCapture_v2") {
      ASSERT_EQ(told.size(), 1u) << symbol;
      EXPECT_TRUE(has(told[0], "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")) << symbol;
    }
    // Other inputs are recorded all the same.
    const Tensor other = on_device(*queue, counting(32, 7));
    for (int k = 0; k < 3; ++k) context.run_into({&other, 1}, outputs);
    EXPECT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(32, 7), 5));
    EXPECT_GE(machine->count("cuGraphLaunch"), 1u) << symbol;
  }
}

/// What a run must give for `x`.
void check_counted(Context& context, const std::vector<Tensor>& outputs, const std::vector<float>& x,
                   const std::string& what) {
  const auto n = static_cast<std::size_t>(std::count_if(x.begin(), x.end(), [](float v) { return v > 0; }));
  ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(x, 5)) << what;
  ASSERT_EQ(outputs.at(1).sizes, Sizes{static_cast<std::int64_t>(n)}) << what;
  ASSERT_EQ(values_of(context.to_host(outputs[1])), times({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)}, 6))
      << what;
}

TEST_F(FakeCuda, PartsBetweenNumbersThatTheHostReadsAreRecorded) {
  for (std::int64_t turns : {1, 4}) {
    Context context(load(gpu_counted(turns)));
    context.set_recording(true);
    auto queue = open()->make_queue();
    const Tensor x = on_device(*queue, counting(300));
    machine->calls.clear();
    std::vector<Tensor> outputs;
    // The same sizes again and again, then others, then the first: parts are known by the sizes that the run came to.
    for (float from : {-3.0f, -3.0f, -3.0f, -3.0f, -250.0f, -250.0f, -250.0f, -3.0f, -400.0f, -400.0f, 5.0f, -3.0f}) {
      write(*queue, x, counting(300, from));
      outputs.clear();
      context.run_into({&x, 1}, outputs);
      check_counted(context, outputs, counting(300, from), fmt::format("{} turns, from {}", turns, from));
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(machine->count("cuGraphLaunch 4"), 9u) << "the part before the number";
    EXPECT_GE(machine->count(fmt::format("cuGraphLaunch {}", 2 * turns)), turns == 2 ? 9u : 2u) << "the part after it";
  }
}

TEST_F(FakeCuda, AFailedPartIsQueuedStepByStep) {
  std::size_t told = 0;
  set_listener([&](MessageLevel level, const std::string&) { told += level == MessageLevel::Warning; });
  Context context(load(gpu_counted()));
  context.set_recording(true);
  auto queue = open()->make_queue();
  const Tensor x = on_device(*queue, counting(300));
  std::vector<Tensor> outputs;
  for (int k = 0; k < 4; ++k) {
    if (k == 1) machine->faults["cuStreamEndCapture"] = {901};
    outputs.clear();
    context.run_into({&x, 1}, outputs);
    check_counted(context, outputs, counting(300), fmt::format("call {}", k));
  }
  EXPECT_EQ(told, 1u);
  EXPECT_GE(machine->count("cuGraphLaunch 2"), 1u);
}

/// x * 2, then an operator of the host's that adds 1 on the stream, then that * 3 and + itself.
class AddOne : public HostOp {
 public:
  AddOne(Queue& queue, const bool& refuses) : queue_(queue), refuses_(refuses) {}
  void prepare(std::span<const BoundView> inputs, std::span<const BoundView>, std::span<const std::int64_t>) override {
    view_ = inputs[0];
  }
  void run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    if (refuses_) throw Error("the host's operator will not");
    const QueueScope scope(queue_);
    Tensor host = Tensor::empty(view_.dtype, view_.sizes);
    auto there = [&](const void* p) {
      return Tensor{
          {std::shared_ptr<std::byte>(std::shared_ptr<std::byte>(), static_cast<std::byte*>(const_cast<void*>(p))),
           host.storage.bytes, queue_.device()},
          view_.dtype,
          view_.sizes,
          view_.strides,
          0};
    };
    // On a stream that keeps order with the model's own, as torch's default stream does.
    queue_.copy(host, there(inputs[0]));
    for (std::int64_t i = 0; i < host.numel(); ++i) host.data<float>()[i] += 1;
    queue_.copy(there(outputs[0]), host);
    queue_.wait();
  }

 private:
  Queue& queue_;
  const bool& refuses_;
  BoundView view_;
};

TEST_F(FakeCuda, PartsBetweenTheHostsOperatorsAreRecorded) {
  GpuPlan b;
  const Slot two = b.constant(2), three = b.constant(3);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"});
  auto temporary = [&](const char* name, std::uint32_t first, std::uint32_t last) {
    return b.buffer({.kind = BufferKind::Temporary, .name = name, .bytes = b.bytes, .first = first, .last = last});
  };
  const BufferId t0 = temporary("t0", 0, 1), t1 = temporary("t1", 1, 2), t2 = temporary("t2", 2, 3),
                 t3 = temporary("t3", 3, 4);
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  auto whole = [&](BufferId id) { return View{id, DType::F32, {b.elements}, {b.one}, b.zero}; };
  HostCall call;
  call.op = "test.add_one.default";
  call.inputs = {whole(t1)};
  call.outputs = {whole(t2)};
  b.plan.steps = {b.launch(b.scale, {x, t0}, {two}), b.launch(b.add, {t0, x, t1}, {}), call,
                  b.launch(b.scale, {t2, t3}, {three}), b.launch(b.add, {t3, t2, y}, {})};
  b.output("y", whole(y));
  StoredProgram program = b.program();
  auto device = open();
  // The host's own stream would race with the model's: it waits for the model's through the device's default stream.
  std::shared_ptr<Queue> theirs = device->make_queue();
  bool refuses = false;
  Context context(Model::load(std::move(program), device,
                              [&](const HostCall&) { return std::make_unique<AddOne>(*theirs, refuses); }));
  void *held = nullptr, *stream = nullptr;
  ASSERT_EQ(retain(&held, 0), 0);
  ASSERT_EQ(set_current(held), 0);
  ASSERT_EQ(create_stream(&stream, 0), 0);
  context.set_stream(stream);
  theirs->set_stream(stream);
  context.set_recording(true);
  const Tensor given = on_device(*theirs, counting(50));
  std::vector<Tensor> outputs;
  for (int k = 0; k < 6; ++k) {
    write(*theirs, given, counting(50, static_cast<float>(k)));
    // One that fails between two parts, before they are recorded and after, leaves the next call as it would be.
    refuses = k == 1 || k == 4;
    if (refuses) {
      EXPECT_EQ(error_of([&] { context.run_into({&given, 1}, outputs); }), "the host's operator will not");
    }
    refuses = false;
    context.run_into({&given, 1}, outputs);
    std::vector<float> want = counting(50, static_cast<float>(k));
    for (float& v : want) v = 4 * (3 * v + 1);
    ASSERT_EQ(values_of(context.to_host(outputs.at(0))), want) << "call " << k;
  }
  EXPECT_GE(machine->count("cuGraphLaunch 2"), 8u);
}

TEST_F(FakeCuda, WhatFailedOnTheDeviceIsSaidAndTheContextGoesOn) {
  GpuPlan b;
  b.plan.kernels.push_back({"guard", "a test's kernel", "an index read from a tensor is out of range (at model.py:3)"});
  const Slot two = b.constant(2), large = b.PlanBuilder::add(ShapeOp::Lt, b.constant(10), b.elements);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {KernelCall{2, {}, {large}, b.one, b.one, {b.one, b.one, b.one}, 1, b.zero},
                  b.launch(b.scale, {x, y}, {two})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  Context context(load(b.program()));
  EXPECT_EQ(error_of([&] { context.run({{tensor_of(counting(11), {11})}}); }),
            "an index read from a tensor is out of range (at model.py:3)");
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
            times(counting(10), 2));
}

TEST_F(FakeCuda, KernelsThatCannotFailFindNoStatus) {
  GpuPlan b;
  const std::uint32_t sees = b.kernel("sees");
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.constant(4)});
  b.buffer({.kind = BufferKind::Input, .name = "x"});
  b.plan.steps = {KernelCall{sees, {y}, {}, b.one, b.one, {b.one, b.one, b.one}, 1, b.zero}};
  b.output("y", {y, DType::F32, {b.one}, {b.one}, b.zero});
  StoredProgram program = b.program();
  program.libraries.push_back(gpu_kernels(".version 7.0\n.target sm_75\n.entry sees(\n"));
  Context context(load(std::move(program)));
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(3), {3})}}).outputs.at(0))),
            std::vector<float>{0})
      << "each thread of each kernel would read the host's memory";
}

/// Fails where x has more than ten elements, then doubles x in place. (Only the fake driver has such a kernel.)
StoredProgram doubled_in_place() {
  GpuPlan b;
  b.plan.kernels.push_back({"fail", "a test's kernel", "an index read from a tensor is out of range (at model.py:3)"});
  b.plan.stops_on_failure = true;
  b.plan.inputs[0].mutated = true;
  const Slot two = b.constant(2), large = b.PlanBuilder::add(ShapeOp::Lt, b.constant(10), b.elements);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {b.launch(b.scale, {x, y}, {two}),
                  KernelCall{2, {}, {large}, b.one, b.one, {b.one, b.one, b.one}, 1, b.zero},
                  b.launch(b.scale, {x, x}, {two})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  StoredProgram program = b.program();
  program.libraries.push_back(gpu_kernels(".version 7.0\n.target sm_75\n.entry fail(\n"));
  return program;
}

TEST_F(FakeCuda, AfterAFailureNothingWritesToTheCallersMemory) {
  for (bool recording : {false, true}) {
    Context context(load(doubled_in_place()));
    context.set_recording(recording);
    auto queue = open()->make_queue();
    const Tensor few = on_device(*queue, counting(10)), many = on_device(*queue, counting(11));
    std::vector<Tensor> outputs;
    for (int k = 0; k < 3; ++k) {
      write(*queue, few, counting(10));
      context.run_into({&few, 1}, outputs);
      EXPECT_EQ(values_of(context.to_host(few)), times(counting(10), 2));
      // The call that fails, and one that is queued before anybody looked.
      context.run_into({&many, 1}, outputs);
      context.run_into({&many, 1}, outputs);
      EXPECT_EQ(error_of([&] { context.wait(); }), "an index read from a tensor is out of range (at model.py:3)");
      const QueueScope scope(*queue);
      Tensor seen = Tensor::empty(DType::F32, {11});
      queue->copy(seen, many);
      queue->wait();
      EXPECT_EQ(values_of(seen), counting(11)) << "written to after the failure";
    }
  }
}

TEST_F(FakeCuda, OutOfMemorySaysWhatWasAskedForAndTheContextGoesOn) {
  machine->memory = std::size_t{10} << 20;
  Context context(load(gpu_scaled_sum()));
  const std::string message = error_of([&] { context.run({{tensor_of(counting(1 << 20), {1 << 20})}}); });
  EXPECT_TRUE(has(message, "out of memory on cuda:0 (Fake GPU): "));
  EXPECT_TRUE(has(message, "4.0 MiB were asked for"));
  EXPECT_TRUE(has(message, "of 10.0 MiB are free"));
  EXPECT_TRUE(has(message, "the program's planned peak is 12.0 MiB"));
  EXPECT_TRUE(has(message, " needs 12.0 MiB (")) << message;
  EXPECT_TRUE(has(message, "the largest that are live at once: ")) << message;
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
            times(counting(10), 5));
}

TEST_F(FakeCuda, MemoryThatIsOutIsAskedForAgainOnceThePoolIsEmpty) {
  machine->memory = std::size_t{16} << 20;
  auto queue = open()->make_queue();
  const QueueScope scope(*queue);
  { const Storage kept = queue->allocate(std::size_t{10} << 20); }
  EXPECT_EQ(machine->used[0], std::size_t{10} << 20) << "the pool keeps what comes back";
  const Storage other = queue->allocate(std::size_t{12} << 20);
  EXPECT_EQ(machine->used[0], std::size_t{12} << 20);
}

TEST_F(FakeCuda, EqualBlocksAreHandedOutAlikeInWhateverOrderTheyCameBack) {
  auto queue = open()->make_queue();
  const QueueScope scope(*queue);
  const auto addresses_of = [](const std::vector<Storage>& blocks) {
    std::vector<std::byte*> found;
    for (const Storage& s : blocks) found.push_back(s.data.get());
    return found;
  };
  const auto take = [&] {
    std::vector<Storage> blocks(4);
    for (Storage& s : blocks) s = queue->allocate(1000);
    return blocks;
  };
  { const std::vector<Storage> new_ones = take(); }
  std::vector<Storage> blocks = take();
  const std::vector<std::byte*> first = addresses_of(blocks);
  for (std::size_t k : {2, 0, 3, 1}) blocks[k] = {};
  blocks = take();
  EXPECT_EQ(addresses_of(blocks), first);
}

TEST_F(FakeCuda, MemoryOfTheCallersOwn) {
  Context context(load(gpu_scaled_sum()));
  auto queue = open()->make_queue();
  std::size_t taken = 0;
  std::vector<std::size_t> sizes;
  context.borrow_memory([&](std::size_t bytes) {
    const QueueScope scope(*queue);
    Storage s = queue->allocate(bytes);
    taken += bytes;
    sizes.push_back(bytes);
    return s;
  });
  const Tensor x = on_device(*queue, counting(64));
  const std::size_t used = machine->used[0];
  std::vector<Tensor> outputs;
  for (int k = 0; k < 3; ++k) context.run_into({&x, 1}, outputs);
  EXPECT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(64), 5));
  EXPECT_GE(sizes.size(), 6u) << "outputs and temporaries come from the caller, for each run";
  EXPECT_LE(machine->used[0] - used, 8192u);
}

TEST_F(FakeCuda, MemoryOfTheCallersOwnIsHeldWhileTheRunLasts) {
  // What goes back is handed out again at once, as torch's allocator does: what a run still needs must not have gone
  // back.
  auto queue = open()->make_queue();
  std::vector<std::shared_ptr<Storage>> back;
  Context context(load(gpu_counted()));
  context.borrow_memory([&](std::size_t bytes) {
    const QueueScope scope(*queue);
    std::shared_ptr<Storage> block =
        back.empty() ? std::make_shared<Storage>(queue->allocate(std::max<std::size_t>(bytes, 1 << 16))) : back.back();
    if (!back.empty()) back.pop_back();
    std::memset(block->data.get(), 0xff, block->bytes);
    Storage lent = *block;
    lent.data = std::shared_ptr<std::byte>(block->data.get(), [&back, block](std::byte*) { back.push_back(block); });
    return lent;
  });
  const Tensor x = on_device(*queue, counting(300));
  std::vector<Tensor> outputs;
  for (float from : {-3.0f, -250.0f, 5.0f, -3.0f}) {
    write(*queue, x, counting(300, from));
    outputs.clear();
    context.run_into({&x, 1}, outputs);
    check_counted(context, outputs, counting(300, from), fmt::format("from {}", from));
    if (HasFatalFailure()) return;
  }
}

TEST_F(FakeCuda, MachinesThatWillNotDoAreRefused) {
  EXPECT_TRUE(
      has(error_of([] { cuda::open_cuda(0, "libcuda-that-is-not-there.so.1"); }), "no CUDA driver on this machine"));
  EXPECT_TRUE(has(error_of([&] { open(7); }), "there is no device cuda:7: this machine has 2"));
  machine->devices = 0;
  EXPECT_EQ(error_of([&] { open(); }), "the CUDA driver finds no device on this machine");
  machine->devices = 1;
  EXPECT_TRUE(has(error_of([&] { open(1); }), "this machine has one, cuda:0"));
  machine->version = 11080;
  EXPECT_TRUE(has(error_of([&] { open(); }), "the CUDA driver is too old: it supports CUDA 11.8"));
  machine->version = 12020;
  StoredProgram newer = gpu_scaled_sum();
  std::string ptx = kGpuKernels;
  ptx.replace(ptx.find("7.0"), 3, "9.0");
  newer.libraries = {gpu_kernels(ptx.c_str())};
  newer.plan.isa = "sm_80";
  EXPECT_TRUE(has(error_of([&] { load(newer); }),
                  "its driver (CUDA 12.2) is older than the toolkit that the kernels were compiled with"));
  machine->version = 13000;
  machine->capability = 75;
  ptx.replace(ptx.find("sm_75"), 5, "sm_90");
  newer.libraries = {gpu_kernels(ptx.c_str())};
  newer.plan.isa = "sm_90";
  EXPECT_TRUE(has(error_of([&] { load(newer); }),
                  "the kernels are for sm_90, but cuda:0 (Fake GPU) is sm_75; compile with --set cuda.arch=sm_75"));
  EXPECT_NO_THROW(load(gpu_scaled_sum()));
}

TEST_F(FakeCuda, AKernelThatCannotBeLoadedIsNotSaidToBeMissing) {
  machine->faults["cuModuleGetFunction"] = {2};
  EXPECT_TRUE(has(error_of([&] { load(gpu_scaled_sum()); }), "CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_NO_THROW(load(gpu_scaled_sum()));
}

TEST_F(FakeCuda, WhatTheDriverRefusesIsSaidInItsWords) {
  Context context(load(gpu_scaled_sum()));
  machine->faults["cuLaunchKernel"] = {700, 1};
  EXPECT_TRUE(has(error_of([&] { context.run({{tensor_of(counting(10), {10})}}); }),
                  "CUDA cannot launch a kernel: CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
            times(counting(10), 5));
}

}  // namespace
}  // namespace coil::runtime
