#include <chrono>

#include "error_of.h"
#include "gpu_calls.h"

namespace coil::runtime {
namespace {

TEST(GpuExecutor, RunsForEachSizeFromTheHost) {
  Context context(Model::load(gpu_scaled_sum()));
  for (std::int64_t n : {5, 1, 1000, 0, 5, 100000}) {
    const std::vector<float> x = counting(static_cast<std::size_t>(n));
    const RunResult result = context.run({{tensor_of(x, {n})}});
    EXPECT_EQ(result.outputs.at(0).device(), kGpu);
    EXPECT_EQ(values_of(context.to_host(result.outputs[0])), times(x, 5));
  }
}

TEST(GpuExecutor, TakesDeviceTensorsOfAnyStride) {
  auto model = Model::load(gpu_scaled_sum());
  Context context(model);
  auto queue = open_device(kGpu)->make_queue();
  Tensor x;
  {
    const QueueScope scope(*queue);
    x = on_device(*queue, tensor_of(counting(64), {64}));
    queue->wait();
  }
  EXPECT_EQ(values_of(context.to_host(context.run({{x}}).outputs.at(0))), times(counting(64), 5));
  Tensor every_second = x;
  every_second.sizes = {32};
  every_second.strides = {2};
  std::vector<float> expected;
  for (float v : counting(64))
    if (static_cast<int>(v + 3) % 2 == 0) expected.push_back(5 * v);
  EXPECT_EQ(values_of(context.to_host(context.run({{every_second}}).outputs.at(0))), expected);
}

TEST(GpuExecutor, RecordedRunsFollowInputsThatMove) {
  Context context(Model::load(gpu_scaled_sum()));
  context.set_recording(true);
  auto queue = open_device(kGpu)->make_queue();
  std::vector<Tensor> given;
  {
    const QueueScope scope(*queue);
    for (int k = 0; k < 3; ++k)
      given.push_back(on_device(*queue, tensor_of(counting(256, static_cast<float>(100 * k)), {256})));
    queue->wait();
  }
  std::vector<Tensor> outputs;
  for (int round = 0; round < 6; ++round)
    for (int k : {0, 0, 0, 1, 2, 1}) {
      context.run_into({&given[static_cast<std::size_t>(k)], 1}, outputs);
      ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(counting(256, static_cast<float>(100 * k)), 5))
          << "round " << round << ", input " << k;
    }
}

TEST(GpuExecutor, PartsAroundANumberThatTheHostReadsAreRecorded) {
  for (const std::int64_t turns : {1, 4}) {
    Context context(Model::load(gpu_counted(turns)));
    context.set_recording(true);
    auto queue = open_device(kGpu)->make_queue();
    Tensor x;
    std::vector<Tensor> outputs;
    for (const float from : {-3.0f, -3.0f, -3.0f, -3.0f, -250.0f, -250.0f, -250.0f, -3.0f, -400.0f, 5.0f, -3.0f}) {
      const std::vector<float> values = counting(300, from);
      {
        const QueueScope scope(*queue);
        if (!x.storage.data)
          x = on_device(*queue, tensor_of(values, {300}));
        else
          queue->copy(x, tensor_of(values, {300}));
        queue->wait();
      }
      outputs.clear();
      context.run_into({&x, 1}, outputs);
      const auto n = std::count_if(values.begin(), values.end(), [](float v) { return v > 0; });
      ASSERT_EQ(values_of(context.to_host(outputs.at(0))), times(values, 5)) << turns << " turns, from " << from;
      ASSERT_EQ(values_of(context.to_host(outputs.at(1))), times({values.begin(), values.begin() + n}, 6))
          << turns << " turns, from " << from;
    }
  }
}

TEST(GpuExecutor, SaysWhatFailedOnTheDevice) {
  GpuPlan b;
  b.plan.kernels.push_back({"guard", "a test's kernel", "an index read from a tensor is out of range (at model.py:3)"});
  const Slot two = b.constant(2), large = b.PlanBuilder::add(ShapeOp::Lt, b.constant(10), b.elements);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {KernelCall{2, {}, {large}, b.one, b.one, {b.one, b.one, b.one}, 1, b.zero},
                  b.launch(b.scale, {x, y}, {two})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  Context context(Model::load(b.program()));
  EXPECT_EQ(error_of([&] { context.run({{tensor_of(counting(11), {11})}}); }),
            "an index read from a tensor is out of range (at model.py:3)");
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
            times(counting(10), 2));
}

TEST(GpuExecutor, SaysWhatMemoryWasAskedFor) {
  Context context(Model::load(gpu_scaled_sum()));
  auto queue = open_device(kGpu)->make_queue();
  const QueueScope scope(*queue);
  queue->planned_bytes = std::uint64_t{3} << 20;
  const std::string message = error_of([&] { queue->allocate(std::size_t{1} << 43); });
  EXPECT_NE(message.find("8388608.0 MiB were asked for"), std::string::npos) << message;
  EXPECT_NE(message.find("planned peak is 3.0 MiB"), std::string::npos) << message;
  EXPECT_EQ(values_of(context.to_host(context.run({{tensor_of(counting(10), {10})}}).outputs.at(0))),
            times(counting(10), 5));
}

TEST(GpuExecutor, RefusesADeviceThatIsNotThere) {
  EXPECT_NE(error_of([] { open_device({DeviceType::CUDA, 99}); }).find("there is no device cuda:99"),
            std::string::npos);
}

TEST(GpuExecutor, HostTimeOfALaunch) {
  for (const bool recording : {false, true}) {
    GpuPlan b;
    const Slot one = b.constant(1);
    const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                   y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
    b.plan.steps.push_back(b.launch(b.scale, {x, y}, {one}));
    for (int k = 0; k < 99; ++k) b.plan.steps.push_back(b.launch(b.scale, {y, y}, {one}));
    b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
    Context context(Model::load(b.program()));
    context.set_recording(recording);
    auto queue = open_device(kGpu)->make_queue();
    Tensor given;
    {
      const QueueScope scope(*queue);
      given = on_device(*queue, tensor_of(counting(128), {128}));
      queue->wait();
    }
    std::vector<Tensor> outputs;
    for (int k = 0; k < 5; ++k) context.run_into({&given, 1}, outputs);
    context.wait();
    std::vector<double> queued, done;
    for (int k = 0; k < 50; ++k) {
      const auto start = std::chrono::steady_clock::now();
      context.run_into({&given, 1}, outputs);
      const auto after = std::chrono::steady_clock::now();
      context.wait();
      const auto end = std::chrono::steady_clock::now();
      queued.push_back(std::chrono::duration<double, std::micro>(after - start).count());
      done.push_back(std::chrono::duration<double, std::micro>(end - start).count());
    }
    std::sort(queued.begin(), queued.end());
    std::sort(done.begin(), done.end());
    fmt::print("100 launches{}: queued in {:.1f} us (min {:.1f}), done after {:.1f} us\n",
               recording ? ", recorded" : "", queued[25], queued[0], done[25]);
    EXPECT_LT(queued[25], 1000);
    EXPECT_EQ(values_of(context.to_host(outputs.at(0))), counting(128));
  }
}

TEST_F(Gpu, CopiesBetweenLayouts) {
  const QueueScope scope(*queue);
  std::mt19937 random(11);
  for (DType dtype : {DType::U8, DType::BF16, DType::F32, DType::F64, DType::I64}) {
    for (int k = 0; k < 40; ++k) {
      const std::size_t rank = random() % 6;
      BoundView from{dtype, {}, {}}, to{dtype, {}, {}};
      auto layout = [&](BoundView& v) {
        v.strides.assign(rank, 0);
        std::vector<std::size_t> order(rank);
        for (std::size_t d = 0; d < rank; ++d) order[d] = d;
        std::shuffle(order.begin(), order.end(), random);
        std::int64_t next = 1 + static_cast<std::int64_t>(random() % 2);
        for (std::size_t d : order) {
          v.strides[d] = next;
          next *= v.sizes[d] + static_cast<std::int64_t>(random() % 2);
        }
      };
      for (std::size_t d = 0; d < rank; ++d) from.sizes.push_back(1 + static_cast<std::int64_t>(random() % 7));
      to.sizes = from.sizes;
      layout(from);
      layout(to);
      const Tensor memory = random_memory(from, random),
                   landing = Tensor::empty(dtype, {layout_span(to.sizes, to.strides)});
      Tensor source = on_device(*queue, memory), target = on_device(*queue, landing);
      source.sizes = target.sizes = from.sizes;
      source.strides = from.strides;
      target.strides = to.strides;
      queue->copy(target, source);
      target.sizes = landing.sizes;
      target.strides = {1};
      ASSERT_EQ(numbers(to, on_host(*queue, target).bytes()), numbers(from, memory.bytes()))
          << short_name(dtype) << " case " << k;
    }
  }
}

}  // namespace
}  // namespace coil::runtime
