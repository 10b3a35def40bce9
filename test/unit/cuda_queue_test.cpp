// Order between recorded work on the driver of test/fake_cuda, which does what need not wait in a random order.
#include <gtest/gtest.h>

#include "fake_gpu.h"
#include "runtime/cuda/driver/queue.h"

namespace coil::runtime::cuda {
namespace {

TEST_F(FakeCuda, RecordedWorkBehindALibrarysWaitsForItWithoutMoreWork) {
  const std::shared_ptr<DeviceRuntime> runtime = open();
  const std::unique_ptr<Queue> queue = runtime->make_queue();
  const QueueScope scope(*queue);
  auto& cuda = static_cast<CudaQueue&>(*queue);
  const Tensor t = on_device(*queue, {0});
  const auto fill = [&](unsigned char value) {
    const auto address = reinterpret_cast<Address>(t.storage.data.get());
    cuda.driver().check(cuda.driver().fill_bytes(address, value, 4, cuda.stream()), "fill memory");
  };
  ASSERT_TRUE(queue->begin_recording());
  fill(1);
  cuda.in_flight().add_anything();
  cuda.end_library_work();
  EXPECT_TRUE(cuda.in_flight().none());
  fill(0);
  const std::unique_ptr<RecordedWork> recorded = queue->end_recording();
  EXPECT_EQ(machine->count("cuGraphAddEmptyNode"), 1u);
  for (int run = 0; run < 20; ++run) {
    queue->run_recorded(*recorded);
    Tensor host = tensor_of({5}, {1});
    queue->copy(host, t);
    queue->wait();
    EXPECT_EQ(values_of(host), std::vector<float>{0});
  }
}

}  // namespace
}  // namespace coil::runtime::cuda
