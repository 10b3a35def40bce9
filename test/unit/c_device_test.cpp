// The C interface to programs for a GPU, on the driver of test/fake_cuda.
#include <gtest/gtest.h>
#include <unistd.h>

#include "coil/runtime.h"
#include "error_of.h"
#include "fake_gpu.h"
#include "runtime/plan/package.h"

namespace coil::runtime {
namespace {

/// y = x * 2, laid out in columns of two; t = x as rows of two; n = how many x there are.
StoredProgram columns() {
  GpuPlan b;
  const Slot two = b.constant(2), rows = b.PlanBuilder::add(ShapeOp::FloorDiv, b.elements, two);
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
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

  void load_c(const StoredProgram& program) {
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

  static coil_tensor vector_at(void* data, std::int64_t size, bool on_device) {
    return {data, COIL_F32, 1, on_device, {size}, {1}, nullptr};
  }
  std::vector<float> read(const coil_tensor& t) const {
    Tensor from{{std::shared_ptr<std::byte>(static_cast<std::byte*>(t.data), [](std::byte*) {}), 0, kGpu},
                DType::F32,
                {t.sizes, t.sizes + t.rank},
                {t.strides, t.strides + t.rank},
                0},
        to = Tensor::empty(DType::F32, from.sizes);
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
  ASSERT_EQ(coil_context_set_allocator(
                context, allocate, [](void*, void* user) { ++static_cast<Caller*>(user)->returned; }, &caller),
            0);
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
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "x"}),
                 y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = b.bytes});
  b.plan.steps = {KernelCall{2,
                             {},
                             {b.PlanBuilder::add(ShapeOp::Lt, b.constant(10), b.elements)},
                             b.one,
                             b.one,
                             {b.one, b.one, b.one},
                             1,
                             b.zero},
                  b.launch(b.scale, {x, y}, {b.constant(2)})};
  b.output("y", {y, DType::F32, {b.elements}, {b.one}, b.zero});
  load_c(b.program());
  const Tensor many = on_device(*queue, counting(11));
  const coil_tensor input = vector_at(many.bytes(), 11, true);
  EXPECT_EQ(coil_context_run(context, &input, 1, outputs, 1), 1)
      << "results on the host are those of a run that went well";
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
  EXPECT_STREQ(coil_last_error(),
               "a tensor is said to lie on a device (on_device is 1), but only memory of the host is taken here");
  t.on_device = 2;
  EXPECT_EQ(coil_tensor_copy(&host, &t), 1);
  EXPECT_STREQ(coil_last_error(),
               "a tensor's on_device is 2; it is 0 for memory of the host and 1 for memory of the program's device");
  load_c(scaled_sum());
  EXPECT_EQ(coil_context_stay_on_device(context, nullptr), 1);
  EXPECT_EQ(std::string(coil_last_error()).rfind("the program runs on the cpu", 0), 0u) << coil_last_error();
  EXPECT_EQ(coil_context_wait(context), 0);
  EXPECT_EQ(coil_context_stay_on_device(nullptr, nullptr), 1);
  EXPECT_EQ(coil_context_wait(nullptr), 1);
}

/// A queue with the kernels of gpu_plans.h, as programs written as C++ use it.
struct CQueue : CDevice {
  const std::string text = kGpuKernels;
  const void* binaries[1] = {text.data()};
  const size_t bytes[1] = {text.size()};
  coil_queue* q = coil_queue_open("cuda:0", "sm_75", binaries, bytes, 1);
  void* owner = nullptr;

  CQueue() {
    if (!q) throw std::runtime_error(coil_last_error());
  }
  ~CQueue() override {
    coil_queue_close(q);
    coil_free(owner);
  }
  void* word(std::int64_t v) const { return reinterpret_cast<void*>(v); }
};

TEST_F(CQueue, DescribesTensorsToTheCopyEngine) {
  void* at = coil_queue_alloc(q, 4096, &owner);
  ASSERT_TRUE(at) << coil_last_error();
  alignas(64) std::uint64_t map[16];
  const std::int64_t box[] = {1, 8, 16}, sizes[] = {1, 9, 20}, strides[] = {4, 80, 4}, wrong[] = {720, 84, 4};
  ASSERT_EQ(coil_queue_tensor_map(q, 7, 2, 3, box, sizes, strides, at, map), 0) << coil_last_error();
  EXPECT_EQ(map[0], reinterpret_cast<std::uint64_t>(at));
  EXPECT_EQ(std::vector(map + 5, map + 8), (std::vector<std::uint64_t>{20, 9, 1})) << "the innermost comes first";
  EXPECT_EQ(std::vector(map + 10, map + 12), (std::vector<std::uint64_t>{80, 16})) << "one element has any stride";
  EXPECT_EQ(coil_queue_tensor_map(q, 7, 2, 3, box, sizes, wrong, at, map), 1);
  EXPECT_NE(std::string(coil_last_error()).find("of 20, 9, 1 elements by 4, 84, 720 bytes"), std::string::npos);
  EXPECT_EQ(coil_queue_tensor_map(q, 7, 2, 6, box, sizes, strides, at, map), 1);
  EXPECT_STREQ(coil_last_error(), "a descriptor is of a tensor of 1 to 5 dimensions");
}

TEST_F(CQueue, CopiesLaunchesAndBringsBack) {
  std::vector<float> x = counting(6);
  void* at = coil_queue_alloc(q, 24, &owner);
  ASSERT_TRUE(at && owner) << coil_last_error();
  coil_tensor there = vector_at(at, 6, true), here = vector_at(x.data(), 6, false);
  ASSERT_EQ(coil_queue_copy(q, &there, &here), 0) << coil_last_error();
  const void* scale = coil_queue_kernel(q, "scale");
  ASSERT_TRUE(scale) << coil_last_error();
  void* words[] = {at, at, word(3), word(6), nullptr};
  const std::int64_t one[] = {1, 1, 1}, none[] = {1, 0, 1}, many[] = {1, 0x10000, 1};
  machine->calls.clear();
  EXPECT_EQ(coil_queue_launch(q, scale, words, 5, none, 128, 0, 0), 0);
  EXPECT_EQ(machine->count("cuLaunchKernel"), 0u);
  EXPECT_EQ(coil_queue_launch(q, scale, words, 5, many, 128, 0, 0), 1);
  EXPECT_STREQ(coil_last_error(), "kernel 'scale' would need 65536 blocks along y");
  for (int launch = 0; launch < 2; ++launch)
    EXPECT_EQ(coil_queue_launch(q, scale, words, 5, one, 128, 0, 1), 0) << coil_last_error();
  EXPECT_EQ(machine->count("cuLaunchKernelEx"), 1u) << "only the second is behind one that lets it begin early";
  EXPECT_EQ(machine->count("cuStreamSynchronize"), 0u);
  // Columns of two keep their strides; every other element becomes dense.
  coil_tensor columns{at, COIL_F32, 2, 1, {2, 3}, {1, 2}, coil_retain(owner)},
      spread{at, COIL_F32, 1, 1, {3}, {2}, nullptr};
  ASSERT_EQ(coil_queue_bring(q, &columns), 0) << coil_last_error();
  ASSERT_EQ(coil_queue_bring(q, &spread), 0) << coil_last_error();
  EXPECT_EQ(columns.on_device + spread.on_device, 0);
  EXPECT_EQ(columns.strides[1], 2);
  EXPECT_EQ(spread.strides[0], 1);
  EXPECT_EQ(std::vector(static_cast<float*>(columns.data), static_cast<float*>(columns.data) + 6), times(x, 9));
  EXPECT_EQ(static_cast<float*>(spread.data)[2], 9 * x[4]);
  ASSERT_EQ(coil_queue_bring(q, &spread), 0) << "what is on the host stays as it is";
  coil_tensor_release(&columns);
  coil_tensor_release(&spread);
}

TEST_F(CQueue, WordsAndFailuresAreToldAfterWaiting) {
  std::int64_t* told = coil_queue_words(q, 2);
  ASSERT_TRUE(told) << coil_last_error();
  EXPECT_EQ(told[0] + told[1], 0);
  void* words[] = {word(1), told + 1};
  const std::int64_t one[] = {1, 1, 1};
  ASSERT_EQ(coil_queue_launch(q, coil_queue_kernel(q, "guard"), words, 2, one, 1, 0, 0), 0) << coil_last_error();
  ASSERT_EQ(coil_queue_wait(q), 0);
  EXPECT_EQ(told[1], 1);
  machine->faults["cuStreamSynchronize"] = {700};
  EXPECT_EQ(coil_queue_wait(q), 1);
  EXPECT_NE(std::string(coil_last_error()).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << coil_last_error();
}

/// Tells how its operands are aligned, and takes scratch memory.
class Seen final : public LibraryOp {
 public:
  explicit Seen(Queue& queue) : queue_(queue) {}
  void prepare(std::span<const BoundView> in, std::span<const BoundView>) override { alignment_ = in[0].alignment; }
  std::size_t workspace_bytes() const override { return 4; }
  void run(std::span<const void* const>, std::span<void* const> out, void* workspace) override {
    Tensor value = tensor_of({static_cast<float>(alignment_)}, {1}), scratch = value, to = value;
    scratch.storage = at(workspace), to.storage = at(out[0]);
    queue_.copy(scratch, value);
    queue_.copy(to, scratch);
  }

 private:
  Storage at(void* data) const {
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(data), [](std::byte*) {}), 4, queue_.device()};
  }
  Queue& queue_;
  std::int64_t alignment_ = 0;
};

TEST_F(CQueue, OperationsAreToldWhereTheirOperandsLie) {
  define_library_op(DeviceType::CUDA, "test.seen",
                    [](const Attributes&, Queue& queue) { return std::make_unique<Seen>(queue); });
  coil_op* op = coil_op_create_on(q, "test.seen");
  ASSERT_TRUE(op) << coil_last_error();
  auto* at = static_cast<char*>(coil_queue_alloc(q, 256, &owner));
  for (std::int64_t offset : {0, 4, 8, 32, 12}) {
    const coil_tensor in = vector_at(at + offset, 1, true), out = vector_at(at + 128, 1, true);
    ASSERT_EQ(coil_op_run(op, &in, 1, &out, 1), 0) << coil_last_error();
    ASSERT_EQ(coil_queue_wait(q), 0);
    EXPECT_EQ(read(out).at(0), offset % 16 ? offset % 8 ? 4 : 8 : 16);
  }
  float value = 0;
  const coil_tensor host = vector_at(&value, 1, false), out = vector_at(at, 1, true);
  EXPECT_EQ(coil_op_run(op, &host, 1, &out, 1), 1);
  EXPECT_STREQ(coil_last_error(), "test.seen takes memory of cuda:0, which an operand does not lie in");
  coil_op_destroy(op);
  EXPECT_EQ(coil_op_create_on(q, "test.none"), nullptr);
  EXPECT_STREQ(coil_last_error(), "this runtime has no library operation 'test.none' for cuda:0");
}

TEST_F(CQueue, RefusesWhatIsNotThere) {
  EXPECT_EQ(coil_queue_open("cpu", "", nullptr, nullptr, 0), nullptr);
  EXPECT_STREQ(coil_last_error(), "queues are of GPUs: the cpu has none");
  EXPECT_EQ(coil_queue_open("cuda:7", "", nullptr, nullptr, 0), nullptr);
  EXPECT_NE(std::string(coil_last_error()).find("there is no device cuda:7"), std::string::npos) << coil_last_error();
  EXPECT_EQ(coil_queue_kernel(q, "absent"), nullptr);
  EXPECT_STREQ(coil_last_error(), "kernel 'absent' is in none of the program's binaries");
  const std::int64_t one[] = {1, 1, 1};
  EXPECT_EQ(coil_queue_launch(q, nullptr, nullptr, 0, one, 1, 0, 0), 1);
  EXPECT_EQ(coil_queue_wait(nullptr), 1);
  EXPECT_STREQ(coil_last_error(), "no queue was given");
  machine->faults["cuMemAlloc_v2"] = {2, 0, 2};
  EXPECT_EQ(coil_queue_alloc(q, 100, &owner), nullptr);
  EXPECT_NE(std::string(coil_last_error()).find("out of memory on cuda:0"), std::string::npos) << coil_last_error();
}

}  // namespace
}  // namespace coil::runtime
