// The C interface to programs for a GPU, on the driver of test/fake_cuda.
#include <gtest/gtest.h>
#include <unistd.h>

#include "coil/runtime.h"
#include "error_of.h"
#include "fake_gpu.h"

namespace coil::runtime {
namespace {

/// y = x * 2, laid out in columns of two; t = x as rows of two; n = how many x there are.
Program columns() {
  GpuPlan b;
  const Slot two = b.constant(2), rows = b.PlanBuilder::add(ShapeOp::FloorDiv, b.elements, two);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}), y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {b.launch(b.scale, {x, y}, {two})};
  b.output("y", {y, DType::F32, {two, rows}, {b.one, two}, b.zero});
  b.output("t", {x, DType::F32, {rows, two}, {two, b.one}, b.zero});
  b.output("spread", {y, DType::F32, {rows}, {two}, b.zero});
  b.plan.outputs.push_back({"n", Output::Kind::Int, {}, b.elements});
  return b.program();
}

struct CDevice : FakeCuda {
  coil_model* model = nullptr;
  coil_context* context = nullptr;
  std::unique_ptr<Queue> queue = open()->make_queue();
  coil_tensor outputs[4] = {};

  void load_c(const Program& program) {
    const auto path = std::filesystem::temp_directory_path() / fmt::format("coil_c_device_{}.coil", ::getpid());
    save_package(program, path);
    model = coil_model_load(path.c_str());
    std::filesystem::remove(path);
    ASSERT_TRUE(model) << coil_last_error();
    context = coil_context_create(model);
    ASSERT_TRUE(context) << coil_last_error();
  }
  ~CDevice() override {
    for (coil_tensor& t : outputs) coil_tensor_release(&t);
    coil_context_free(context);
    coil_model_free(model);
  }

  static coil_tensor vector_at(void* data, std::int64_t size, bool on_device) { return {data, COIL_F32, 1, on_device, {size}, {1}, nullptr}; }
  std::vector<float> read(const coil_tensor& t) const {
    Tensor from{{std::shared_ptr<std::byte>(static_cast<std::byte*>(t.data), [](std::byte*) {}), 0, kGpu}, DType::F32, {t.sizes, t.sizes + t.rank}, {t.strides, t.strides + t.rank}, 0}, to = Tensor::empty(DType::F32, from.sizes);
    const QueueScope scope(*queue);
    queue->copy(to, from);
    return values_of(to);
  }
};

TEST_F(CDevice, OutputsComeToTheHostWithTheStridesThatTheyHave) {
  load_c(columns());
  std::vector<float> x = counting(6);
  const Tensor there = on_device(*queue, x);
  for (bool on_gpu : {false, true}) {
    const coil_tensor input = vector_at(on_gpu ? static_cast<void*>(there.bytes()) : x.data(), 6, on_gpu);
    ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 4), 0) << coil_last_error();
    for (const coil_tensor& t : outputs) EXPECT_EQ(t.on_device, 0);
    EXPECT_EQ(outputs[0].strides[0], 1);
    EXPECT_EQ(outputs[0].strides[1], 2);
    EXPECT_EQ(std::vector(static_cast<float*>(outputs[0].data), static_cast<float*>(outputs[0].data) + 6), times(x, 2));
    EXPECT_NE(outputs[1].data, x.data()) << "a copy";
    EXPECT_EQ(static_cast<float*>(outputs[1].data)[5], x[5]);
    EXPECT_EQ(outputs[2].strides[0], 1) << "dense where there were holes";
    EXPECT_EQ(static_cast<float*>(outputs[2].data)[1], 2 * x[2]);
    EXPECT_EQ(*static_cast<std::int64_t*>(outputs[3].data), 6);
    for (coil_tensor& t : outputs) {
      EXPECT_TRUE(t.owner);
      coil_tensor_release(&t);
    }
  }
}

TEST_F(CDevice, OutputsStayOnTheDevice) {
  load_c(columns());
  const Tensor x = on_device(*queue, counting(6));
  const coil_tensor input = vector_at(x.bytes(), 6, true);
  ASSERT_EQ(coil_context_stay_on_device(context, nullptr), 0) << coil_last_error();
  ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 4), 0) << coil_last_error();
  for (coil_tensor& t : outputs) coil_tensor_release(&t);
  machine->calls.clear();
  ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 4), 0) << coil_last_error();
  EXPECT_EQ(machine->count("cuStreamSynchronize"), 0u) << "a run waits for the device";
  EXPECT_EQ(machine->count("cuMem"), 0u) << "memory that was let go of is used again, and nothing is copied";
  ASSERT_EQ(coil_context_wait(context), 0);
  EXPECT_EQ(outputs[0].on_device, 1);
  EXPECT_TRUE(outputs[0].owner);
  EXPECT_EQ(outputs[0].strides[1], 2);
  EXPECT_EQ(read(outputs[2]), (std::vector<float>{-6, -2, 2}));
  EXPECT_EQ(outputs[1].data, x.bytes()) << "a view of the input";
  EXPECT_EQ(outputs[1].owner, nullptr);
  EXPECT_EQ(outputs[3].on_device, 0);
  EXPECT_EQ(*static_cast<std::int64_t*>(outputs[3].data), 6);
  void* held = coil_retain(outputs[0].owner);
  coil_tensor other[4] = {};
  coil_tensor_release(&outputs[0]);
  ASSERT_EQ(coil_context_run(context, &input, 1, other, 4), 0);
  EXPECT_NE(other[0].data, outputs[2].data) << "two outputs share the block, of which one is still there";
  coil_free(held);
  for (coil_tensor& t : other) coil_tensor_release(&t);
}

TEST_F(CDevice, OutputsOutliveTheContext) {
  load_c(columns());
  std::vector<float> x = counting(6);
  const coil_tensor input = vector_at(x.data(), 6, false);
  ASSERT_EQ(coil_context_stay_on_device(context, nullptr), 0);
  ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 4), 0) << coil_last_error();
  ASSERT_EQ(coil_context_wait(context), 0);
  coil_context_free(std::exchange(context, nullptr));
  coil_model_free(std::exchange(model, nullptr));
  EXPECT_EQ(read(outputs[1]), x) << "the input's copy on the device is the output's own";
  for (coil_tensor& t : outputs) coil_tensor_release(&t);
  EXPECT_EQ(machine->used[0], 0u);
}

TEST_F(CDevice, TheCallersAllocatorGivesMemoryOfTheDevice) {
  load_c(columns());
  struct Caller {
    Queue& queue;
    std::vector<Storage> taken;
    int returned = 0;
  } caller{*queue, {}};
  auto allocate = [](std::size_t bytes, void* user) -> void* {
    auto& c = *static_cast<Caller*>(user);
    const QueueScope scope(c.queue);
    c.taken.push_back(c.queue.allocate(bytes));
    return c.taken.back().data.get();
  };
  const Tensor x = on_device(*queue, counting(6));
  const coil_tensor input = vector_at(x.bytes(), 6, true);
  ASSERT_EQ(coil_context_set_allocator(context, allocate, [](void*, void* user) { ++static_cast<Caller*>(user)->returned; }, &caller), 0);
  ASSERT_EQ(coil_context_stay_on_device(context, nullptr), 0);
  ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 4), 0) << coil_last_error();
  ASSERT_EQ(coil_context_wait(context), 0);
  ASSERT_EQ(caller.taken.size(), 1u);
  EXPECT_EQ(outputs[0].data, caller.taken[0].data.get());
  EXPECT_EQ(outputs[0].owner, nullptr);
  EXPECT_TRUE(outputs[3].owner);
  EXPECT_EQ(read(outputs[0]), (std::vector<float>{-6, -2, 2, -4, 0, 4}));
  coil_tensor few[1] = {};
  EXPECT_EQ(coil_context_run(context, &input, 1, few, 1), 1);
  EXPECT_EQ(caller.returned, 1);
}

TEST_F(CDevice, WaitingSaysWhatFailed) {
  GpuPlan b;
  b.plan.kernels.push_back({"guard", "a test's kernel", "an index read from a tensor is out of range (at model.py:3)"});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}), y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {KernelCall{2, {}, {b.PlanBuilder::add(ShapeOp::Lt, b.constant(10), b.elements)}, b.one, b.one, {b.one, b.one, b.one}, 1, b.zero}, b.launch(b.scale, {x, y}, {b.constant(2)})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  load_c(b.program());
  const Tensor many = on_device(*queue, counting(11));
  const coil_tensor input = vector_at(many.bytes(), 11, true);
  EXPECT_EQ(coil_context_run(context, &input, 1, outputs, 1), 1) << "results on the host are those of a run that went well";
  EXPECT_STREQ(coil_last_error(), "an index read from a tensor is out of range (at model.py:3)");
  EXPECT_EQ(outputs[0].data, nullptr);
  ASSERT_EQ(coil_context_stay_on_device(context, nullptr), 0);
  ASSERT_EQ(coil_context_run(context, &input, 1, outputs, 1), 0) << coil_last_error();
  EXPECT_EQ(coil_context_wait(context), 1);
  EXPECT_STREQ(coil_last_error(), "an index read from a tensor is out of range (at model.py:3)");
  EXPECT_EQ(coil_context_wait(context), 0);
}

TEST_F(CDevice, WhatBelongsToNoDeviceIsRefused) {
  float data[4] = {};
  coil_tensor t = vector_at(data, 4, true), host = vector_at(data, 4, false);
  EXPECT_EQ(coil_tensor_copy(&host, &t), 1);
  EXPECT_STREQ(coil_last_error(), "a tensor is said to lie on a device (on_device is 1), but only memory of the host is taken here");
  t.on_device = 2;
  EXPECT_EQ(coil_tensor_copy(&host, &t), 1);
  EXPECT_STREQ(coil_last_error(), "a tensor's on_device is 2; it is 0 for memory of the host and 1 for memory of the program's device");
  load_c(scaled_sum());
  EXPECT_EQ(coil_context_stay_on_device(context, nullptr), 1);
  EXPECT_EQ(std::string(coil_last_error()).rfind("the program runs on the cpu", 0), 0u) << coil_last_error();
  EXPECT_EQ(coil_context_wait(context), 0);
  EXPECT_EQ(coil_context_stay_on_device(nullptr, nullptr), 1);
  EXPECT_EQ(coil_context_wait(nullptr), 1);
}

}  // namespace
}  // namespace coil::runtime
