#include "runtime/device/device.h"

#include <map>
#include <mutex>

#include "support/error.h"
#include "support/out_of_memory.h"

namespace coil::runtime {

std::span<std::int64_t> Queue::shared_words(std::size_t count) { return shared_words_.emplace_back(count, 0); }

std::unique_ptr<LibraryOp> Queue::make_op(const std::string& op, const Attributes& attributes) {
  return make_library_op(*this, op, attributes);
}

void Queue::fail_for_memory(std::size_t bytes) const {
  fail_out_of_memory("out of memory on {}: {} bytes were asked for; the program's planned peak is {}",
                     to_string(device()), bytes, planned_bytes);
}

void Queue::make_tensor_map(const TensorMapShape&, void*, void*) {
  fail("kernels on {} take no descriptors of tensors", to_string(device()));
}

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

namespace {

struct Openers {
  std::mutex mutex;
  std::map<DeviceType, DeviceOpener> by_type;
};

Openers& openers() {
  static Openers o;
  return o;
}

}  // namespace

void register_device(DeviceType type, DeviceOpener open) {
  std::lock_guard lock(openers().mutex);
  if (!openers().by_type.emplace(type, std::move(open)).second)
    fail("devices of the type '{}' are registered already", to_string(Device{type}));
}

bool has_device(DeviceType type) {
  std::lock_guard lock(openers().mutex);
  return openers().by_type.contains(type);
}

std::shared_ptr<DeviceRuntime> open_device(Device device) {
  DeviceOpener open;
  {
    std::lock_guard lock(openers().mutex);
    if (auto found = openers().by_type.find(device.type); found != openers().by_type.end()) open = found->second;
  }
  if (!open) fail("programs do not run on {}", to_string(device));
  return open(device.index);
}

}  // namespace coil::runtime
