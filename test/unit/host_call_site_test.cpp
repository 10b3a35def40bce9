// Library operations that programs of earlier versions leave to the run: the CPU's, on copies.
#include "runtime/device/host_call_site.h"

#include "runtime/device/device.h"
#include "runtime/executor/executor.h"
#include "runtime_calls.h"
#include "runtime_plans.h"
#include "support/error.h"

namespace coil::runtime {
namespace {

constexpr Device kDevice{DeviceType::CUDA, 0};

/// A device whose memory is the host's, with every copy counted.
class FakeQueue : public Queue {
 public:
  Device device() const override { return kDevice; }
  void begin() override {}
  void end() noexcept override {}
  Storage allocate(std::size_t bytes) override {
    Storage s = Storage::allocate(bytes);
    s.device = kDevice;
    return s;
  }
  std::span<std::int64_t> shared_words(std::size_t count) override {
    words.assign(count, 0);
    return words;
  }
  void copy(const Tensor& to, const Tensor& from) override {
    EXPECT_FALSE(recording);
    to_host += to.device() == Device{} && from.device() == kDevice;
    to_device += to.device() == kDevice && from.device() == Device{};
    copy_strided(to, from);
  }
  void launch(const Launch&, void* const*) override { FAIL() << "nothing to launch"; }
  std::unique_ptr<LibraryOp> make_op(const std::string& op, const Attributes& a) override {
    return make_library_op(*this, op, a);
  }
  bool runs_ahead() const override { return true; }
  void wait() override { ++waits; }
  bool begin_recording() override { return recording = true; }

  std::vector<std::int64_t> words;
  int to_host = 0, to_device = 0, waits = 0;
  bool recording = false;
};

TEST(HostCallSite, GivesWhatTheCpuGivesForAnyLayout) {
  FakeQueue queue;
  for (const auto& [sizes, strides] : std::vector<std::pair<Sizes, Sizes>>{
           {{3, 2, 12}, {24, 12, 1}}, {{3, 2, 12}, {1, 36, 3}}, {{5, 1, 12}, {0, 0, 1}}}) {
    Operands in;
    in.add({DType::F32, sizes, strides});
    in.add(dense_view(DType::F32, {sizes[1], 4}));
    in.add({DType::F32, {12, 4}, {1, 12}});
    const std::vector<BoundView> out{{DType::F32, {sizes[0], sizes[1], 4}, {4, 4 * sizes[0], 1}},
                                     dense_view(DType::F32, {sizes[1], 4})};
    const Attributes attributes{{"mode", std::string("gru")}};
    const std::vector<Tensor> expected = run_call("recurrent", attributes, in, out);
    auto call = queue.make_op("recurrent", attributes);
    call->prepare(in.views, out);
    EXPECT_TRUE(call->runs_on_host());
    EXPECT_EQ(call->workspace_bytes(), 0u);
    std::vector<const void*> inputs;
    for (const Tensor& t : in.tensors) inputs.push_back(t.bytes());
    for (int round = 0; round < 2; ++round) {
      std::vector<Tensor> memory;
      std::vector<void*> outputs;
      for (const Tensor& t : expected) outputs.push_back(memory.emplace_back(Tensor::empty(t.dtype, t.sizes)).bytes());
      queue.to_host = queue.to_device = queue.waits = 0;
      call->run(inputs, outputs, nullptr);
      EXPECT_EQ(queue.to_host, 3);
      EXPECT_EQ(queue.to_device, 2);
      EXPECT_GE(queue.waits, 2);
      for (std::size_t i = 0; i < out.size(); ++i)
        expect_near(numbers(out[i], memory[i].bytes()), numbers(out[i], expected[i].bytes()), 0);
    }
  }
}

TEST(HostCallSite, OnlyForOperationsThatWorkOnCopies) {
  EXPECT_TRUE(carries_out("svd", DeviceType::CUDA));
  for (const char* op : {"sort_tiles", "device_copy", "no_such_operation"})
    EXPECT_FALSE(carries_out(op, DeviceType::CUDA)) << op;
  const DeviceType other = DeviceType::register_kind("bare");
  EXPECT_TRUE(carries_out("convolution", other));
  EXPECT_FALSE(carries_out("all_reduce", other));
  EXPECT_FALSE(carries_out("assert_aligned", other));
  FakeQueue queue;
  try {
    queue.make_op("device_copy", {});
    FAIL() << "made";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "this runtime has no library operation 'device_copy' on cuda:0");
  }
}

TEST(HostCallSite, AnAddressIsLookedAtWhereItIs) {
  FakeQueue queue;
  auto call = queue.make_op("assert_aligned", {{"bytes", std::int64_t{16}}, {"name", std::string("input 'x'")}});
  const BoundView view = dense_view(DType::F32, {3});
  call->prepare({&view, 1}, {});
  EXPECT_FALSE(call->runs_on_host());
  const void* far = reinterpret_cast<const void*>(0x1000);  // no memory of the host
  call->run({&far, 1}, {}, nullptr);
  const void* odd = reinterpret_cast<const void*>(0x1008);
  EXPECT_THROW(call->run({&odd, 1}, {}, nullptr), Error);
}

class FakeRuntime : public DeviceRuntime {
 public:
  Device device() const override { return kDevice; }
  std::unique_ptr<LoadedKernels> load(const std::string&, std::span<const std::vector<std::byte>>) override {
    struct None : LoadedKernels {
      const void* find(const std::string&) const override { return nullptr; }
    };
    return std::make_unique<None>();
  }
  std::unique_ptr<Queue> make_queue() override { return std::make_unique<FakeQueue>(); }
};

TEST(HostCallSite, ProgramsWithOneAreNotRecorded) {
  PlanBuilder b;
  b.plan.device = kDevice;
  const Slot n = b.constant(4), one = b.constant(1), zero = b.constant(0), bytes = b.constant(32);
  b.plan.inputs.push_back({"counts", DType::I64, {n}, {one}});
  const BufferId x = b.buffer({.kind = BufferKind::Input, .name = "counts"});
  const BufferId y = b.buffer({.kind = BufferKind::Output, .name = "y", .bytes = bytes});
  const View whole{x, DType::I64, {n}, {one}, zero}, result{y, DType::I64, {n}, {one}, zero};
  b.plan.steps = {ExternCall{"repeat_positions", {}, {whole}, {result}}};
  b.output("y", result);
  Context context(Model::load(StoredProgram{std::move(b.plan), {}, {}, ""}, std::make_shared<FakeRuntime>()));
  context.set_recording(true);
  Tensor counts = Tensor::empty(DType::I64, {4});
  const std::int64_t values[] = {1, 0, 2, 1}, expected[] = {0, 2, 2, 3};
  std::copy_n(values, 4, counts.data<std::int64_t>());
  for (int run = 0; run < 4; ++run) {
    const RunResult got = context.run({&counts, 1});
    EXPECT_TRUE(std::equal(expected, expected + 4, reinterpret_cast<const std::int64_t*>(got.outputs[0].bytes())));
  }
}

}  // namespace
}  // namespace coil::runtime
