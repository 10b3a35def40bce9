#include "runtime/device.h"

#include "runtime/cuda/device.h"
#include "support/error.h"

namespace coil::runtime {

void Queue::set_allocator(std::function<Storage(std::size_t)>) {
  fail("{} takes no memory from its caller", to_string(device()));
}
void Queue::set_stream(void*) { fail("{} has no streams", to_string(device())); }

bool set_blocks(Launch& launch, std::size_t dimension, std::int64_t blocks, const std::string& kernel) {
  if (blocks <= 0) return false;
  if (blocks > (dimension == 0 ? 0x7fffffff : 0xffff))
    fail("kernel '{}' would need {} blocks along {}", kernel, blocks, "xyz"[dimension]);
  launch.grid[dimension] = static_cast<std::uint32_t>(blocks);
  return true;
}

std::shared_ptr<DeviceRuntime> open_device(Device device) {
  switch (device.type) {
    case DeviceType::CPU: return open_cpu();
    case DeviceType::CUDA: return cuda::open_cuda(device.index);
    case DeviceType::Meta: break;
  }
  fail("programs do not run on {}", to_string(device));
}

}  // namespace coil::runtime
